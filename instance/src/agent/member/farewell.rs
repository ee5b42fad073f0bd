//! The end: of the pod, or of the agent's container alone.

use std::time::Duration;

use super::super::report::Standing;
use super::super::routing::Lead;
use super::Loop;
use crate::control::{FromAgent, Postgres, State};

/// How long the end of the pod waits for the slice to be emptied, and for the status to say so.
const FAREWELL: Duration = Duration::from_secs(1);
/// After an end that nobody asked for, so long is waited for the pod's end to show.
const LAST_WORD: Duration = Duration::from_secs(2);
/// PostgreSQL is stopped within the grace period of the pod.
const GRACE: Duration = Duration::from_secs(80);

impl Loop {
    /// Clients are led away, as far as the API allows within a second.
    pub(super) async fn leave(&mut self) {
        if self.left {
            return;
        }
        self.left = true;
        // What ends now was asked to.
        self.ran = false;
        // Also after a restart of the agent alone, which has published nothing itself.
        if self.was_open() {
            self.stand(Standing::Stopped);
        }
        let Some(term) = self.session.published.take() else {
            return;
        };
        let lead = Lead { term, filled: false };
        self.parts.routing.lead(lead);
        if !self.parts.routing.led(lead, FAREWELL).await {
            tracing::warn!("clients could not be led away within a second");
        }
    }

    /// The agent was told to end. In the end of a pod the runner ends first, so that nothing is left to do but to
    /// wait until the status says it. When PostgreSQL runs and is not being ended, only this container restarts: it
    /// is left alone, and the next agent goes on in place.
    pub async fn end(&mut self) {
        let ends = |s: &Option<State>| {
            s.as_ref()
                .is_none_or(|s| s.ending || s.postgres != Postgres::Running)
        };
        let mut states = self.states.clone();
        if !matches!(
            tokio::time::timeout(LAST_WORD, states.wait_for(ends)).await,
            Ok(Ok(_))
        ) {
            tracing::info!("PostgreSQL goes on: only the agent restarts");
            return;
        }
        self.leave().await;
        let stopped = |s: &Option<State>| {
            s.as_ref()
                .is_none_or(|s| matches!(s.postgres, Postgres::Stopped { .. }))
        };
        let _ = tokio::time::timeout(GRACE, states.wait_for(stopped)).await;
        self.parts.runner.tell(FromAgent::Leave);
        if self.parts.say.borrow().standing == Standing::Stopped {
            let mut reported = self.parts.reported.clone();
            let _ = tokio::time::timeout(FAREWELL, reported.wait_for(|s| *s == Standing::Stopped)).await;
        }
    }
}
