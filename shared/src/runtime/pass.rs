//! One pass over one SampleDB: observe → decide → apply → delete → report → status → events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::api::GetParams;
use kube::core::request::Request as ApiRequest;
use kube::{Client, Resource, ResourceExt};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;

use super::apply;
use super::client;
use super::entropy::short_id;
use super::events::Recorder;
use super::freshness::Freshness;
use super::lease::Standing;
use super::memory::Memory;
use super::options::Options;
use super::plan::{Applied, Controller, Error, ErrorClass, Note, Plan, Refusal, Report};
use super::presence::Presence;
use super::queue::{Cause, End, Turn};
use super::reader::Reader;
use super::state::State;
use super::status::{self, Written};
use super::trigger::{Key, Known, trigger};
use super::watches::Listener;
use super::workers::{Work, Workers};
use crate::api::SampleDb;
use crate::telemetry::metrics::Metrics;

/// A failure of `observe` is told to the user after so many in a row: the first may well be the order in which
/// controllers start.
const TELL_AFTER: u32 = 5;

/// Everything a pass needs.
pub(crate) struct Engine<C> {
    pub(crate) controller: C,
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) workers: Arc<Workers>,
    pub(crate) known: Known,
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) events: Recorder,
    pub(crate) state: State,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) memories: Mutex<HashMap<Key, Memory>>,
}

/// Why a pass did not do all it should.
struct Failure {
    class: ErrorClass,
    message: String,
    again: Option<std::time::Duration>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            class: error.class(),
            message: error.to_string(),
            again: None,
        }
    }
}

/// What a pass found the SampleDB to be.
enum Found {
    Gone,
    There {
        again: Option<std::time::Duration>,
        wrote: bool,
    },
}

impl<C: Controller> Engine<C> {
    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: &Key) {
        self.memories().remove(key);
        self.state.forget(key);
    }

    /// Wakes every SampleDB there is.
    pub(crate) fn wake_all(&self) {
        for key in self.known.keys() {
            self.workers.wake(&key, Cause::Resync);
        }
    }

    /// Live, unlike the children: whether it is there still, what it wants and whether it is paused decides about all the
    /// rest, the reads of Secrets that are live as well among it.
    async fn read(&self, key: &Key) -> Result<Option<Value>, Error> {
        let path = ApiRequest::new(SampleDb::url_path(&(), Some(&key.namespace)));
        match client::send(&self.client, path.get(&key.name, &GetParams::default())).await {
            Ok((_, object)) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Error::api(format!("get SampleDB {key}"), error)),
        }
    }

    async fn look(&self, key: &Key, failures: u32) -> Result<Found, Failure> {
        let Some(live) = self.read(key).await? else {
            return Ok(Found::Gone);
        };
        let db = SampleDb::deserialize(&live)
            .map_err(|e| Error::Invalid(format!("SampleDB {key} cannot be read: {e}")))?;
        let uid = db.uid().unwrap_or_default();
        let span = tracing::Span::current();
        span.record("object.uid", &uid);
        span.record("object.generation", db.metadata.generation.unwrap_or_default());

        let mut memory = self.memories().remove(key).unwrap_or_default().of(&uid);
        let result = self.act(key, &db, &live, &mut memory, failures).await;
        self.memories().insert(key.clone(), memory);
        result
    }

    async fn act(
        &self,
        key: &Key,
        db: &SampleDb,
        live: &Value,
        memory: &mut Memory,
        failures: u32,
    ) -> Result<Found, Failure> {
        let absent = self.presence.absent(Instant::now());
        let namespace = key.namespace.to_string();
        let reader = Reader::new(
            self.client.clone(),
            Arc::clone(&self.freshness),
            namespace.clone(),
            self.options.release_namespace.clone(),
            absent,
        );
        let seen = match self.controller.observe(db, &reader).await {
            Ok(seen) => seen,
            Err(error) => {
                if failures >= TELL_AFTER && error.class() != ErrorClass::Conflict {
                    let note = Note {
                        warning: true,
                        reason: "ObserveFailed",
                        action: "Observe",
                        message: error.to_string(),
                    };
                    self.events.publish(db, &[note]).await;
                }
                return Err(error.into());
            }
        };
        let Plan {
            apply: wanted,
            delete,
            events,
            requeue,
        } = self.timed("decide", || self.controller.decide(db, &seen, now()));

        let target = apply::Target {
            client: self.client.clone(),
            freshness: Arc::clone(&self.freshness),
            namespace,
            manager: C::WRITER.manager,
            uid: db.uid().unwrap_or_default(),
        };
        let mut applied = apply::apply(&target, wanted, memory, &self.metrics).await;
        if applied.refused.is_empty() {
            applied.refused = apply::delete(&target, &delete, &self.metrics).await;
        }

        let Report { status, events: more } =
            self.timed("report", || self.controller.report(db, &seen, &applied, now()));
        let written = self.write_status(key, db, live, status).await?;
        self.events.publish(db, &events).await;
        self.events.publish(db, &more).await;
        match (written, failure(&applied, requeue)) {
            (Written::Gone, _) => Err(Error::Api {
                what: format!("status of SampleDB {key}"),
                source: Box::new(kube::Error::Api(
                    kube::core::Status::failure("it was replaced meanwhile", "Conflict")
                        .with_code(409)
                        .boxed(),
                )),
            }
            .into()),
            (_, Some(failure)) => Err(failure),
            (written, None) => Ok(Found::There {
                again: requeue,
                wrote: written == Written::Yes,
            }),
        }
    }

    async fn write_status(
        &self,
        key: &Key,
        db: &SampleDb,
        live: &Value,
        status: serde_json::Map<String, Value>,
    ) -> Result<Written, Error> {
        let report = status::checked(status, C::WRITER).map_err(|e| Error::Bug(e.to_string()))?;
        let target = status::Target {
            client: &self.client,
            namespace: &key.namespace,
            name: &key.name,
            uid: db.metadata.uid.as_deref().unwrap_or_default(),
            writer: C::WRITER,
            force: self.options.force_status,
        };
        let written = target.write(&report, live).await;
        let result = match &written {
            Ok(Written::Yes) => "written",
            Ok(Written::Unchanged | Written::Gone) => "unchanged",
            Err(_) => "refused",
        };
        self.metrics.status_writes.with_label_values(&[result]).inc();
        let written = written.map_err(|e| Error::api(format!("apply the status of SampleDB {key}"), e))?;
        if written != Written::Gone {
            self.state.note(key, db, &report);
        }
        Ok(written)
    }

    fn timed<T>(&self, step: &str, decide: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let decided = decide();
        self.metrics
            .decide_seconds
            .with_label_values(&[step])
            .inc_by(started.elapsed().as_secs_f64());
        decided
    }

    fn end(&self, key: &Key, result: Result<Found, Failure>, failures: u32) -> End {
        match result {
            Ok(Found::Gone) => {
                self.forget(key);
                tracing::debug!(event = "gone", "the SampleDB is gone");
                End::Gone
            }
            Ok(Found::There { again, wrote }) => {
                if wrote {
                    tracing::info!(event = "reconciled", "the status was written");
                } else {
                    tracing::debug!(event = "reconciled", "nothing new");
                }
                End::Done(again)
            }
            Err(Failure {
                class,
                message,
                again,
            }) => {
                if class == ErrorClass::Conflict {
                    tracing::debug!(
                        event = "conflict",
                        error = message,
                        "somebody else wrote; looking again"
                    );
                } else {
                    tracing::warn!(event = "reconcile_failed", class = ?class, failures = failures + 1, error = message, "a pass failed; it is tried again later");
                }
                End::Failed {
                    slow: class == ErrorClass::Invalid,
                    again,
                }
            }
        }
    }
}

