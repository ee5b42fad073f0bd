//! `status.instances`: what each instance says of itself, each entry written by that instance's agent.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One instance, in its agent's words. Written when it changes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Instance {
    /// The pod.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The UID of the SampleDB this was written for; readers ignore another's.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The UID of the claim of the data volume that is mounted; absent until it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub claim_uid: Option<String>,
    /// The server's version ("17.12"); absent until it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,
    /// The hash of the configuration that is in force; absent until one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub config_hash: Option<String>,
    /// Settings that were changed and wait for a restart of PostgreSQL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 128)))]
    pub pending_restart: Vec<String>,
    /// The last value of the annotation `sampledb.dev/restartedAt` that was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub restarted_at: Option<String>,
    /// Why PostgreSQL refused the configuration with the hash `rejectedHash`, in its own words; empty when it took it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub parameter_errors: Vec<String>,
    /// The hash of the configuration that PostgreSQL refused; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub rejected_hash: Option<String>,
    /// Whether the volumes have room.
    pub storage: StorageState,
    /// The serial number, in hexadecimal, of the certificate that the server shows; absent until one was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cert_serial: Option<String>,
    /// What keeps this instance from running; absent when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<InstanceError>,
}

/// Whether the volumes of an instance have room.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageState {
    /// They have.
    #[default]
    Ok,
    /// The reserve file was given up so that PostgreSQL can go on: grow the volume.
    BallastUsed,
    /// Nothing is left.
    Full,
}

/// What keeps an instance from running.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceError {
    /// Its kind.
    pub reason: InstanceErrorReason,
    /// What happened and what to do, for a person.
    #[schemars(length(max = 2048))]
    pub message: String,
}

/// The kinds of what keeps an instance from running.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceErrorReason {
    /// The database was open before and its volume is empty or another one: initdb is refused.
    VolumeLost,
    /// The volume belongs to another SampleDB.
    ForeignVolume,
    /// PostgreSQL does not start.
    StartFailed,
    /// initdb failed.
    InitFailed,
    /// The register and the volume tell different histories: one of them was restored from an older copy.
    HistoryMismatch,
}
