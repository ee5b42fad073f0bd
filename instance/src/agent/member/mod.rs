//! The loop: look, decide ([`crate::election::next`]), do one thing, look again.

mod act;
mod farewell;
mod look;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use sampledb_shared::api::election::ElectionPhase;
use sampledb_shared::api::instances::{Instance, InstanceError, InstanceErrorReason};
use sampledb_shared::domain::conditions::truncated;
use tokio::sync::watch;

use super::backoff::Backoff;
use super::clock;
use super::cluster::Cluster;
use super::fence::Fence;
use super::health::Health;
use super::link::Runner;
use super::notes::Notes;
use super::owner::Owner;
use super::report::{Said, Standing};
use super::routing::Routing;
use super::seen::{Database, Kept};
use super::settings::{NotAnInstance, Settings};
use super::sql::Sql;
use super::watches::Found;
use crate::control::{Configuration, Postgres, State};
use crate::election::{Action, Claim, Register, Session, Sight, Waiting, authority, next};

/// The loop looks at least so often: the owner's files are looked at then.
const TICK: Duration = Duration::from_secs(1);

/// What the loop works with.
pub struct Parts {
    /// The API.
    pub cluster: Cluster,
    /// The runner.
    pub runner: Runner,
    /// The deadline.
    pub fence: Fence,
    /// PostgreSQL.
    pub sql: Arc<Sql>,
    /// The probes.
    pub health: Arc<Health>,
    /// Events.
    pub notes: Notes,
    /// The slice.
    pub routing: Routing,
    /// What is said in the status.
    pub say: watch::Sender<Said>,
    /// What was said there.
    pub reported: watch::Receiver<Standing>,
    /// The SampleDB, watched.
    pub databases: watch::Receiver<Found<Database>>,
    /// Its configuration, watched.
    pub configurations: watch::Receiver<Found<Option<Configuration>>>,
}

/// The loop and what it remembers.
pub struct Loop {
    parts: Parts,
    states: watch::Receiver<Option<State>>,
    claim_name: String,
    register: Option<Register>,
    claim: Option<Claim>,
    claim_asked: u64,
    configuration: Option<Configuration>,
    database: Option<Database>,
    gone: bool,
    session: Session,
    backoff: Backoff,
    instance: Option<Instance>,
    kept: Option<Kept>,
    owner: Option<Owner>,
    established: Option<Owner>,
    /// PostgreSQL ran, so that an end that nobody asked for is a crash.
    ran: bool,
    left: bool,
    last_wait: Option<Waiting>,
    /// When the settings that wait for a restart are read next, and how often soon.
    settings_due: u64,
    /// Before this time a failed step of the upkeep is not tried again.
    upkeep_due: u64,
}

impl Loop {
    /// Begins with what the container's predecessor kept.
    pub fn new(parts: Parts) -> Result<Self, NotAnInstance> {
        let settings = parts.cluster.settings();
        let claim_name = settings.data_claim()?;
        let kept = look::read_kept(settings);
        let states = parts.runner.state();
        Ok(Self {
            states,
            claim_name,
            register: kept
                .as_ref()
                .map(|k| Register::Block(Box::new(k.register.clone()))),
            claim: kept.as_ref().map(|k| Claim {
                uid: k.claim_uid.clone(),
                owner: Some(k.uid.clone()),
            }),
            claim_asked: 0,
            configuration: kept.as_ref().and_then(|k| k.configuration.clone()),
            database: None,
            gone: false,
            session: Session::default(),
            backoff: Backoff::default(),
            instance: None,
            kept,
            owner: None,
            established: None,
            ran: false,
            left: false,
            last_wait: None,
            settings_due: 0,
            upkeep_due: 0,
            parts,
        })
    }

    fn settings(&self) -> &Settings {
        self.parts.cluster.settings()
    }

    /// For ever.
    pub async fn run(&mut self) {
        loop {
            self.parts.health.beat();
            self.look();
            self.ask_for_claim().await;
            let state = self.states.borrow_and_update().clone();
            let Some(state) = state else {
                self.parts.fence.allow(None);
                self.parts.health.set(false, false);
                self.parts.health.metrics.agent().runner_connected.set(0);
                self.idle(None).await;
                continue;
            };
            let action = self.decide(&state);
            let due = self.act(action, &state).await;
            self.publish_instance();
            if let Some(due) = due {
                self.idle(Some(due)).await;
            }
        }
    }

    /// Decides, and moves the deadline if it may.
    fn decide(&mut self, state: &State) -> Action {
        self.notice(state);
        let sight = Sight {
            me: &self.parts.cluster.settings().pod,
            uid: &self.parts.cluster.settings().uid,
            register: self.register.as_ref(),
            claim: self.claim.as_ref(),
            initialised: self.database.as_ref().is_some_and(|d| d.initialised),
            state,
            session: &self.session,
            now: clock::boot_ms(),
        };
        let allowed = authority(&sight);
        if self.parts.fence.term() != allowed {
            self.parts.fence.allow(allowed);
            self.parts.fence.extend(&self.parts.runner);
        }
        let action = next(&sight);
        let open = self
            .register
            .as_ref()
            .and_then(Register::block)
            .is_some_and(|b| b.phase == ElectionPhase::Open);
        let serves = action == Action::Serve && open && allowed.is_some();
        let agent = self.parts.health.metrics.agent();
        agent.runner_connected.set(1);
        agent.is_primary.set(i64::from(serves));
        agent.term.set(
            self.register
                .as_ref()
                .and_then(Register::block)
                .map_or(0, |b| b.term),
        );
        agent.storage(state.storage);
        self.parts.health.set(state.postgres == Postgres::Running, serves);
        action
    }

    fn publish_instance(&mut self) {
        if let (Some(instance), Some(claim)) = (&mut self.instance, &self.claim) {
            instance.claim_uid = Some(claim.uid.clone());
        }
        let instance = self.instance.clone();
        self.parts.say.send_if_modified(|said| {
            let changed = said.instance != instance;
            said.instance = instance;
            changed
        });
    }

    fn stand(&self, standing: Standing) {
        self.parts.say.send_if_modified(|said| {
            let changed = said.standing != standing;
            said.standing = standing;
            changed
        });
    }

    /// Says what keeps the instance from running; `true` when that is something new.
    fn fail(&mut self, reason: InstanceErrorReason, message: &str) -> bool {
        let Some(instance) = &mut self.instance else {
            return false;
        };
        let error = Some(InstanceError {
            reason,
            message: truncated(message, 2048),
        });
        let is_new = instance.last_error != error;
        instance.last_error = error;
        is_new
    }

    /// Waits until something changes, `due` has come, or the next tick.
    async fn idle(&mut self, due: Option<u64>) {
        let pause = due.map_or(TICK, |d| {
            Duration::from_millis(d.saturating_sub(clock::boot_ms())).min(TICK)
        });
        tokio::select! {
            _ = self.states.changed() => {}
            _ = self.parts.databases.changed() => {}
            _ = self.parts.configurations.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    /// Waits for something slow; the heart goes on.
    async fn patiently<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut beat = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = beat.tick() => self.parts.health.beat(),
            }
        }
    }

    /// Waits until the runner's state shows what was just done, at the most two seconds.
    async fn settle(&self, reached: impl Fn(&State) -> bool) -> bool {
        let mut states = self.states.clone();
        let shown = states.wait_for(|s| s.as_ref().is_none_or(&reached));
        matches!(tokio::time::timeout(Duration::from_secs(2), shown).await, Ok(Ok(s)) if s.is_some())
    }
}
