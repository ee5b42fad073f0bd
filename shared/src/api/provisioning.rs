//! `status.provisioning`: what the provisioner made and found.

use jiff::Timestamp;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the provisioner made and found.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Provisioning {
    /// The UID of the SampleDB this was written for; readers ignore another's.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// How many instances are ready.
    #[serde(default)]
    pub ready_instances: i32,
    /// The PostgreSQL version that runs; absent until one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,
    /// The images, as they were resolved; they stay until `spec.postgres` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// The claims, as they were made or adopted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub volumes: Vec<VolumeStatus>,
    /// The initial SQL; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitStatus>,
    /// When the certificates end; absent until there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
}

/// The images, as they were resolved.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// `spec.postgres.version` and `spec.postgres.image` that they were resolved for, as "version" or "version image".
    #[schemars(length(max = 600))]
    pub resolved_for: String,
    /// The image of the `postgres` container.
    #[schemars(length(max = 512))]
    pub postgres: String,
    /// The image of the agent and of the runner.
    #[schemars(length(max = 512))]
    pub instance: String,
}

/// One claim.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Its name.
    #[schemars(length(max = 253))]
    pub claim: String,
    /// Its UID: another one under the same name is another volume.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The capacity that is there, as a quantity; absent until it is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub capacity: Option<String>,
}

/// The initial SQL.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitStatus {
    /// How far it has come.
    pub phase: InitPhase,
    /// The Job that runs it; absent until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub job: Option<String>,
    /// PostgreSQL's error; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub error: Option<String>,
}

/// How far the initial SQL has come.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitPhase {
    /// It waits for its ConfigMap.
    Waiting,
    /// Its Job runs.
    Running,
    /// It was run.
    Succeeded,
    /// PostgreSQL refused it.
    Failed,
}

/// When the certificates end.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// When the CA's ends.
    pub ca_not_after: Timestamp,
    /// When the server's ends; it is renewed long before.
    pub server_not_after: Timestamp,
}
