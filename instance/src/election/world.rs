//! A world for the tests: register, volume and PostgreSQL as values, and the effect of each action on them.

use sampledb_shared::api::election::{Election, ElectionPhase};

use super::{Action, Claim, Register, Session, Sight, authority, next};
use crate::control::{Data, Member, Postgres, State, Storage};

pub const ME: &str = "a-0";
pub const UID: &str = "uid-a";

#[derive(Clone, Debug)]
pub struct World {
    pub register: Register,
    pub claim: Claim,
    pub initialised: bool,
    pub state: State,
    pub session: Session,
    pub initdbs: u64,
}

pub fn state() -> State {
    State {
        postgres: Postgres::Stopped { error: None },
        data: Data::Empty,
        member: None,
        storage: Storage::Ok,
        ending: false,
        config_hash: None,
        certificates_changed: false,
        refused: None,
    }
}

pub fn data(system_id: u64) -> Data {
    Data::Initialised {
        system_id: system_id.to_string(),
        timeline: 1,
        checkpoint: "0/1500028".into(),
        major: "17".into(),
    }
}

pub fn claim(uid: &str) -> Claim {
    Claim {
        uid: uid.into(),
        owner: Some(UID.into()),
    }
}

impl World {
    pub fn new() -> Self {
        Self {
            register: Register::Empty,
            claim: claim("claim-1"),
            initialised: false,
            state: state(),
            session: Session::default(),
            initdbs: 0,
        }
    }

    pub fn sight(&self) -> Sight<'_> {
        Sight {
            me: ME,
            uid: UID,
            register: Some(&self.register),
            claim: Some(&self.claim),
            initialised: self.initialised,
            state: &self.state,
            session: &self.session,
            now: 1000,
        }
    }

    pub fn next(&self) -> Action {
        next(&self.sight())
    }

    pub fn authority(&self) -> Option<i64> {
        authority(&self.sight())
    }

    /// What the action does when it succeeds.
    pub fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Write { old, new } => {
                assert_eq!(
                    self.register.block(),
                    old.as_deref(),
                    "decided on another register"
                );
                if new.phase == ElectionPhase::Electing {
                    self.session.candidate = Some(new.term);
                }
                self.register = Register::Block(new.clone());
            }
            Action::Remember(member) => self.state.member = Some(member.clone()),
            Action::Initdb => {
                self.initdbs += 1;
                self.state.data = data(7000 + self.initdbs);
            }
            Action::Start => self.state.postgres = Postgres::Running,
            Action::Establish { .. } => self.session.established = true,
            Action::Commit { term } => self.session.committed = Some(*term),
            Action::Publish { term } => self.session.published = Some(*term),
            Action::Wait(_) | Action::Serve | Action::Leave | Action::Refuse(_) => {}
        }
    }

    /// Runs until nothing is left to do; returns what was done and what it ended with.
    pub fn settle(&mut self) -> (Vec<Action>, Action) {
        let mut done = Vec::new();
        loop {
            let action = self.next();
            if matches!(
                action,
                Action::Wait(_) | Action::Serve | Action::Leave | Action::Refuse(_)
            ) {
                return (done, action);
            }
            self.carry_out(&action);
            done.push(action);
            assert!(done.len() < 100, "never settles: {done:#?}");
        }
    }

    /// The agent, the container or the whole pod ended: what was not durable is gone.
    pub fn crash(&mut self, postgres_too: bool) {
        self.session = Session::default();
        if postgres_too {
            self.stop_postgres();
        }
    }

    pub fn stop_postgres(&mut self) {
        self.state.postgres = Postgres::Stopped {
            error: Some("killed".into()),
        };
        self.session.established = false;
        self.session.committed = None;
    }

    pub fn block(&self) -> Option<&Election> {
        self.register.block()
    }

    pub fn member(&self) -> Option<&Member> {
        self.state.member.as_ref()
    }
}

/// A database that is open and serves.
pub fn opened() -> World {
    let mut world = World::new();
    assert_eq!(world.settle().1, Action::Serve);
    world
}
