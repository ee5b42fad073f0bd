//! The Lease by which replicas agree on one that works.
//!
//! # Guarantees
//! - A Lease is taken only when it is free, released, or unchanged for its whole duration *by the local clock, since
//!   this process last saw it change*: no other machine's clock is trusted.
//! - Every write is a compare-and-swap on the resourceVersion.
//! - A leader that could not renew before its deadline, which is shorter than the duration, knows that it lost before
//!   anybody else can take over. The process ends then.
//! - A leader that is told to end gives the Lease back, so that another takes over at once.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::options::Options;

/// No single request of the election takes longer.
const REQUEST: Duration = Duration::from_secs(5);
/// After a failed renewal it is tried again so soon.
const AGAIN: Duration = Duration::from_millis(500);

/// What to do about a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is free: take it.
    Acquire,
    /// It is ours: renew it.
    Renew,
    /// It is another's, until then at least.
    Wait(Instant),
}

/// What to do about `lease` as `me`, when it was last seen to change at `observed_at`.
pub fn evaluate(lease: Option<&Lease>, me: &str, observed_at: Instant, now: Instant) -> Decision {
    let Some(spec) = lease.and_then(|l| l.spec.as_ref()) else {
        return Decision::Acquire;
    };
    match spec.holder_identity.as_deref() {
        None | Some("") => Decision::Acquire,
        Some(holder) if holder == me => Decision::Renew,
        Some(_) => {
            let seconds = spec
                .lease_duration_seconds
                .and_then(|s| u64::try_from(s).ok())
                .unwrap_or(15);
            let until = observed_at + Duration::from_secs(seconds);
            if now >= until {
                Decision::Acquire
            } else {
                Decision::Wait(until)
            }
        }
    }
}

/// Who leads, as this process knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is this process.
    pub leading: bool,
    /// The holder's identity; empty while nobody is known to hold it.
    pub holder: String,
}

/// The Lease was lost: another may be working now.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Lease {name} could not be renewed within {deadline:?} ({reason}); this process ends so that another can take over"
)]
pub struct Lost {
    name: String,
    deadline: Duration,
    reason: String,
}

/// One candidate for a Lease.
pub(crate) struct Elector {
    api: Api<Lease>,
    name: &'static str,
    me: String,
    duration: Duration,
    deadline: Duration,
    retry: Duration,
    seen: Option<Lease>,
    observed_at: Instant,
}

enum Attempt {
    Held,
    Wait(Instant),
    /// Somebody else wrote: look again.
    Again,
}

impl Elector {
    pub(crate) fn new(api: Api<Lease>, name: &'static str, me: String, options: &Options) -> Self {
        Self {
            api,
            name,
            me,
            duration: options.lease_duration,
            deadline: options.lease_renew_deadline,
            retry: options.lease_retry_period,
            seen: None,
            observed_at: Instant::now(),
        }
    }

    /// Gets the Lease, keeps it, and gives it back when `release` says so.
    pub(crate) async fn run(
        mut self,
        standing: &watch::Sender<Standing>,
        release: CancellationToken,
    ) -> Result<(), Lost> {
        if !self.acquire(standing, &release).await {
            return Ok(());
        }
        tracing::info!(
            event = "leading",
            lease = self.name,
            identity = self.me,
            "this process leads now"
        );
        let kept = self.keep(&release).await;
        standing.send_replace(Standing::default());
        if kept.is_ok() {
            self.release().await;
        }
        kept
    }

    async fn acquire(&mut self, standing: &watch::Sender<Standing>, release: &CancellationToken) -> bool {
        loop {
            // The Lease is valid from before the request: what the server stamped later only makes others wait longer.
            let attempt = tokio::time::timeout(REQUEST, self.attempt(true)).await;
            let pause = match attempt {
                Ok(Ok(Attempt::Held)) => {
                    standing.send_replace(Standing {
                        leading: true,
                        holder: self.me.clone(),
                    });
                    return true;
                }
                Ok(Ok(Attempt::Wait(until))) => {
                    self.retry.min(until.saturating_duration_since(Instant::now()))
                }
                Ok(Ok(Attempt::Again)) => Duration::from_millis(50),
                Ok(Err(error)) => {
                    tracing::warn!(event = "lease_failed", lease = self.name, %error, "the Lease could not be read or written");
                    self.retry
                }
                Err(_) => self.retry,
            };
            let holder = self.holder().to_owned();
            standing.send_if_modified(|s| {
                s.holder != holder && {
                    s.holder = holder;
                    true
                }
            });
            tokio::select! {
                () = release.cancelled() => return false,
                () = tokio::time::sleep(pause.max(Duration::from_millis(10))) => {}
            }
        }
    }

