//! The rules, in order. The first that has something to say decides.

use sampledb_shared::api::election::{Election, ElectionPhase};

use super::action::{Action, Refusal, Waiting};
use super::blocks;
use super::sight::{Register, Sight};
use crate::control::{Data, Member, Postgres};

/// The one thing to do now. Total: every sight has an answer.
pub fn next(sight: &Sight<'_>) -> Action {
    ending(sight)
        .or_else(|| unknown(sight))
        .or_else(|| foreign(sight))
        .or_else(|| unreadable(sight))
        .or_else(|| lost(sight))
        .or_else(|| first_write(sight))
        .or_else(|| new_member(sight))
        .or_else(|| term(sight))
        .unwrap_or(Action::Wait(Waiting::NotPrimary))
}

/// The pod ends: clients are led away while the runner stops PostgreSQL.
fn ending(s: &Sight<'_>) -> Option<Action> {
    s.state.ending.then_some(Action::Leave)
}

/// Nothing is decided before register and claim were seen.
fn unknown(s: &Sight<'_>) -> Option<Action> {
    if s.claim.is_none() {
        return Some(Action::Wait(Waiting::Claim));
    }
    s.register.is_none().then_some(Action::Wait(Waiting::Register))
}

/// Another SampleDB's volume is not touched. Without an annotation the volume's own memory counts.
fn foreign(s: &Sight<'_>) -> Option<Action> {
    let claim = s.claim?;
    let other = match &claim.owner {
        Some(owner) => owner != s.uid,
        None => {
            s.state.data != Data::Empty
                && s.block().is_none_or(|b| b.system_id.is_none())
                && s.state.member.as_ref().is_none_or(|m| m.uid != s.uid)
        }
    };
    other.then(|| {
        Action::Refuse(Refusal::ForeignVolume {
            owner: claim.owner.clone(),
        })
    })
}

/// What cannot be read is not empty.
fn unreadable(s: &Sight<'_>) -> Option<Action> {
    match &s.state.data {
        Data::Unreadable { error } => Some(Action::Refuse(Refusal::Unreadable { error: error.clone() })),
        Data::Empty | Data::Initialised { .. } => None,
    }
}

/// The database was open and this is not its volume: marked, so that this member never counts, and refused.
fn lost(s: &Sight<'_>) -> Option<Action> {
    if !s.opened_before() {
        return None;
    }
    let claim = s.claim?;
    let block = s.block();
    let wanted = block.and_then(|b| b.system_id.as_deref());
    let found = match (&s.state.data, s.member()) {
        (Data::Empty | Data::Unreadable { .. }, _) => "its volume is empty".to_owned(),
        (Data::Initialised { system_id, .. }, _) if wanted.is_some_and(|w| w != system_id) => {
            format!("its volume holds another database (system identifier {system_id})")
        }
        (_, Some(m)) if m.marked => "its volume was marked as lost".to_owned(),
        (_, Some(_)) => return None,
        // Never open as far as the register knows, and data there: that is an adoption.
        (_, None) if wanted.is_none() && !s.initialised => return None,
        (_, None) => format!("its volume is another one (claim UID {})", claim.uid),
    };
    let term = block.map_or(0, |b| b.term);
    let promised = s.member().map_or(0, |m| m.promised).max(term);
    if s.member().is_some_and(|m| m.marked && m.promised >= term) {
        return Some(Action::Refuse(Refusal::VolumeLost { found }));
    }
    let marked = Member {
        promised,
        marked: true,
        ..s.member()
            .cloned()
            .unwrap_or_else(|| blocks::member(s.uid, &claim.uid))
    };
    Some(Action::Remember(marked))
}

fn first_write(s: &Sight<'_>) -> Option<Action> {
    (s.register? == &Register::Empty).then(|| Action::Write {
        old: None,
        new: Box::new(blocks::first(s.me)),
    })
}

