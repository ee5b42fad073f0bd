//! The deadline that keeps PostgreSQL running.
//!
//! A task of its own, so that no slow request to the API, the runner or PostgreSQL delays it: it sends the next
//! deadline as long as [`Fence::allow`] was last called with a term. When the whole agent stands still, nothing is
//! sent and the runner ends PostgreSQL: that is the point of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::clock;
use super::link::Runner;
use crate::control::FromAgent;

/// How often the deadline is moved.
const EVERY: Duration = Duration::from_millis(400);
/// How long a grant is valid.
pub const VALIDITY_MS: u64 = 2000;

/// The term that may serve, and until when it was last allowed to.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    term: Arc<AtomicI64>,
    until: Arc<AtomicU64>,
}

impl Fence {
    /// From now on the deadline is moved for `term`, or not any more.
    pub fn allow(&self, term: Option<i64>) {
        self.term.store(term.unwrap_or(0), Ordering::Relaxed);
    }

    /// The term that may serve.
    pub fn term(&self) -> Option<i64> {
        Some(self.term.load(Ordering::Relaxed)).filter(|t| *t > 0)
    }

    /// A deadline counted from now.
    pub fn deadline() -> u64 {
        clock::boot_ms() + VALIDITY_MS
    }

    /// Seconds until the last deadline that was sent; 0 when it is over.
    pub fn seconds_left(&self) -> f64 {
        self.until
            .load(Ordering::Relaxed)
            .saturating_sub(clock::boot_ms()) as f64
            / 1000.0
    }

    /// Moves the deadline now.
    pub fn extend(&self, runner: &Runner) {
        if self.term().is_some() {
            let until = Self::deadline();
            runner.tell(FromAgent::Extend { until });
            self.until.store(until, Ordering::Relaxed);
        }
    }

    /// Moves the deadline for ever.
    pub async fn run(self, runner: Runner) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.extend(&runner);
        }
    }
}
