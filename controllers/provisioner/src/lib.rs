//! The provisioner: makes everything a SampleDB consists of, keeps it as it should be, and says how it is.
//!
//! `observe` (reads, and mints keys where some are missing) → `decide` (pure) → apply → `report` (pure).

pub mod assessment;
pub mod build;
pub mod credentials;
pub mod decide;
pub mod images;
pub mod initial;
pub mod observe;
pub mod quantity;
pub mod report;
pub mod rules;
pub mod settings;
pub mod views;
pub mod volumes;

#[cfg(test)]
mod testing;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::ApiResource;
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::conditions::ConditionType;
use sampledb_shared::api::ownership::{PROVISIONER, SERVICE_PUBLISHER, Writer};
use sampledb_shared::domain::conditions;
use sampledb_shared::runtime::{Applied, Controller, Error, Plan, Reader, Report};
use serde_json::{Value, json};

pub use observe::Observed;
pub use settings::Settings;

/// The controller.
#[derive(Clone, Debug)]
pub struct Provisioner {
    /// What the chart chose.
    pub settings: Settings,
}

impl Controller for Provisioner {
    type Observed = Observed;

    const WRITER: &'static Writer = &PROVISIONER;

    fn watched(&self) -> Vec<ApiResource> {
        vec![
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<PersistentVolumeClaim>(&()),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<Job>(&()),
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<Role>(&()),
            ApiResource::erase::<RoleBinding>(&()),
            ApiResource::erase::<PodDisruptionBudget>(&()),
        ]
    }

    fn depends_on(&self) -> &'static [&'static str] {
        &[SERVICE_PUBLISHER.manager]
    }

    fn inputs(&self, db: &SampleDb) -> Value {
        let Some(status) = &db.status else {
            return Value::Null;
        };
        let election = status
            .election
            .as_ref()
            .map(|e| json!([e.phase, e.primary, e.system_id]));
        let others = [
            ConditionType::Published,
            ConditionType::PrimaryElected,
            ConditionType::Replicating,
        ];
        let others = others.map(|type_| conditions::find(&status.conditions, type_));
        json!([election, status.instances, status.endpoints, others])
    }

    async fn observe(&self, db: &SampleDb, cluster: &Reader) -> Result<Observed, Error> {
        Box::pin(observe::observe(db, cluster, &self.settings)).await
    }

    fn decide(&self, db: &SampleDb, seen: &Observed, _now: Timestamp) -> Plan {
        decide::decide(db, seen, &self.settings)
    }

    fn report(&self, db: &SampleDb, seen: &Observed, applied: &Applied, now: Timestamp) -> Report {
        report::report(db, seen, &self.settings, applied, now)
    }
}
