//! Pure builders: from validated values to whole objects, one Kubernetes kind a file.

pub mod claim;
pub mod config_map;
pub mod hba;
pub mod job;
pub mod pod;
pub mod pod_disruption_budget;
pub mod postgresql_conf;
pub mod role;
pub mod secret;
pub mod service_account;
pub mod stateful_set;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::ownership::PROVISIONER;
use sampledb_shared::domain::labels::{self, Component};

/// The SampleDB that something is built for.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The SampleDB.
    pub db: &'a SampleDb,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
}

impl<'a> Target<'a> {
    /// The SampleDB that something is built for. Names are empty only for an object that no API server has seen.
    pub fn of(db: &'a SampleDb) -> Self {
        Self {
            db,
            name: db.name_any(),
            namespace: db.namespace().unwrap_or_default(),
            uid: db.uid().unwrap_or_default(),
        }
    }

    /// The metadata of a child that goes with the SampleDB.
    pub fn metadata(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        ObjectMeta {
            owner_references: self.owner().map(|o| vec![o]),
            ..self.metadata_of_kept(name, component)
        }
    }

    /// The metadata of a child that stays when the SampleDB goes: no owner, so that no garbage collection reaches it.
    pub fn metadata_of_kept(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels(component)),
            annotations: Some(self.annotations()),
            ..ObjectMeta::default()
        }
    }

    /// The labels of a child.
    pub fn labels(&self, component: Component) -> BTreeMap<String, String> {
        labels::child(&self.name, component, PROVISIONER.manager)
    }

    /// The annotations of a child.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(labels::UID.to_owned(), self.uid.clone())])
    }

    fn owner(&self) -> Option<OwnerReference> {
        self.db.controller_owner_ref(&())
    }
}
