//! Events (events.k8s.io) about the SampleDB, for people.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use sampledb_shared::api::ownership::AGENT;
use sampledb_shared::api::{GROUP, VERSION};
use sampledb_shared::domain::conditions::truncated;

use super::clock;
use super::cluster::{Cluster, PATIENCE};

/// The same is not said again within this time.
const QUIET_MS: u64 = 600_000;
/// The API's limit of an event's note.
const LONGEST_NOTE: usize = 1024;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The database was opened for the first time.
    Opened,
    /// PostgreSQL ended without being asked, and was started again.
    Restarted,
    /// PostgreSQL was restarted because it was asked for.
    RestartedAsAsked,
    /// PostgreSQL refused the configuration.
    ConfigurationRefused,
    /// PostgreSQL does not start.
    StartFailed,
    /// The reserve file was given up.
    BallastUsed,
    /// Nothing is done to the volume.
    Refused,
}

impl Fact {
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Opened => ("Normal", "Opened", "Open"),
            Self::Restarted => ("Normal", "PostgresRestarted", "Restart"),
            Self::RestartedAsAsked => ("Normal", "RestartDone", "Restart"),
            Self::ConfigurationRefused => ("Warning", "ConfigurationRefused", "Configure"),
            Self::StartFailed => ("Warning", "StartFailed", "Start"),
            Self::BallastUsed => ("Warning", "BallastUsed", "Grow"),
            Self::Refused => ("Warning", "VolumeRefused", "Start"),
        }
    }
}

/// Says events, each at most once in ten minutes. An event that cannot be written is lost: status has the facts.
#[derive(Clone)]
pub struct Notes {
    cluster: Cluster,
    said: Arc<Mutex<HashMap<(Fact, String), u64>>>,
}

impl Notes {
    /// Events through this API.
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            said: Arc::default(),
        }
    }

    /// Says it, in the background.
    pub fn say(&self, fact: Fact, note: &str) {
        let now = clock::boot_ms();
        {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            said.retain(|_, at| now.saturating_sub(*at) < QUIET_MS);
            if said.insert((fact, note.to_owned()), now).is_some() {
                return;
            }
        }
        let event = self.event(fact, note);
        let events = self.cluster.events();
        tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, events.create(&PostParams::default(), &event)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::info!(
                    error = super::cluster::said(&error),
                    "an event could not be written"
                ),
                Err(_) => tracing::info!("an event could not be written in time"),
            }
        });
    }

    fn event(&self, fact: Fact, note: &str) -> Event {
        let settings = self.cluster.settings();
        let (type_, reason, action) = fact.words();
        let now = clock::wall();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", settings.name, now.as_nanosecond())),
                namespace: Some(settings.namespace.clone()),
                ..ObjectMeta::default()
            },
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(truncated(note, LONGEST_NOTE)),
            reason: Some(reason.to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(format!("{GROUP}/{VERSION}")),
                kind: Some("SampleDB".to_owned()),
                name: Some(settings.name.clone()),
                namespace: Some(settings.namespace.clone()),
                uid: Some(settings.uid.clone()),
                ..ObjectReference::default()
            }),
            related: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(settings.pod.clone()),
                namespace: Some(settings.namespace.clone()),
                uid: Some(settings.pod_uid.clone()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(format!("{GROUP}/{}", AGENT.manager)),
            reporting_instance: Some(settings.pod.clone()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }
}
