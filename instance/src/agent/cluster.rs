//! The agent's writes to the API: the register, the slice, its own parts of the status, events.
//!
//! Each is bound to the SampleDB's UID, or carries a resourceVersion that was read together with it, so that a
//! re-creation under the same name is never written to.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use sampledb_shared::api::election::Election;
use sampledb_shared::api::instances::Instance;
use sampledb_shared::api::ownership::AGENT;
use sampledb_shared::api::{GROUP, VERSION};
use sampledb_shared::domain::{labels, names};
use serde_json::{Value, json};

use super::seen::{Database, Row};
use super::settings::Settings;
use super::slice::{self, Target};
use crate::election::{Claim, Register, swap};

/// No answer within this time is a failure.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why a read or a write was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The API server refused or could not be reached.
    #[error("{what}: {}", said(source))]
    Api {
        /// What was asked for.
        what: String,
        /// The answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer in time. A write may have been done.
    #[error("{what}: no answer within {} s", PATIENCE.as_secs())]
    TimedOut {
        /// What was asked for.
        what: String,
    },
    /// The SampleDB was deleted, or deleted and created again.
    #[error("the SampleDB with UID {0} is gone; nothing is written to another one of its name")]
    Gone(String),
    /// Another instance leads clients in a later term.
    #[error("the slice is already at term {0}")]
    Superseded(i64),
    /// A patch could not be made.
    #[error("a patch could not be made: {0}")]
    Patch(#[from] serde_json::Error),
}

/// The API server's own words where there are some; the library prints the whole answer twice.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({} {})", status.message, status.code, status.reason),
        other => {
            let cause = std::error::Error::source(other)
                .map(|s| format!(": {s}"))
                .unwrap_or_default();
            format!("{other}{cause}")
        }
    }
}

impl ClusterError {
    /// Whether somebody else was first: read again and decide anew.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(s) if s.code == 409 || s.code == 422))
    }
}

/// The API, for this pod.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    settings: Arc<Settings>,
    ordinal: i32,
}

impl Cluster {
    /// For the pod with this number.
    pub fn new(client: Client, settings: Arc<Settings>, ordinal: i32) -> Self {
        Self {
            client,
            settings,
            ordinal,
        }
    }

    /// The SampleDB.
    pub fn databases(&self) -> Api<Row> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    /// The configuration.
    pub fn configurations(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    /// The slice.
    pub fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    /// Events.
    pub fn events(&self) -> Api<k8s_openapi::api::events::v1::Event> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    /// The pod and its SampleDB.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The manager of the own entry of `status.instances`.
    pub fn own_manager(&self) -> String {
        format!("{}-{}", AGENT.manager, self.ordinal)
    }

    /// The SampleDB, live.
    pub async fn database(&self) -> Result<Database, ClusterError> {
        let row = timed("get the SampleDB", self.databases().get(&self.settings.name)).await?;
        let database = Database::of(row, &self.settings.pod);
        if database.uid == self.settings.uid {
            Ok(database)
        } else {
            Err(ClusterError::Gone(self.settings.uid.clone()))
        }
    }

    /// The claim of the data volume, live.
    pub async fn claim(&self, name: &str) -> Result<Claim, ClusterError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let found: PartialObjectMeta<PersistentVolumeClaim> =
            timed(&format!("get the claim {name}"), api.get_metadata(name)).await?;
        Ok(Claim {
            owner: found.annotations().get(labels::UID).cloned(),
            uid: found.uid().unwrap_or_default(),
        })
    }

    /// Swaps the register. After an error nothing is known: read it again.
    pub async fn swap(&self, old: Option<&Election>, new: &Election) -> Result<Register, ClusterError> {
        let patch = Patch::Json::<()>(swap::patch(&self.settings.uid, old, new)?);
        let params = PatchParams {
            field_manager: Some(AGENT.manager.to_owned()),
            ..PatchParams::default()
        };
        let row = timed(
            "swap the register",
            self.databases()
                .patch_status(&self.settings.name, &params, &patch),
        )
        .await?;
        Ok(Database::of(row, &self.settings.pod).register)
    }

