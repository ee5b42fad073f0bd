//! The blocks of the register and of `member.json`, as each step writes them.

use sampledb_shared::api::election::{Election, ElectionPhase, PreviousTerm, SyncMode, SyncSet};

use crate::control::{Data, Member};

/// The form of `member.json` that this version writes.
pub const MEMBER_VERSION: u32 = 1;

/// The first block: term 1, nobody named.
pub fn first(me: &str) -> Election {
    Election {
        rev: 1,
        term: 1,
        phase: ElectionPhase::Electing,
        system_id: None,
        primary: None,
        position: None,
        timeline: 0,
        members: vec![me.to_owned()],
        pending_members: None,
        sync: SyncSet {
            owner: String::new(),
            standbys: Vec::new(),
            w: 0,
            mode: SyncMode::Async,
        },
        pending_sync: None,
        prev: None,
    }
}

/// A new term after `old`: nobody named, the synchronous set and what is pending kept.
pub fn next_term(old: &Election) -> Election {
    Election {
        rev: old.rev + 1,
        term: old.term + 1,
        phase: ElectionPhase::Electing,
        primary: None,
        position: None,
        prev: Some(PreviousTerm {
            term: old.term,
            primary: old.primary.clone(),
            open: old.phase == ElectionPhase::Open,
        }),
        ..old.clone()
    }
}

/// `me` named in a database that was never open: timeline 1, or what an adopted volume is on. There is no
/// promotion, so no timeline is reserved beyond it.
pub fn elected(old: &Election, me: &str, data: &Data) -> Election {
    let (position, timeline) = match data {
        Data::Empty | Data::Unreadable { .. } => ("0/0".to_owned(), 1),
        Data::Initialised {
            checkpoint, timeline, ..
        } => (checkpoint.clone(), *timeline),
    };
    Election {
        rev: old.rev + 1,
        phase: ElectionPhase::Elected,
        primary: Some(me.to_owned()),
        position: Some(position),
        timeline: timeline.max(old.timeline),
        ..old.clone()
    }
}

/// The primary takes clients.
pub fn open(old: &Election, me: &str, system_id: &str) -> Election {
    Election {
        rev: old.rev + 1,
        phase: ElectionPhase::Open,
        system_id: Some(system_id.to_owned()),
        sync: SyncSet {
            owner: me.to_owned(),
            ..old.sync.clone()
        },
        pending_sync: None,
        pending_members: None,
        ..old.clone()
    }
}

/// A member that has promised nothing.
pub fn member(uid: &str, claim_uid: &str) -> Member {
    Member {
        version: MEMBER_VERSION,
        uid: uid.to_owned(),
        claim_uid: claim_uid.to_owned(),
        promised: 0,
        primary_of: 0,
        opened_in: 0,
        resigned: None,
        marked: false,
    }
}
