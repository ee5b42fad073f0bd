//! The watches. They only wake: nothing that they deliver is kept, and nothing is decided from it.
//!
//! Each watch is its own task with its own backoff, so that one that is refused delays no other.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::client::{HEAD_TIMEOUT, WATCH_TIMEOUT};
use super::queue::Cause;
use super::trigger::{Key, short};
use super::{backoff, crds};
use crate::api::SampleDb;
use crate::domain::labels;
use crate::telemetry::metrics::Metrics;

/// The first pause after a failure of a watch.
const FIRST: Duration = Duration::from_millis(500);
/// The longest.
const CEILING: Duration = Duration::from_secs(30);
/// Objects fetched at once when a watch begins.
const PAGE: u32 = 50;
/// A watch that failed and then says nothing for this long is well again: the library does not tell that a watch went
/// on. Longer than a request may take.
const CALM: Duration = Duration::from_secs(HEAD_TIMEOUT.as_secs() + 5);
/// A watch that has failed for this long is reported.
pub(crate) const FAILING: Duration = Duration::from_mins(2);

/// How one watch is doing.
pub(crate) struct Health {
    pub(crate) kind: String,
    metrics: Arc<Metrics>,
    tried: AtomicBool,
    synced: AtomicBool,
    times: Mutex<Times>,
}

#[derive(Clone, Copy)]
struct Times {
    last: Instant,
    failing_since: Option<Instant>,
}

