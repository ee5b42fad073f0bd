//! What a decision is made from.

use sampledb_shared::api::election::Election;

use crate::control::{Data, Member, State};

/// The register, as it was last read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Register {
    /// The SampleDB has none yet.
    Empty,
    /// The block.
    Block(Box<Election>),
}

impl Register {
    /// The block, if there is one.
    pub fn block(&self) -> Option<&Election> {
        match self {
            Self::Empty => None,
            Self::Block(block) => Some(block),
        }
    }
}

/// The claim of the data volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// The UID of the SampleDB that it belongs to, from its annotation; absent when it has none (a claim that the
    /// StatefulSet controller made in place of a deleted one).
    pub owner: Option<String>,
}

/// What this process did and would have to do again after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The term that this process swapped in as Electing. Nobody resumes another process's candidacy.
    pub candidate: Option<i64>,
    /// Whether roles and owner are up to date in the server that runs.
    pub established: bool,
    /// The term for which the server that runs has committed a write.
    pub committed: Option<i64>,
    /// The term for which clients are led here.
    pub published: Option<i64>,
    /// Milliseconds of the boot clock before which PostgreSQL (or initdb) is not started again.
    pub hold_until: u64,
}

/// Everything that is known.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The own pod.
    pub me: &'a str,
    /// The SampleDB's UID.
    pub uid: &'a str,
    /// The register; absent until it was read.
    pub register: Option<&'a Register>,
    /// The claim; absent until it was read.
    pub claim: Option<&'a Claim>,
    /// The provisioner says that initial SQL was run: the database was open, whatever the register says.
    pub initialised: bool,
    /// What the runner sees.
    pub state: &'a State,
    /// What this process did.
    pub session: &'a Session,
    /// Milliseconds of the boot clock.
    pub now: u64,
}

impl<'a> Sight<'a> {
    /// The register's block.
    pub fn block(&self) -> Option<&'a Election> {
        self.register.and_then(Register::block)
    }

    /// `member.json` when it was written for this SampleDB and this volume.
    pub fn member(&self) -> Option<&'a Member> {
        let claim = self.claim?;
        self.state
            .member
            .as_ref()
            .filter(|m| m.uid == self.uid && m.claim_uid == claim.uid)
    }

    /// Whether clients may have written to this database: then an empty volume is a lost one.
    pub fn opened_before(&self) -> bool {
        self.initialised
            || self.block().is_some_and(|b| b.system_id.is_some())
            || self
                .state
                .member
                .as_ref()
                .is_some_and(|m| m.uid == self.uid && m.opened_in > 0)
            || self.member().is_some_and(|m| m.marked)
    }

    /// The system identifier on the volume.
    pub fn system_id(&self) -> Option<&'a str> {
        match &self.state.data {
            Data::Empty | Data::Unreadable { .. } => None,
            Data::Initialised { system_id, .. } => Some(system_id),
        }
    }
}
