//! The ConfigMap with the connection, without secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::labels::Component;
use sampledb_shared::domain::names;

use super::metadata;
use crate::connection::{Address, public};

/// `<name>-connection`. It is given the CA alone, never the credentials.
pub fn connection(db: &SampleDb, address: &Address, ca: &str) -> ConfigMap {
    ConfigMap {
        metadata: metadata(
            db,
            names::connection(&db.name_any()),
            Component::Config,
            &BTreeMap::new(),
        ),
        data: Some(public(address, ca)),
        ..ConfigMap::default()
    }
}
