//! `status.election`: the register of the election (`docs/status-contract.md`).
//!
//! It changes only by compare-and-swap on the SampleDB's UID, `term` and `rev`; every write replaces the
//! whole block and adds one to `rev`. Nobody ever server-side-applies it.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The register.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Election {
    /// The number of this write; one more each time.
    #[schemars(range(min = 1))]
    pub rev: i64,
    /// The term: one primary at the most in each.
    #[schemars(range(min = 1))]
    pub term: i64,
    /// How far this term has come.
    pub phase: ElectionPhase,
    /// PostgreSQL's system identifier, a decimal number of 64 bits; absent until the database was first open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^[0-9]+$"))]
    pub system_id: Option<String>,
    /// The pod that is the primary of this term; absent while Electing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub primary: Option<String>,
    /// The flushed position of the primary when it was named, as PostgreSQL writes it ("0/3000148"); absent while Electing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17), regex(pattern = r"^[0-9A-F]{1,8}/[0-9A-F]{1,8}$"))]
    pub position: Option<String>,
    /// The highest timeline that was reserved; 0 before the first primary was named.
    #[schemars(range(min = 0))]
    pub timeline: i64,
    /// The pods that have a voice, by ordinal.
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub members: Vec<String>,
    /// The members of a change that is under way; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub pending_members: Option<Vec<String>>,
    /// Whose confirmation a commit waits for.
    pub sync: SyncSet,
    /// The synchronous set of a change that is under way; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_sync: Option<SyncSet>,
    /// The term before this one; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<PreviousTerm>,
}

/// How far a term has come.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElectionPhase {
    /// Promises are being collected; there is no primary.
    Electing,
    /// The primary is named, and not open to clients yet.
    Elected,
    /// The primary takes clients.
    Open,
}

/// Whose confirmation a commit waits for.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncSet {
    /// The pod that wrote this set: the primary that commits under it; empty before the first.
    #[schemars(length(max = 63))]
    pub owner: String,
    /// The pods that may confirm.
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub standbys: Vec<String>,
    /// How many of them must.
    #[schemars(range(min = 0, max = 16))]
    pub w: i32,
    /// What happens when too few can.
    pub mode: SyncMode,
}

/// What happens when too few standbys can confirm a commit.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncMode {
    /// Commits do not wait for a standby.
    Async,
    /// Commits wait.
    Required,
    /// The primary may lower the number, through the register.
    Preferred,
}

/// The term before.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviousTerm {
    /// Its number.
    pub term: i64,
    /// Its primary; absent if none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub primary: Option<String>,
    /// Whether that primary had opened to clients.
    pub open: bool,
}
