//! A small controller for the runtime's own tests: one ConfigMap a SampleDB, and a phase.

use std::sync::Mutex;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{ApiResource, ObjectMeta};
use serde_json::{Value, json};

use crate::api::SampleDb;
use crate::api::ownership::{PROVISIONER, SERVICE_PUBLISHER, Writer};
use crate::domain::labels::{self, Component};
use crate::domain::names;
use crate::runtime::plan::{Applied, Controller, Desired, Error, Plan, Report, Seen};
use crate::runtime::reader::Reader;

/// The controller. A SampleDB named `panics` makes it panic.
#[derive(Default)]
pub(crate) struct Sample {
    /// What each pass saw: (name, whether the publisher was there).
    pub(crate) passes: std::sync::Arc<Mutex<Vec<(String, bool)>>>,
}

pub(crate) struct Observed {
    map: Option<Seen>,
    publisher: bool,
}

impl Controller for Sample {
    type Observed = Observed;
    const WRITER: &'static Writer = &PROVISIONER;

    fn watched(&self) -> Vec<ApiResource> {
        vec![
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<k8s_openapi::api::apps::v1::StatefulSet>(&()),
        ]
    }

    fn depends_on(&self) -> &'static [&'static str] {
        &[SERVICE_PUBLISHER.manager]
    }

    fn inputs(&self, db: &SampleDb) -> Value {
        json!([db.status.as_ref().and_then(|s| s.endpoints.as_ref())])
    }

    async fn observe(&self, db: &SampleDb, cluster: &Reader) -> Result<Observed, Error> {
        let map: Option<ConfigMap> = cluster.get(&names::config(&db.name_any())).await?;
        Ok(Observed {
            map: map.as_ref().map(Seen::of),
            publisher: cluster.is_seen(SERVICE_PUBLISHER.manager),
        })
    }

    fn decide(&self, db: &SampleDb, seen: &Observed, _: Timestamp) -> Plan {
        self.passes.lock().unwrap().push((db.name_any(), seen.publisher));
        assert_ne!(db.name_any(), "panics", "on purpose");
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(names::config(&db.name_any())),
                labels: Some(labels::child(
                    &db.name_any(),
                    Component::Config,
                    PROVISIONER.manager,
                )),
                annotations: db.uid().map(|uid| [(labels::UID.to_owned(), uid)].into()),
                ..ObjectMeta::default()
            },
            data: Some([("version".to_owned(), db.spec.postgres.version.clone())].into()),
            ..ConfigMap::default()
        };
        Plan {
            apply: vec![Desired::new(&map, seen.map.clone()).unwrap()],
            ..Plan::default()
        }
    }

    fn report(&self, db: &SampleDb, seen: &Observed, applied: &Applied, _: Timestamp) -> Report {
        let phase = if applied.refused.is_empty() {
            "Running"
        } else {
            "Failed"
        };
        let ready = if seen.publisher { "True" } else { "Unknown" };
        let status = json!({
            "phase": phase, "observedGeneration": db.metadata.generation,
            "conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        });
        Report {
            status: serde_json::from_value(status).unwrap(),
            events: Vec::new(),
        }
    }
}

/// A SampleDB as a user writes it.
pub(crate) fn database(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "sampledb.dev/v1", "kind": "SampleDB",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"postgres": {"version": "17"}, "storage": {"data": {"size": "1Gi"}}},
    })
}