/// The failure that what was refused amounts to.
fn failure(applied: &Applied, again: Option<std::time::Duration>) -> Option<Failure> {
    let worst = |class: ErrorClass| match class {
        // Only when nothing may go away by itself, looking again soon is of no use.
        ErrorClass::Invalid => 0,
        ErrorClass::Conflict => 1,
        ErrorClass::Forbidden => 2,
        ErrorClass::Transient => 3,
        ErrorClass::Bug => 4,
    };
    let Refusal { class, .. } = applied.refused.iter().max_by_key(|r| worst(r.class))?;
    let message = applied
        .refused
        .iter()
        .map(|r| format!("{} {}: {}", r.kind, r.name, r.message))
        .collect::<Vec<_>>()
        .join("; ");
    Some(Failure {
        class: *class,
        message,
        again,
    })
}

#[allow(clippy::disallowed_methods, reason = "the `now` that every decision takes")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl<C: Controller> Work for Engine<C> {
    fn mine(&self, key: &Key) -> bool {
        // One leader looks after everything. Shares by key would be decided here.
        let _ = key;
        self.standing.borrow().leading
    }

    async fn pass(&self, turn: &Turn<Key>) -> End {
        let Key { namespace, name } = &turn.key;
        let span = tracing::info_span!(
            "reconcile",
            object.namespace = &**namespace,
            object.name = &**name,
            object.uid = tracing::field::Empty,
            object.generation = tracing::field::Empty,
            reconcile_id = short_id(),
        );
        async {
            let result = self.look(&turn.key, turn.failures).await;
            self.end(&turn.key, result, turn.failures)
        }
        .instrument(span)
        .await
    }

    fn is_echo(&self, key: &Key, cause: &Cause) -> bool {
        self.memories()
            .get(key)
            .is_some_and(|memory| memory.is_echo(cause))
    }
}

impl<C: Controller> Listener for Engine<C> {
    fn list_begins(&self, namespace: Option<&str>) {
        self.known.list_begins(namespace);
    }

    fn seen(&self, key: &Key, db: &SampleDb) {
        let inputs = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.controller.inputs(db)));
        // Inputs that cannot be told change with every event: one pass too many instead of one too few.
        let inputs = inputs.unwrap_or_else(|_| db.metadata.resource_version.clone().into());
        if self.known.see(
            key,
            db.metadata.uid.as_deref().unwrap_or_default(),
            trigger(db, &inputs),
        ) {
            self.workers.wake(key, Cause::Changed);
        }
        self.state.known(self.known.len());
    }

    fn gone(&self, key: &Key) {
        self.known.forget(key);
        self.state.known(self.known.len());
        // The pass finds nothing and forgets the rest.
        self.workers.wake(key, Cause::Changed);
    }

    fn list_ends(&self, namespace: Option<&str>) {
        for key in self.known.list_ends(namespace) {
            self.workers.wake(&key, Cause::Changed);
        }
    }

    fn children_list_begins(&self, kind: &str) {
        self.freshness.forget(kind);
    }

    fn version(&self, kind: &str, version: &str) {
        self.freshness.note(kind, version);
    }

    fn child(&self, key: &Key, cause: Cause) {
        if self.known.contains(key) && !self.is_echo(key, &cause) {
            self.workers.wake(key, cause);
        }
    }

    fn missed(&self) {
        self.wake_all();
    }
}
