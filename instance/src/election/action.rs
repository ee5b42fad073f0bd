//! What can be decided.

use sampledb_shared::api::election::Election;
use sampledb_shared::api::instances::InstanceErrorReason;

use crate::control::Member;

/// The one thing to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes or the time has come.
    Wait(Waiting),
    /// Swap the register. After anything but success it is read again before the next decision.
    Write {
        /// The block that is replaced; absent for the first.
        old: Option<Box<Election>>,
        /// The new one.
        new: Box<Election>,
    },
    /// Have the runner write `member.json`.
    Remember(Member),
    /// Have the runner make the data directory.
    Initdb,
    /// Have the runner start PostgreSQL.
    Start,
    /// Have the runner make the roles, and the database when it was never open.
    Establish {
        /// Whether the database is made too.
        database: bool,
    },
    /// Commit a write as the agent, for this term: proof that the database takes writes.
    Commit {
        /// The term.
        term: i64,
    },
    /// Lead clients here: the `-rw` slice.
    Publish {
        /// The term.
        term: i64,
    },
    /// All is as it should be.
    Serve,
    /// Lead clients away: the runner was told to end.
    Leave,
    /// Do nothing to the volume, and say why.
    Refuse(Refusal),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The register was not read yet.
    Register,
    /// The claim was not read yet.
    Claim,
    /// PostgreSQL is starting or stopping.
    Postgres,
    /// A start failed a moment ago.
    HoldOff,
    /// The register does not count this pod, or names another primary: not possible with one member.
    NotPrimary,
}

/// Why nothing is done to the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Clients have written to this database, and its data is not on this volume.
    VolumeLost {
        /// What is on the volume instead.
        found: String,
    },
    /// The volume is another SampleDB's.
    ForeignVolume {
        /// Its UID; absent when only the volume's own memory says so.
        owner: Option<String>,
    },
    /// The volume holds something that cannot be read.
    Unreadable {
        /// What, and why.
        error: String,
    },
    /// The register and the volume tell different histories.
    HistoryMismatch {
        /// How they differ.
        found: String,
    },
}

impl Refusal {
    /// As it stands in `status.instances[].lastError.reason`.
    pub fn reason(&self) -> InstanceErrorReason {
        match self {
            Self::VolumeLost { .. } => InstanceErrorReason::VolumeLost,
            Self::ForeignVolume { .. } => InstanceErrorReason::ForeignVolume,
            Self::Unreadable { .. } => InstanceErrorReason::StartFailed,
            Self::HistoryMismatch { .. } => InstanceErrorReason::HistoryMismatch,
        }
    }

    /// What happened and what to do, for a person. `uid` is the SampleDB's, `claim` the claim's name.
    pub fn message(&self, uid: &str, claim: &str) -> String {
        let adopt = format!(
            "delete this SampleDB (its volumes are kept) and create it again with the annotation \
             sampledb.dev/adopt-volumes: \"{uid}\""
        );
        match self {
            Self::VolumeLost { found } => format!(
                "the database was open before, but {found}; nothing is initialised over it. If the former \
                 PersistentVolume still exists, bind it again to a claim named {claim}, then {adopt}. If it is gone, \
                 restore a backup as a new SampleDB"
            ),
            Self::ForeignVolume { owner } => format!(
                "the volume of claim {claim} belongs to another SampleDB{}; nothing on it is touched. To take over \
                 its data, annotate this SampleDB with sampledb.dev/adopt-volumes and that UID; to begin anew, \
                 delete the claim or use another name",
                owner.as_ref().map(|o| format!(" (UID {o})")).unwrap_or_default()
            ),
            Self::Unreadable { error } => format!(
                "the volume of claim {claim} is damaged and nothing on it is touched: {error}. Repair the volume or \
                 restore a backup as a new SampleDB"
            ),
            Self::HistoryMismatch { found } => format!(
                "{found}: the cluster's state or the volume was restored from an older copy, and which one holds is \
                 for a person to say. To go on with what is on the volume, {adopt}"
            ),
        }
    }
}