impl Health {
    pub(crate) fn new(kind: &str, metrics: Arc<Metrics>) -> Arc<Self> {
        metrics.watch_errors.with_label_values(&[kind]).inc_by(0);
        metrics.watch_events.with_label_values(&[kind]).inc_by(0);
        Arc::new(Self {
            kind: kind.to_owned(),
            metrics,
            tried: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            times: Mutex::new(Times {
                last: Instant::now(),
                failing_since: None,
            }),
        })
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was whole once, or failed once: there is nothing more to wait for.
    pub(crate) fn tried(&self) -> bool {
        self.tried.load(Ordering::Relaxed)
    }

    /// Whether it was whole once.
    pub(crate) fn synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// How long it has been failing.
    pub(crate) fn failing(&self) -> Option<Duration> {
        self.times().failing_since.map(|since| since.elapsed())
    }

    /// Brings the gauge up to date.
    pub(crate) fn measure(&self) {
        let age = self.times().last.elapsed().as_secs_f64();
        self.metrics.watch_age.with_label_values(&[&self.kind]).set(age);
    }

    fn event(&self) {
        self.metrics.watch_events.with_label_values(&[&self.kind]).inc();
        let mut times = self.times();
        times.last = Instant::now();
        times.failing_since = None;
    }

    fn calm(&self) {
        self.times().failing_since = None;
    }

    pub(super) fn whole(&self) {
        self.event();
        self.synced.store(true, Ordering::Relaxed);
        self.tried.store(true, Ordering::Relaxed);
    }

    /// Takes note of a failure; `true` when it is the first in a row.
    fn failed(&self) -> bool {
        self.metrics.watch_errors.with_label_values(&[&self.kind]).inc();
        self.tried.store(true, Ordering::Relaxed);
        let mut times = self.times();
        let first = times.failing_since.is_none();
        times.failing_since.get_or_insert_with(Instant::now);
        first
    }
}

/// Follows a watch for ever, with its own backoff.
pub(crate) async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    health: Arc<Health>,
    mut on: impl FnMut(Event<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = config.timeout(WATCH_TIMEOUT.as_secs() as u32).page_size(PAGE);
    let seed = short(&health.kind);
    let mut stream = Box::pin(watcher::watcher(api, config));
    let mut failures = 0;
    let mut last_failure = Instant::now();
    loop {
        let item = if health.failing().is_some() {
            let Ok(item) = tokio::time::timeout(CALM, stream.next()).await else {
                health.calm();
                continue;
            };
            item
        } else {
            stream.next().await
        };
        let Some(item) = item else { return };
        match item {
            Ok(event) => {
                match event {
                    Event::Init => {}
                    Event::InitDone => {
                        failures = 0;
                        health.whole();
                    }
                    Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => health.event(),
                }
                on(event);
            }
            Err(error) => {
                if last_failure.elapsed() > 2 * CEILING {
                    failures = 0;
                }
                failures += 1;
                last_failure = Instant::now();
                let pause = backoff::pause(failures, FIRST, CEILING, seed);
                if health.failed() {
                    tracing::warn!(event = "watch_failed", kind = health.kind, %error, "a watch failed; it is tried again, ever later to every {CEILING:?}");
                } else {
                    tracing::debug!(event = "watch_failed", kind = health.kind, %error, "a watch failed again");
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// What the watches tell.
pub(crate) trait Listener: Send + Sync + 'static {
    /// The watch of SampleDBs begins a list in a namespace (`None`: in all).
    fn list_begins(&self, namespace: Option<&str>);
    /// A SampleDB is there.
    fn seen(&self, key: &Key, db: &SampleDb);
    /// A SampleDB is gone.
    fn gone(&self, key: &Key);
    /// The list is whole.
    fn list_ends(&self, namespace: Option<&str>);
    /// A list of a kind of children begins. It tells what is there, not what went since: that is not known until the next
    /// change.
    fn children_list_begins(&self, kind: &str);
    /// A child of a kind was changed to this version, or removed at it.
    fn version(&self, kind: &str, version: &str);
    /// A child changed.
    fn child(&self, key: &Key, cause: Cause);
    /// Events of children may have been missed.
    fn missed(&self);
}

/// Follows the SampleDBs.
pub(crate) async fn databases(
    client: Client,
    namespace: Option<String>,
    health: Arc<Health>,
    to: Arc<impl Listener>,
) {
    let scope = namespace.as_deref();
    let invalid = health.metrics.watch_invalid.with_label_values(&[&health.kind]);
    let all: Api<DeserializeGuard<SampleDb>> = match scope {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    follow(all, watcher::Config::default(), health, |event| match event {
        Event::Init => to.list_begins(scope),
        Event::InitDone => to.list_ends(scope),
        Event::Delete(guard) => {
            if let Some(key) = key_of(&guard) {
                to.gone(&key);
            }
        }
        Event::InitApply(guard) | Event::Apply(guard) => match (key_of(&guard), guard.0) {
            (Some(key), Ok(db)) => to.seen(&key, &db),
            (Some(Key { namespace, name }), Err(error)) => {
                invalid.inc();
                tracing::warn!(
                    event = "invalid_object",
                    object.namespace = &*namespace,
                    object.name = &*name,
                    error = error.error,
                    "a SampleDB cannot be read by this version and is left alone"
                );
            }
            (None, _) => {}
        },
    })
    .await;
}

fn key_of<K: Resource>(object: &K) -> Option<Key> {
    let meta = object.meta();
    Some(Key::new(meta.namespace.as_deref()?, meta.name.as_deref()?))
}

/// Follows the metadata of one kind of children, once the kind is served.
pub(crate) async fn children(
    client: Client,
    namespace: Option<String>,
    resource: ApiResource,
    missing: Arc<crds::Missing>,
    health: Arc<Health>,
    to: Arc<impl Listener>,
) {
    if !crds::look(&client, &resource, &missing).await {
        health.tried.store(true, Ordering::Relaxed);
        crds::served(&client, &resource, &missing).await;
    }
    let all: Api<PartialObjectMeta<DynamicObject>> = match namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut lists = 0;
    follow(
        all,
        watcher::Config::default().labels(labels::NAME),
        health,
        |event| {
            if let Event::Apply(child) | Event::Delete(child) = &event {
                let version = child.resource_version().unwrap_or_default();
                to.version(&resource.kind, &version);
            }
            match event {
                Event::Init => {
                    lists += 1;
                    to.children_list_begins(&resource.kind);
                }
                Event::InitDone => {
                    if lists > 1 {
                        to.missed();
                    }
                }
                Event::InitApply(child) | Event::Apply(child) | Event::Delete(child) => {
                    let (namespace, name) = (child.namespace(), child.labels().get(labels::NAME));
                    if let (Some(namespace), Some(name)) = (namespace, name) {
                        let uid = child.uid().unwrap_or_default();
                        let resource_version = child.resource_version().unwrap_or_default();
                        to.child(
                            &Key::new(&namespace, name),
                            Cause::Child {
                                uid,
                                resource_version,
                            },
                        );
                    }
                }
            }
        },
    )
    .await;
}
