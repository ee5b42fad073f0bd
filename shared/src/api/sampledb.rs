//! `SampleDB`: a PostgreSQL database.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::Bootstrap;
use super::election::Election;
use super::endpoints::{Binding, Endpoints};
use super::instances::Instance;
use super::postgres::Postgres;
use super::provisioning::Provisioning;
use super::scheduling::Scheduling;
use super::services::Services;
use super::storage::Storage;

/// What the user wants.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "sampledb.dev",
    version = "v1",
    kind = "SampleDB",
    root = "SampleDb",
    plural = "sampledbs",
    singular = "sampledb",
    shortname = "sdb",
    category = "sampledb-all",
    namespaced,
    doc = "A PostgreSQL database, run by the SampleDB controllers.",
    derive = "PartialEq",
    status = "SampleDbStatus",
    scale(
        spec_replicas_path = ".spec.instances",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.provisioning.version", description = "The PostgreSQL version that runs"),
    printcolumn(name = "Instances", type_ = "integer", json_path = ".spec.instances", description = "How many instances are wanted"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.provisioning.readyInstances", description = "How many instances are ready"),
    printcolumn(name = "Primary", type_ = "string", json_path = ".status.election.primary", description = "The instance that takes writes"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase", description = "One word for the whole database"),
    printcolumn(name = "Storage", type_ = "string", json_path = ".spec.storage.data.size", priority = 1, description = "The size asked for of the data volume"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoints.rw.host", priority = 1, description = "Where writes go"),
    printcolumn(name = "Term", type_ = "integer", json_path = ".status.election.term", priority = 1, description = "The term of the election"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", priority = 1, description = "Why it is ready, or not"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$')")
        .message("metadata.name must be 1 to 50 characters of a-z, 0-9 and '-', begin with a letter and not end with '-': every object of the database is named after it"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.election) || (has(self.status) && has(self.status.election))")
        .message("status.election can be replaced, never removed: it says which instance may take writes")
)]
#[serde(rename_all = "camelCase")]
pub struct SampleDbSpec {
    /// How many instances run: 0 hibernates the database and keeps its volumes. Default: 1. Effect: live.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 16))]
    #[x_kube(validation = Rule::new("self <= 1").message("instances must be 0 or 1: replicas need the election between instances, which this version does not have yet"))]
    pub instances: i32,
    /// The PostgreSQL server: its version and its configuration.
    pub postgres: Postgres,
    /// How the database first came to be. Immutable; used once.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("bootstrap is used once, when the database is created: make a new SampleDB to begin differently"))]
    pub bootstrap: Bootstrap,
    /// The volumes.
    pub storage: Storage,
    /// How clients reach the database. Default: a ClusterIP Service `<name>-rw`. Effect: live.
    #[serde(default)]
    pub services: Services,
    /// Where the pods run and what they may use. Default: anywhere, with the chart's requests. Effect: the pod is replaced at the next restart.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// What may happen to the database when the SampleDB is deleted. Default: the volumes are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
    /// Pauses every change of the controllers to this database; the database itself and its election go on. Default: false. Effect: live.
    #[serde(default)]
    pub paused: bool,
}

fn one() -> i32 {
    1
}

/// What happens on delete.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// `Retain` keeps the volumes when the SampleDB is deleted; `Protect` refuses the delete until it is confirmed by an annotation. No default. Effect: live.
    pub policy: DeletionPolicy,
}

/// What a delete of the SampleDB does.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeletionPolicy {
    /// The volumes stay.
    Retain,
    /// The delete is refused.
    Protect,
}

/// What is: one writer a section, see `ownership`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleDbStatus {
    /// The generation of the spec that `Ready` speaks of. Written by the provisioner.
    #[serde(default)]
    pub observed_generation: i64,
    /// One word for the whole database. Written by the provisioner.
    #[serde(default)]
    pub phase: Phase,
    /// The state in parts; each type has one writer.
    #[serde(default)]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// What the provisioner made and found. Written by the provisioner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<Provisioning>,
    /// The register of the election. Written by the instances' agents, by compare-and-swap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self.rev == oldSelf.rev + 1 || self == oldSelf").message("status.election.rev must be the next one: this write was decided on a register that has changed since"),
        validation = Rule::new("self.term >= oldSelf.term").message("status.election.term never goes back"),
        validation = Rule::new("self.term <= oldSelf.term + 1").message("status.election.term grows by one"),
        validation = Rule::new("self.term == oldSelf.term || self.phase == 'Electing'").message("a new term of status.election begins in phase Electing"),
        validation = Rule::new("self.term != oldSelf.term || !has(oldSelf.primary) || (has(self.primary) && self.primary == oldSelf.primary)").message("status.election.primary is not replaced within its term"),
        validation = Rule::new("self.term != oldSelf.term || oldSelf.phase == self.phase || (oldSelf.phase == 'Electing' && self.phase == 'Elected') || (oldSelf.phase == 'Elected' && self.phase == 'Open')").message("status.election.phase goes Electing, Elected, Open within a term"),
        validation = Rule::new("!has(oldSelf.systemId) || (has(self.systemId) && self.systemId == oldSelf.systemId)").message("status.election.systemId is fixed once the database was open")
    )]
    pub election: Option<Election>,
    /// What each instance says of itself. Each entry is written by that instance's agent.
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
    /// Where clients reach the database. Written by the service-publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    /// The Secret with the connection, as Service Binding for Kubernetes wants it. Written by the service-publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
    /// How many pods there are, for the scale subresource. Written by the provisioner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The label selector of the database's pods, for the scale subresource. Written by the provisioner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub selector: Option<String>,
}

/// One word for the whole database.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// The objects are being made and PostgreSQL is starting for the first time.
    Creating,
    /// PostgreSQL takes writes and everything is as wanted.
    Running,
    /// It was running, and something is missing now.
    Degraded,
    /// `instances` is 0: the volumes are kept, nothing runs.
    Hibernated,
    /// The SampleDB is being deleted.
    Deleting,
    /// It cannot go on without a person: `Stalled` says why.
    Failed,
}
