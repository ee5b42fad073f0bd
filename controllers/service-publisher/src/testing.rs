//! What the tests begin from.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::labels;
use sampledb_shared::runtime::{Seen, Sensitive};

use crate::observe::{Child, Credentials, Observed, Owner, ServiceView};
use crate::settings::Settings;

pub const UID: &str = "0b6e1f5c-2f3b-4a6d-9d0e-6a7b8c9d0e1f";
pub const PASSWORD: &str = "canary/p@ss:w%rd?";

/// A SampleDB as a user would write it, and as the API server gives it back.
pub fn db() -> SampleDb {
    db_with("")
}

/// The same with more in its spec.
pub fn db_with(spec: &str) -> SampleDb {
    let text = format!(
        "apiVersion: sampledb.dev/v1
kind: SampleDB
metadata: {{name: orders, namespace: shop, uid: {UID}, generation: 3, creationTimestamp: \"2026-01-02T03:04:00Z\"}}
spec:
  postgres: {{version: \"17\"}}
  storage: {{data: {{size: 1Gi}}}}
{spec}"
    );
    serde_saphyr::from_str(&text).unwrap()
}

pub fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

pub fn settings() -> Settings {
    Settings {
        cluster_domain: "cluster.local".into(),
    }
}

pub fn meta(name: &str, made_for: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("shop".into()),
        annotations: Some([(labels::UID.to_owned(), made_for.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

pub fn child(made_for: &str) -> Child {
    let seen = Seen {
        uid: "child".into(),
        resource_version: "7".into(),
        made_for: Some(made_for.into()),
        deleting: false,
        fingerprint: "f".into(),
    };
    Child {
        seen,
        owner: if made_for == UID {
            Owner::Us
        } else {
            Owner::Stranger
        },
    }
}

pub fn credentials() -> Credentials {
    let ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    Credentials {
        username: "app".into(),
        password: Sensitive::new(PASSWORD),
        ca: ca.into(),
    }
}

/// Nothing is there but what the provisioner made.
pub fn fresh() -> Observed {
    Observed {
        credentials: Some(Ok(credentials())),
        ..Observed::default()
    }
}

/// Everything is there, made for the SampleDB with this UID.
pub fn complete(made_for: &str) -> Observed {
    Observed {
        rw: Some(ServiceView {
            child: child(made_for),
            external: Vec::new(),
        }),
        pods: Some(child(made_for)),
        r: None,
        connection: Some(child(made_for)),
        app: Some(child(made_for)),
        strays: Vec::new(),
        credentials: Some(Ok(credentials())),
    }
}
