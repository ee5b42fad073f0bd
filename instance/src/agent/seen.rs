//! What the agent sees of the cluster: lean rows of its SampleDB and of its configuration.
//!
//! Only the fields the agent uses are read, so that a field of a later version never blinds it.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::bootstrap::{Bootstrap, LocaleProvider, NewDatabase};
use sampledb_shared::api::election::Election;
use sampledb_shared::api::instances::Instance;
use sampledb_shared::api::provisioning::{InitPhase, InitStatus};
use sampledb_shared::domain::labels;
use serde::{Deserialize, Serialize};

use crate::control::{Configuration, Initdb};
use crate::election::Register;

/// The files of a [`Configuration`]: other keys of the ConfigMap are not PostgreSQL's.
pub const FILES: [&str; 3] = ["postgresql.conf", "pg_hba.conf", "pg_ident.conf"];

/// A SampleDB, as far as the agent reads it.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = SampleDb)]
pub struct Row {
    /// Metadata.
    pub metadata: ObjectMeta,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    #[serde(default)]
    bootstrap: Bootstrap,
    #[serde(default)]
    paused: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    provisioning: Option<Provisioning>,
    election: Option<Election>,
    instances: Vec<Instance>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Provisioning {
    uid: String,
    init: Option<InitStatus>,
}

/// The SampleDB, as the agent uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// Its UID.
    pub uid: String,
    /// The precondition for writes that are not bound to the UID.
    pub resource_version: String,
    /// The generation of the spec.
    pub generation: i64,
    /// Changes are paused.
    pub paused: bool,
    /// The value of the annotation that asks for a restart.
    pub restarted_at: Option<String>,
    /// How the database comes to be.
    pub new: NewDatabase,
    /// The register.
    pub register: Register,
    /// The own entry of `status.instances`, if it was written for this UID.
    pub own: Option<Instance>,
    /// All conditions.
    pub conditions: Vec<Condition>,
    /// Initial SQL was run.
    pub initialised: bool,
}

impl Database {
    /// From a row, for the pod `me`.
    pub fn of(row: Row, me: &str) -> Self {
        let uid = row.metadata.uid.unwrap_or_default();
        let own = row
            .status
            .instances
            .into_iter()
            .find(|i| i.name == me && i.uid == uid);
        let init = row
            .status
            .provisioning
            .filter(|p| p.uid == uid)
            .and_then(|p| p.init);
        Self {
            resource_version: row.metadata.resource_version.unwrap_or_default(),
            generation: row.metadata.generation.unwrap_or_default(),
            paused: row.spec.paused,
            restarted_at: labels::restart_wish(row.metadata.annotations.as_ref()),
            new: row.spec.bootstrap.new,
            register: row
                .status
                .election
                .map_or(Register::Empty, |e| Register::Block(Box::new(e))),
            own,
            conditions: row.status.conditions,
            initialised: init.is_some_and(|i| i.phase == InitPhase::Succeeded),
            uid,
        }
    }
}

/// What the runner's initdb is told.
pub fn initdb(new: &NewDatabase) -> Initdb {
    Initdb {
        data_checksums: new.data_checksums,
        encoding: new.encoding.clone(),
        locale_provider: match new.locale.provider {
            LocaleProvider::Libc => "libc",
            LocaleProvider::Icu => "icu",
            LocaleProvider::Builtin => "builtin",
        }
        .to_owned(),
        locale: new.locale.name.clone(),
    }
}

/// The configuration in the ConfigMap; `None` while a file or the hash is missing, or it is another SampleDB's.
pub fn configuration(map: &ConfigMap, uid: &str) -> Option<Configuration> {
    let annotations = map.metadata.annotations.as_ref()?;
    if annotations.get(labels::UID).is_some_and(|owner| owner != uid) {
        return None;
    }
    let hash = annotations.get(labels::CONFIG_HASH)?.clone();
    let data = map.data.as_ref()?;
    let files = FILES
        .iter()
        .map(|f| data.get(*f).map(|text| ((*f).to_owned(), text.clone())))
        .collect::<Option<_>>()?;
    Some(Configuration { hash, files })
}

/// What the agent keeps in its own folder, so that a restart of its container while the API is away does not end
/// the database. A new pod begins without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The SampleDB's UID.
    pub uid: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The UID of the claim.
    pub claim_uid: String,
    /// The register, once it was Open.
    pub register: Election,
    /// The configuration.
    pub configuration: Option<Configuration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_databases_configuration_is_not_used() {
        let map: ConfigMap = serde_json::from_value(serde_json::json!({
            "metadata": {"annotations": {"sampledb.dev/uid": "u", "sampledb.dev/config-hash": "h"}},
            "data": {"postgresql.conf": "a", "pg_hba.conf": "b", "pg_ident.conf": "c", "settings.json": "{}"},
        }))
        .unwrap();
        assert_eq!(configuration(&map, "u").map(|c| c.files.len()), Some(3));
        assert_eq!(configuration(&map, "v"), None);
    }

    #[test]
    fn a_status_of_a_later_version_does_not_blind_the_agent() {
        let row: Row = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"instances": 1, "postgres": {"version": "17"}, "new": {"thing": 1}},
            "status": {"phase": "Sideways", "later": {}, "provisioning": {"uid": "u", "what": 1,
                       "init": {"phase": "Succeeded"}}},
        }))
        .unwrap();
        let database = Database::of(row, "a-0");
        assert!(database.initialised);
        assert_eq!(database.register, Register::Empty);
    }
}