/// A volume that no member of this database was on: new, or adopted with its data. What an earlier SampleDB's
/// member promised there means nothing in this register.
fn new_member(s: &Sight<'_>) -> Option<Action> {
    let claim = s.claim?;
    if s.member().is_some() {
        return None;
    }
    // A candidate promises in the same write.
    let standing = s
        .block()
        .filter(|b| b.phase == ElectionPhase::Electing && s.session.candidate == Some(b.term));
    let promised = standing.map_or(0, |b| b.term);
    Some(Action::Remember(Member {
        promised,
        ..blocks::member(s.uid, &claim.uid)
    }))
}

/// The steps of a term.
fn term(s: &Sight<'_>) -> Option<Action> {
    let (block, member) = (s.block()?, s.member()?);
    if block.members != [s.me] {
        return None;
    }
    match block.phase {
        ElectionPhase::Electing => Some(electing(s, block, member)),
        _ if block.primary.as_deref() != Some(s.me) => None,
        phase => Some(named(s, block, member, phase)),
    }
}

fn electing(s: &Sight<'_>, block: &Election, member: &Member) -> Action {
    if block.system_id.is_some() {
        return mismatch("the register is in a new term of a database that was open");
    }
    if s.session.candidate != Some(block.term) || member.promised > block.term {
        return new_term(block);
    }
    if member.promised < block.term {
        return Action::Remember(Member {
            promised: block.term,
            ..member.clone()
        });
    }
    Action::Write {
        old: Some(Box::new(block.clone())),
        new: Box::new(blocks::elected(block, s.me, &s.state.data)),
    }
}

fn named(s: &Sight<'_>, block: &Election, member: &Member, phase: ElectionPhase) -> Action {
    let never_open = block.system_id.is_none();
    let resigned = member.resigned.as_ref().is_some_and(|r| r.term >= block.term);
    if member.promised != block.term || resigned {
        return match (never_open, member.promised > block.term) {
            (true, _) => new_term(block),
            (false, true) => mismatch(&format!(
                "the register is at term {}, but this instance has promised term {}",
                block.term, member.promised
            )),
            (false, false) => mismatch(&format!(
                "the register is at term {}, but this volume knows only of term {}",
                block.term, member.promised
            )),
        };
    }
    if member.primary_of != block.term {
        return match phase {
            ElectionPhase::Open => mismatch(&format!(
                "the register says that this instance was opened in term {}, its volume knows nothing of it",
                block.term
            )),
            _ => Action::Remember(Member {
                primary_of: block.term,
                ..member.clone()
            }),
        };
    }
    serve(s, block, member, phase)
}

/// `primaryOf == promised == term`: start in place, prove it, open, lead clients here.
fn serve(s: &Sight<'_>, block: &Election, member: &Member, phase: ElectionPhase) -> Action {
    let Some(system_id) = s.system_id() else {
        return match s.state.postgres {
            _ if s.now < s.session.hold_until => Action::Wait(Waiting::HoldOff),
            Postgres::Stopped { .. } => Action::Initdb,
            _ => Action::Wait(Waiting::Postgres),
        };
    };
    match s.state.postgres {
        Postgres::Starting | Postgres::Stopping => return Action::Wait(Waiting::Postgres),
        Postgres::Stopped { .. } if s.now < s.session.hold_until => return Action::Wait(Waiting::HoldOff),
        Postgres::Stopped { .. } => return Action::Start,
        Postgres::Running => {}
    }
    let term = block.term;
    if !s.session.established {
        return Action::Establish {
            database: block.system_id.is_none(),
        };
    }
    if s.session.committed != Some(term) {
        return Action::Commit { term };
    }
    if phase == ElectionPhase::Elected {
        return Action::Write {
            old: Some(Box::new(block.clone())),
            new: Box::new(blocks::open(block, s.me, system_id)),
        };
    }
    if member.opened_in != term {
        return Action::Remember(Member {
            opened_in: term,
            ..member.clone()
        });
    }
    if s.session.published != Some(term) {
        return Action::Publish { term };
    }
    Action::Serve
}

fn new_term(block: &Election) -> Action {
    Action::Write {
        old: Some(Box::new(block.clone())),
        new: Box::new(blocks::next_term(block)),
    }
}

fn mismatch(found: &str) -> Action {
    Action::Refuse(Refusal::HistoryMismatch {
        found: found.to_owned(),
    })
}
