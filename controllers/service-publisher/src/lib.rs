//! Tells clients where a database is: its Services, the connection Secret and ConfigMap, and the condition
//! `Published`. It never says which instance is the primary: that is the agents', in the `-rw` EndpointSlice.

pub mod build;
pub mod connection;
pub mod decide;
pub mod observe;
pub mod published;
pub mod report;
pub mod settings;
#[cfg(test)]
mod testing;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ApiResource;
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::ownership::{SERVICE_PUBLISHER, Writer};
use sampledb_shared::runtime::{Applied, Controller, Error, Plan, Reader, Report};
use serde_json::{Value, json};

use observe::Observed;
use settings::Settings;

/// The controller.
#[derive(Debug)]
pub struct ServicePublisher {
    /// What the chart chooses for every SampleDB.
    pub settings: Settings,
}

impl Controller for ServicePublisher {
    type Observed = Observed;

    const WRITER: &'static Writer = &SERVICE_PUBLISHER;

    fn watched(&self) -> Vec<ApiResource> {
        // Secrets cannot be watched: the connection Secret is looked at on each pass.
        vec![
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<EndpointSlice>(&()),
        ]
    }

    fn inputs(&self, db: &SampleDb) -> Value {
        // They appear together with the credentials, and change together with the CA.
        let provisioning = db.status.as_ref().and_then(|s| s.provisioning.as_ref());
        json!({"certificates": provisioning.and_then(|p| p.certificates.as_ref())})
    }

    async fn observe(&self, db: &SampleDb, cluster: &Reader) -> Result<Observed, Error> {
        observe::observe(db, cluster).await
    }

    fn decide(&self, db: &SampleDb, seen: &Observed, now: Timestamp) -> Plan {
        decide::decide(db, seen, &self.settings, now)
    }

    fn report(&self, db: &SampleDb, seen: &Observed, applied: &Applied, now: Timestamp) -> Report {
        report::report(db, seen, applied, &self.settings, now)
    }
}
