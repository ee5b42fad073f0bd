//! The ConfigMaps: PostgreSQL's configuration, and what its clients and the agents trust.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use sampledb_shared::api::bootstrap::LocaleProvider;
use sampledb_shared::domain::labels::{self, Component};
use sampledb_shared::domain::names;
use sampledb_shared::runtime::plan::hash;
use serde_json::json;

use super::{Target, hba, postgresql_conf};

/// PostgreSQL's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The files by name.
    pub files: BTreeMap<String, String>,
    /// The hash of the files that PostgreSQL reads; the agents say which one is in force.
    pub hash: String,
}

impl Configuration {
    /// From the SampleDB alone.
    pub fn of(target: &Target<'_>) -> Self {
        let spec = &target.db.spec;
        let new = &spec.bootstrap.new;
        let mut files: BTreeMap<String, String> = [
            ("postgresql.conf", postgresql_conf::render(target)),
            ("pg_hba.conf", hba::render(&spec.postgres.hba)),
            ("pg_ident.conf", hba::IDENT.to_owned()),
        ]
        .map(|(name, text)| (name.to_owned(), text))
        .into();
        let hash = hash(&json!(files));
        let settings = json!({
            "database": new.database,
            "owner": new.owner,
            "initdb": {
                "dataChecksums": new.data_checksums,
                "encoding": new.encoding,
                "localeProvider": match new.locale.provider {
                    LocaleProvider::Libc => "libc",
                    LocaleProvider::Icu => "icu",
                    LocaleProvider::Builtin => "builtin",
                },
                "locale": new.locale.name,
            },
        });
        files.insert("settings.json".into(), settings.to_string());
        Self { files, hash }
    }
}

/// `<name>-config`.
pub fn config(target: &Target<'_>, configuration: &Configuration) -> ConfigMap {
    let mut metadata = target.metadata(names::config(&target.name), Component::Config);
    if let Some(annotations) = &mut metadata.annotations {
        annotations.insert(labels::CONFIG_HASH.into(), configuration.hash.clone());
    }
    ConfigMap {
        metadata,
        data: Some(configuration.files.clone()),
        ..ConfigMap::default()
    }
}

/// `<name>-trust`: the certificates of the CA, the one before as well while both are in use.
pub fn trust(target: &Target<'_>, bundle: &str) -> ConfigMap {
    ConfigMap {
        metadata: target.metadata(names::trust(&target.name), Component::Config),
        data: Some([("ca.crt".to_owned(), bundle.to_owned())].into()),
        ..ConfigMap::default()
    }
}