    /// Applies the own entry of `status.instances`.
    pub async fn apply_instance(&self, instance: &Instance, version: &str) -> Result<(), ClusterError> {
        self.apply_status(&self.own_manager(), json!({"instances": [instance]}), version)
            .await
    }

    /// Applies the agents' conditions: all of them, a missing one would be removed.
    pub async fn apply_conditions(
        &self,
        conditions: &[Condition],
        version: &str,
    ) -> Result<(), ClusterError> {
        self.apply_status(AGENT.manager, json!({"conditions": conditions}), version)
            .await
    }

    async fn apply_status(&self, manager: &str, status: Value, version: &str) -> Result<(), ClusterError> {
        let body = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "SampleDB",
            "metadata": {"name": self.settings.name, "resourceVersion": version},
            "status": status,
        });
        let params = PatchParams::apply(manager).force();
        let what = format!("apply the status as {manager}");
        timed(
            &what,
            self.databases()
                .patch_status(&self.settings.name, &params, &Patch::Apply(&body)),
        )
        .await?;
        Ok(())
    }

    fn target(&self) -> Target<'_> {
        Target {
            name: &self.settings.name,
            namespace: &self.settings.namespace,
            uid: &self.settings.uid,
            pod: &self.settings.pod,
            pod_uid: &self.settings.pod_uid,
            address: self.settings.pod_ip,
            manager: AGENT.manager,
        }
    }

    /// The slice as it should be.
    pub fn wanted_slice(&self, term: i64, filled: bool) -> EndpointSlice {
        slice::slice(&self.target(), term, filled)
    }

    /// Makes the slice what it should be in one write; `found` is what was seen last. The slice of another SampleDB
    /// is left alone, and that of a later term.
    pub async fn lead(
        &self,
        wanted: &EndpointSlice,
        found: Option<&EndpointSlice>,
    ) -> Result<EndpointSlice, ClusterError> {
        let name = names::rw(&self.settings.name);
        let Some(found) = found else {
            // Not forced: what another instance wrote meanwhile is a conflict, not overwritten.
            let params = PatchParams::apply(&self.own_manager());
            return timed(
                "create the slice",
                self.slices().patch(&name, &params, &Patch::Apply(wanted)),
            )
            .await;
        };
        let term = slice::term_of(wanted, &self.settings.uid).unwrap_or_default();
        if slice::is_anothers(found, &self.settings.uid) {
            return Err(ClusterError::Gone(self.settings.uid.clone()));
        }
        if let Some(later) = slice::term_of(found, &self.settings.uid).filter(|t| *t > term)
            && !self.is_latest(term).await?
        {
            return Err(ClusterError::Superseded(later));
        }
        if slice::same(found, wanted) {
            return Ok(found.clone());
        }
        let patch = Patch::Json::<()>(slice::patch(found, wanted)?);
        timed(
            "patch the slice",
            self.slices().patch(&name, &PatchParams::default(), &patch),
        )
        .await
    }

    /// Whether the register, live, is at this term with this pod: then no later term exists, whatever a slice says.
    async fn is_latest(&self, term: i64) -> Result<bool, ClusterError> {
        let database = self.database().await?;
        let block = database.register.block();
        Ok(block.is_some_and(|b| b.term == term && b.primary.as_deref() == Some(&self.settings.pod)))
    }

    /// The slice, live.
    pub async fn found_slice(&self) -> Result<Option<EndpointSlice>, ClusterError> {
        timed(
            "get the slice",
            self.slices().get_opt(&names::rw(&self.settings.name)),
        )
        .await
    }
}

async fn timed<T>(what: &str, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ClusterError> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(ClusterError::Api {
            what: what.to_owned(),
            source: Box::new(source),
        }),
        Err(_) => Err(ClusterError::TimedOut {
            what: what.to_owned(),
        }),
    }
}
