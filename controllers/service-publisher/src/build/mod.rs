//! Pure builders: from validated values to whole objects, one Kubernetes kind a file.

pub mod config_map;
pub mod secret;
pub mod service;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::ownership::SERVICE_PUBLISHER;
use sampledb_shared::domain::labels::{self, Component};

/// The metadata of a child: it goes with the SampleDB. `annotations` are the user's; ours come on top.
fn metadata(
    db: &SampleDb,
    name: String,
    component: Component,
    annotations: &BTreeMap<String, String>,
) -> ObjectMeta {
    let mut annotations = annotations.clone();
    annotations.insert(labels::UID.to_owned(), db.uid().unwrap_or_default());
    ObjectMeta {
        name: Some(name),
        namespace: db.namespace(),
        labels: Some(labels::child(
            &db.name_any(),
            component,
            SERVICE_PUBLISHER.manager,
        )),
        annotations: Some(annotations),
        owner_references: db.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
