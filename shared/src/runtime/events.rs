//! Events on the SampleDB (`events.k8s.io/v1`): what a person sees in `kubectl describe`.
//!
//! The same note again is one Event with a count, and is sent at most every [`QUIET`]. The Event's name comes from
//! what it says, so that a restart counts on instead of repeating it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::json;
use tokio::time::Instant;

use super::plan::Note;
use super::trigger::short;
use crate::api::SampleDb;
use crate::domain::conditions::truncated;

/// The same note is not sent again for this long.
pub const QUIET: Duration = Duration::from_mins(10);
/// What was sent longer ago is forgotten (the API server keeps Events for an hour).
const FORGET: Duration = Duration::from_hours(1);
/// The API's limit for a note.
const LONGEST: usize = 1024;

struct Sent {
    at: Instant,
    count: i32,
}

/// What to do with a note.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    First,
    Again(i32),
}

/// Publishes notes.
pub(crate) struct Recorder {
    client: Client,
    controller: &'static str,
    instance: String,
    sent: Mutex<HashMap<u64, Sent>>,
}

impl Recorder {
    pub(crate) fn new(client: Client, controller: &'static str, instance: String) -> Self {
        Self {
            client,
            controller,
            instance,
            sent: Mutex::default(),
        }
    }

    /// Publishes what was not published lately. A note that cannot be published is only logged.
    pub(crate) async fn publish(&self, db: &SampleDb, notes: &[Note]) {
        let reference = db.object_ref(&());
        for note in notes {
            let id = self.id(&reference, note);
            if let Err(error) = self.send(&reference, note, id).await {
                tracing::debug!(event = "note_failed", reason = note.reason, %error, "an Event could not be written");
            }
        }
    }

    fn id(&self, about: &ObjectReference, note: &Note) -> u64 {
        let Note {
            warning,
            reason,
            action,
            message,
        } = note;
        short(&json!([self.controller, about.uid, warning, reason, action, message]).to_string())
    }

    fn step(&self, id: u64, now: Instant) -> Step {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|_, s| now.saturating_duration_since(s.at) < FORGET);
        match sent.get_mut(&id) {
            None => {
                sent.insert(id, Sent { at: now, count: 1 });
                Step::First
            }
            Some(before) => {
                before.count += 1;
                if now.saturating_duration_since(before.at) < QUIET {
                    return Step::Nothing;
                }
                before.at = now;
                Step::Again(before.count)
            }
        }
    }

    async fn send(&self, about: &ObjectReference, note: &Note, id: u64) -> Result<(), kube::Error> {
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let name = format!("{}.{id:016x}", about.name.as_deref().unwrap_or_default());
        let count = match self.step(id, Instant::now()) {
            Step::Nothing => return Ok(()),
            Step::First => match events
                .create(&PostParams::default(), &self.event(about, note, &name))
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 409 => 2,
                other => return other.map(drop),
            },
            Step::Again(count) => count,
        };
        let series = EventSeries {
            count,
            last_observed_time: now(),
        };
        let patch = Patch::Merge(json!({"series": series}));
        match events.patch(&name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => events
                .create(&PostParams::default(), &self.event(about, note, &name))
                .await
                .map(drop),
            other => other.map(drop),
        }
    }

    fn event(&self, about: &ObjectReference, note: &Note, name: &str) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some(note.action.to_owned()),
            reason: Some(note.reason.to_owned()),
            note: Some(truncated(&note.message, LONGEST)),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            event_time: Some(now()),
            regarding: Some(about.clone()),
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(truncated(&self.instance, 128)),
            ..Event::default()
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "an Event says when it happened")]
fn now() -> MicroTime {
    MicroTime(jiff::Timestamp::now())
}
