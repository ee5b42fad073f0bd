//! The watches of the agent: each named object on its own stream, with its own backoff.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// The server ends a watch after so long, and the client begins again: also how soon a dead connection is noticed.
const TIMEOUT_S: u32 = 120;

/// What a watch found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    /// Nothing yet: the API has not answered since the agent started.
    Unknown,
    /// There is no such object.
    Absent,
    /// The object.
    Present(T),
}

impl<T> Found<T> {
    /// The object, if there is one.
    pub fn present(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Unknown | Self::Absent => None,
        }
    }
}

/// Watches the object `name` for ever. While the API is away the last that was found stays.
pub fn object<K, T>(
    api: Api<K>,
    name: &str,
    read: impl Fn(K) -> T + Send + 'static,
) -> watch::Receiver<Found<T>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    T: PartialEq + Send + Sync + 'static,
{
    let (tell, told) = watch::channel(Found::Unknown);
    let config = watcher::Config::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(TIMEOUT_S)
        .page_size(1);
    tokio::spawn(async move {
        let set = |found: Found<T>| {
            tell.send_if_modified(|now| {
                let changed = *now != found;
                *now = found;
                changed
            })
        };
        let mut events = Box::pin(watcher(api, config));
        let mut failures = 0_u32;
        let mut listed = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    failures = 0;
                    match event {
                        Event::Init => listed = false,
                        Event::InitApply(mut object) | Event::Apply(mut object) => {
                            listed = true;
                            object.managed_fields_mut().clear();
                            set(Found::Present(read(object)));
                        }
                        Event::InitDone if listed => {}
                        Event::InitDone | Event::Delete(_) => {
                            set(Found::Absent);
                        }
                    }
                }
                Err(error) => {
                    failures += 1;
                    if failures == 1 || failures.is_multiple_of(20) {
                        tracing::warn!(%error, kind = %K::kind(&()), failures, "a watch failed; what was seen last stays");
                    }
                    tokio::time::sleep(pause(failures)).await;
                }
            }
        }
    });
    told
}

/// 0.2 s doubling to 10 s: the database does not wait for a watch, its configuration does.
fn pause(failures: u32) -> Duration {
    Duration::from_millis(200 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(10))
}
