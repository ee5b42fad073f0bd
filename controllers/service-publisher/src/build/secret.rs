//! The Secret with the connection.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::labels::Component;
use sampledb_shared::domain::names;

use super::metadata;
use crate::connection::{Address, secret};
use crate::observe::Credentials;

/// Service Binding for Kubernetes asks for this form; it allows every key.
const TYPE: &str = "servicebinding.io/postgresql";

/// `<name>-app`.
pub fn app(db: &SampleDb, address: &Address, credentials: &Credentials) -> Secret {
    let data = secret(address, credentials)
        .into_iter()
        .map(|(k, v)| (k, ByteString(v.into_bytes())));
    Secret {
        metadata: metadata(
            db,
            names::app_secret(&db.name_any()),
            Component::Credentials,
            &BTreeMap::new(),
        ),
        type_: Some(TYPE.into()),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn it_goes_with_its_sampledb_and_says_whose_it_is() {
        let db = testing::db();
        let secret = app(&db, &Address::of(&db, "cluster.local"), &testing::credentials());
        insta::assert_yaml_snapshot!(secret.metadata);
        assert_eq!(secret.type_.as_deref(), Some("servicebinding.io/postgresql"));
    }
}