    async fn keep(&mut self, release: &CancellationToken) -> Result<(), Lost> {
        let mut renewed = Instant::now();
        let mut pause = self.retry;
        let mut failed: Option<String> = None;
        loop {
            tokio::select! {
                () = release.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            let sent = Instant::now();
            let deadline = self.deadline(renewed, sent, failed.is_some());
            if sent >= deadline {
                return Err(
                    self.lost(failed.unwrap_or_else(|| "this process was not run in time".to_owned()))
                );
            }
            match tokio::time::timeout_at(deadline.min(sent + REQUEST), self.attempt(failed.is_some())).await
            {
                Ok(Ok(Attempt::Held)) => (renewed, pause, failed) = (sent, self.retry, None),
                Ok(Ok(Attempt::Again)) => {
                    (pause, failed) = (
                        Duration::from_millis(20),
                        Some("it was changed by another".to_owned()),
                    );
                }
                Ok(Ok(Attempt::Wait(_))) => return Err(self.lost(format!("{} took it", self.holder()))),
                Ok(Err(error)) => (pause, failed) = (AGAIN, Some(error.to_string())),
                Err(_) => (pause, failed) = (AGAIN, Some("no answer in time".to_owned())),
            }
            pause = pause.min(
                deadline
                    .saturating_duration_since(Instant::now())
                    .max(Duration::from_millis(1)),
            );
        }
    }

    /// Until when a renewal may be tried. A process that was not run for a while (a busy machine) and has not failed
    /// yet tries once, as long as the Lease cannot have expired for others.
    fn deadline(&self, renewed: Instant, now: Instant, failed: bool) -> Instant {
        let deadline = renewed + self.deadline;
        if failed || now < deadline {
            deadline
        } else {
            renewed + self.duration.mul_f64(0.9)
        }
    }

    fn lost(&self, reason: String) -> Lost {
        Lost {
            name: self.name.to_owned(),
            deadline: self.deadline,
            reason,
        }
    }

    fn holder(&self) -> &str {
        self.seen
            .as_ref()
            .and_then(|l| l.spec.as_ref())
            .and_then(|s| s.holder_identity.as_deref())
            .unwrap_or_default()
    }

    async fn attempt(&mut self, look: bool) -> Result<Attempt, kube::Error> {
        if look || self.seen.is_none() {
            let found = self.api.get_opt(self.name).await?;
            if version(found.as_ref()) != version(self.seen.as_ref()) {
                self.observed_at = Instant::now();
            }
            self.seen = found;
        }
        match evaluate(self.seen.as_ref(), &self.me, self.observed_at, Instant::now()) {
            Decision::Wait(until) => Ok(Attempt::Wait(until)),
            Decision::Acquire | Decision::Renew => {
                self.write(&self.me, self.duration)
                    .await
                    .map(|written| match written {
                        Some(lease) => {
                            self.seen = Some(lease);
                            self.observed_at = Instant::now();
                            Attempt::Held
                        }
                        None => Attempt::Again,
                    })
            }
        }
    }

    /// Writes the Lease if it is still as it was seen; `None` when it is not.
    async fn write(&self, holder: &str, duration: Duration) -> Result<Option<Lease>, kube::Error> {
        let mut lease = self.seen.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.metadata.managed_fields = None;
        lease.spec = Some(Self::spec(
            lease.spec.take().unwrap_or_default(),
            holder,
            duration,
        ));
        let params = PostParams {
            field_manager: Some(self.name.to_owned()),
            ..PostParams::default()
        };
        let written = match &self.seen {
            Some(_) => self.api.replace(self.name, &params, &lease).await,
            None => self.api.create(&params, &lease).await,
        };
        match written {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the times in a Lease are for people; no decision reads them"
    )]
    fn spec(before: LeaseSpec, holder: &str, duration: Duration) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        let taken = !holder.is_empty() && before.holder_identity.as_deref() != Some(holder);
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)),
            acquire_time: if taken {
                Some(now.clone())
            } else {
                before.acquire_time
            },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(taken)),
            ..LeaseSpec::default()
        }
    }

    async fn release(&self) {
        match tokio::time::timeout(REQUEST, self.write("", Duration::from_secs(1))).await {
            Ok(Ok(Some(_))) => tracing::info!(
                event = "lease_released",
                lease = self.name,
                "the Lease was given back"
            ),
            Ok(Ok(None)) => tracing::warn!(
                event = "lease_changed",
                lease = self.name,
                "the Lease was no longer ours"
            ),
            Ok(Err(error)) => {
                tracing::warn!(event = "lease_failed", lease = self.name, %error, "the Lease could not be given back; others wait for its end");
            }
            Err(_) => tracing::warn!(
                event = "lease_failed",
                lease = self.name,
                "the Lease could not be given back in time; others wait for its end"
            ),
        }
    }
}

fn version(lease: Option<&Lease>) -> Option<&str> {
    lease.and_then(|l| l.metadata.resource_version.as_deref())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn lease(holder: Option<&str>, seconds: Option<i32>) -> Lease {
        Lease {
            metadata: ObjectMeta::default(),
            spec: Some(LeaseSpec {
                holder_identity: holder.map(ToOwned::to_owned),
                lease_duration_seconds: seconds,
                ..LeaseSpec::default()
            }),
        }
    }

    #[rstest]
    #[case::there_is_none(None, 0, "acquire")]
    #[case::released(Some(lease(Some(""), Some(1))), 0, "acquire")]
    #[case::never_held(Some(lease(None, None)), 0, "acquire")]
    #[case::ours(Some(lease(Some("me"), Some(15))), 0, "renew")]
    #[case::ours_and_expired(Some(lease(Some("me"), Some(15))), 99, "renew")]
    #[case::another_s(Some(lease(Some("other"), Some(15))), 14, "wait 1")]
    #[case::another_s_just_seen(Some(lease(Some("other"), Some(15))), 0, "wait 15")]
    #[case::another_s_and_expired(Some(lease(Some("other"), Some(15))), 15, "acquire")]
    #[case::without_a_duration(Some(lease(Some("other"), None)), 5, "wait 10")]
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_taken_only_when_nobody_can_still_hold_it(
        #[case] lease: Option<Lease>,
        #[case] unchanged_for: u64,
        #[case] expected: &str,
    ) {
        let observed = Instant::now();
        let now = observed + Duration::from_secs(unchanged_for);
        let said = match evaluate(lease.as_ref(), "me", observed, now) {
            Decision::Acquire => "acquire".to_owned(),
            Decision::Renew => "renew".to_owned(),
            Decision::Wait(until) => format!("wait {}", (until - now).as_secs()),
        };
        assert_eq!(said, expected);
    }
}
