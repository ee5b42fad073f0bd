//! Whether the other writers are there: by their Leases, judged by the local clock since each was last seen to change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio::time::Instant;

/// A writer whose Lease did not change for this long is absent.
pub const ABSENT: Duration = Duration::from_mins(1);
/// A writer that is there is looked for this often.
const CALM: Duration = Duration::from_secs(10);
/// A writer that is not there is looked for this often: its return should show at once.
const EAGER: Duration = Duration::from_secs(1);

/// What is known of one writer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    /// Nothing yet, or its Lease cannot be read: no alarm, because that says nothing of the writer.
    Unknown,
    /// It holds its Lease, which was first seen at this resourceVersion at that moment.
    Held { version: String, since: Instant },
    /// It gave its Lease back, or there is none.
    Released,
}

impl Sight {
    fn of(lease: Option<Lease>, before: &Self, now: Instant) -> Self {
        let Some(lease) = lease else { return Self::Released };
        let holder = lease.spec.and_then(|s| s.holder_identity).unwrap_or_default();
        if holder.is_empty() {
            return Self::Released;
        }
        let version = lease.metadata.resource_version.unwrap_or_default();
        match before {
            Self::Held { version: seen, since } if *seen == version => Self::Held {
                version,
                since: *since,
            },
            _ => Self::Held { version, since: now },
        }
    }

    fn is_absent(&self, now: Instant) -> bool {
        match self {
            Self::Unknown => false,
            Self::Held { since, .. } => now.saturating_duration_since(*since) >= ABSENT,
            Self::Released => true,
        }
    }
}

/// The writers that a controller reports on.
#[derive(Debug)]
pub(crate) struct Presence(Mutex<BTreeMap<&'static str, Sight>>);

impl Presence {
    pub(crate) fn new(managers: &'static [&'static str]) -> Self {
        Self(Mutex::new(
            managers.iter().map(|m| (*m, Sight::Unknown)).collect(),
        ))
    }

    fn sights(&self) -> MutexGuard<'_, BTreeMap<&'static str, Sight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is absent.
    pub(crate) fn absent(&self, now: Instant) -> Vec<&'static str> {
        self.sights()
            .iter()
            .filter(|(_, sight)| sight.is_absent(now))
            .map(|(manager, _)| *manager)
            .collect()
    }

    /// One look at one writer; whether it came or went.
    async fn look(&self, leases: &Api<Lease>, manager: &'static str) -> bool {
        let found = leases.get_opt(manager).await;
        let now = Instant::now();
        let mut sights = self.sights();
        let before = sights.get(manager).cloned().unwrap_or(Sight::Unknown);
        let after = match found {
            Ok(lease) => Sight::of(lease, &before, now),
            Err(error) => {
                tracing::debug!(event = "presence_unknown", writer = manager, %error, "a Lease could not be read");
                Sight::Unknown
            }
        };
        let changed = before.is_absent(now) != after.is_absent(now);
        sights.insert(manager, after);
        changed
    }

    /// Looks for everybody once: before the first pass, so that nobody is missed who is there.
    pub(crate) async fn look_once(&self, leases: &Api<Lease>) {
        let managers: Vec<_> = self.sights().keys().copied().collect();
        for manager in managers {
            self.look(leases, manager).await;
        }
    }

    /// Looks for one writer for ever, and calls `changed` whenever it came or went.
    pub(crate) async fn follow(
        self: Arc<Self>,
        leases: Api<Lease>,
        manager: &'static str,
        changed: impl Fn(),
    ) {
        let mut absent = self.absent(Instant::now()).contains(&manager);
        loop {
            tokio::time::sleep(if absent { EAGER } else { CALM }).await;
            self.look(&leases, manager).await;
            let now = self.absent(Instant::now()).contains(&manager);
            if now != absent {
                let says = if now { "is not there" } else { "is there again" };
                tracing::info!(event = "presence", writer = manager, "another writer {says}");
                absent = now;
                changed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, version: &str) -> Option<Lease> {
        let value = serde_json::json!({
            "metadata": {"name": "sampledb-a", "resourceVersion": version}, "spec": {"holderIdentity": holder},
        });
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_is_absent_when_its_lease_stands_still_or_was_given_back() {
        let start = Instant::now();
        let held = Sight::of(lease("pod", "1"), &Sight::Unknown, start);
        assert!(!held.is_absent(start + ABSENT / 2));
        let still = Sight::of(lease("pod", "1"), &held, start + ABSENT);
        assert!(still.is_absent(start + ABSENT), "its clock did not start anew");
        let renewed = Sight::of(lease("pod", "2"), &still, start + ABSENT);
        assert!(!renewed.is_absent(start + ABSENT));
        assert!(
            Sight::of(lease("", "3"), &renewed, start).is_absent(start),
            "given back"
        );
        assert!(Sight::of(None, &renewed, start).is_absent(start), "never there");
        assert!(
            !Sight::Unknown.is_absent(start),
            "no alarm before anything is known"
        );
    }
}
