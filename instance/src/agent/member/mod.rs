//! The loop: look, decide ([`crate::election::next`]), do one thing, look again.

mod act;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use sampledb_shared::api::election::ElectionPhase;
use sampledb_shared::api::instances::{Instance, InstanceError, InstanceErrorReason, StorageState};
use sampledb_shared::domain::conditions::truncated;
use sampledb_shared::domain::names::paths;
use tokio::sync::watch;

use super::backoff::Backoff;
use super::cluster::Cluster;
use super::fence::Fence;
use super::health::Health;
use super::link::Runner;
use super::notes::{Fact, Notes};
use super::owner::Owner;
use super::report::{Said, Standing};
use super::routing::{Lead, Routing};
use super::seen::{Database, Kept};
use super::settings::{NotAnInstance, Settings};
use super::sql::Sql;
use super::watches::Found;
use super::{clock, state_file};
use crate::control::{Configuration, FromAgent, Postgres, State, Storage};
use crate::election::{Action, Claim, Register, Session, Sight, Waiting, authority, next};

/// The loop looks at least so often: the owner's files are looked at then.
const TICK: Duration = Duration::from_secs(1);
/// How long the end of the pod waits for the slice to be emptied.
const FAREWELL: Duration = Duration::from_secs(1);
/// After an end that nobody asked for, so long is waited for the pod's end to show.
const LAST_WORD: Duration = Duration::from_secs(2);

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
    /// It served since PostgreSQL was last started, so that an end is a crash.
    served: bool,
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
        let kept = read_kept(settings);
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
            served: false,
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

    /// What the runner's state changes in what this process thinks it did.
    fn notice(&mut self, state: &State) {
        if state.postgres != Postgres::Running {
            self.session.established = false;
            self.session.committed = None;
        }
        if let Postgres::Stopped { error } = &state.postgres
            && self.served
            && !state.ending
        {
            self.served = false;
            let now = clock::boot_ms();
            self.session.hold_until = self.backoff.failed(now);
            let why = error.as_deref().unwrap_or("it ended without a word");
            self.parts.health.metrics.agent().crashes.inc();
            tracing::warn!(
                why,
                "PostgreSQL ended without being asked; it is started again in place"
            );
            self.parts.notes.say(
                Fact::Restarted,
                &truncated(
                    &format!(
                        "PostgreSQL in {} ended and is started again: {why}",
                        self.settings().pod
                    ),
                    1000,
                ),
            );
        }
        if let Some(instance) = &mut self.instance {
            let storage = match state.storage {
                Storage::Ok => StorageState::Ok,
                Storage::BallastUsed => StorageState::BallastUsed,
                Storage::Full => StorageState::Full,
            };
            if instance.storage != storage {
                instance.storage = storage;
                if storage != StorageState::Ok {
                    self.parts.notes.say(
                        Fact::BallastUsed,
                        &format!(
                            "the volume of {} is full; its reserve was given up. Grow spec.storage before the rest is used",
                            instance.name
                        ),
                    );
                }
            }
            instance.config_hash.clone_from(&state.config_hash);
            if let Some(refused) = &state.refused
                && instance.rejected_hash.as_ref() != Some(&refused.hash)
            {
                instance.rejected_hash = Some(refused.hash.clone());
                instance.parameter_errors = super::configuration::lines(&refused.error);
                self.parts.notes.say(
                    Fact::ConfigurationRefused,
                    &format!("PostgreSQL does not start with it: {}", refused.error),
                );
            }
        }
    }

    /// Takes over what the watches found.
    fn look(&mut self) {
        let found = self.parts.databases.borrow_and_update().clone();
        match found {
            Found::Present(database) if database.uid == self.settings().uid => {
                self.gone = false;
                self.take_register(database.register.clone());
                if self.instance.is_none() {
                    self.instance = Some(
                        database
                            .own
                            .clone()
                            .unwrap_or_else(|| self.new_instance(&database.uid)),
                    );
                }
                self.database = Some(database);
            }
            Found::Present(_) | Found::Absent if !self.gone => {
                self.gone = true;
                tracing::warn!(
                    uid = self.settings().uid,
                    "the SampleDB of this pod is gone; nothing is changed any more"
                );
            }
            Found::Present(_) | Found::Absent | Found::Unknown => {}
        }
        if let Found::Present(Some(configuration)) = &*self.parts.configurations.borrow_and_update() {
            self.configuration = Some(configuration.clone());
        }
        match super::owner::read(self.parts.cluster.settings()) {
            Ok(owner) => self.owner = Some(owner),
            Err(error) if self.owner.is_none() => {
                tracing::warn!(%error, "the owner's Secret cannot be read yet");
            }
            Err(_) => {}
        }
        self.keep();
    }

    /// A watch may lag behind the own last write.
    fn take_register(&mut self, found: Register) {
        let rev = |r: &Register| r.block().map_or(0, |b| b.rev);
        if self
            .register
            .as_ref()
            .is_none_or(|known| rev(&found) >= rev(known))
        {
            self.register = Some(found);
        }
    }

    fn new_instance(&self, uid: &str) -> Instance {
        Instance {
            name: self.settings().pod.clone(),
            uid: uid.to_owned(),
            claim_uid: None,
            version: None,
            config_hash: None,
            pending_restart: Vec::new(),
            restarted_at: None,
            parameter_errors: Vec::new(),
            rejected_hash: None,
            storage: StorageState::Ok,
            cert_serial: None,
            last_error: None,
        }
    }

    /// The claim is read once; again while it does not say that it is ours.
    async fn ask_for_claim(&mut self) {
        let ours = self
            .claim
            .as_ref()
            .is_some_and(|c| c.owner.as_ref() == Some(&self.settings().uid));
        let now = clock::boot_ms();
        let every = if self.claim.is_none() { 500 } else { 5000 };
        if ours || self.gone || (self.claim_asked > 0 && now.saturating_sub(self.claim_asked) < every) {
            return;
        }
        self.claim_asked = now;
        match self.parts.cluster.claim(&self.claim_name).await {
            Ok(claim) => self.claim = Some(claim),
            Err(error) => tracing::warn!(%error, "the claim could not be read"),
        }
    }

    /// Writes down what a restart of this container needs while the API is away.
    fn keep(&mut self) {
        let (Some(Register::Block(block)), Some(claim)) = (&self.register, &self.claim) else {
            return;
        };
        if block.phase != ElectionPhase::Open {
            return;
        }
        let settings = self.parts.cluster.settings();
        let kept = Kept {
            uid: settings.uid.clone(),
            pod_uid: settings.pod_uid.clone(),
            claim_uid: claim.uid.clone(),
            register: (**block).clone(),
            configuration: self.configuration.clone(),
        };
        if self.kept.as_ref() == Some(&kept) {
            return;
        }
        let path = settings.file(paths::AGENT_STATE, "kept.json");
        match serde_json::to_string(&kept)
            .map_err(std::io::Error::other)
            .and_then(|t| state_file::write(&path, &t))
        {
            Ok(()) => self.kept = Some(kept),
            Err(error) => tracing::warn!(%error, "what a restart needs could not be kept"),
        }
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

    fn fail(&mut self, reason: InstanceErrorReason, message: &str) {
        if let Some(instance) = &mut self.instance {
            instance.last_error = Some(InstanceError {
                reason,
                message: truncated(message, 2048),
            });
        }
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

    /// Clients are led away, as far as the API allows within a second.
    async fn leave(&mut self) {
        if self.left {
            return;
        }
        self.left = true;
        let Some(term) = self.session.published.take() else {
            return;
        };
        let lead = Lead { term, filled: false };
        self.parts.routing.lead(lead);
        self.stand(Standing::Stopped);
        if !self.parts.routing.led(lead, FAREWELL).await {
            tracing::warn!("clients could not be led away within a second");
        }
    }

    /// The agent was told to end. In the end of a pod the runner ends first, so that nothing is left to do but to
    /// wait until the status says it. When PostgreSQL runs and is not being ended, only this container restarts: it
    /// is left alone, and the next agent goes on in place.
    pub async fn end(&mut self) {
        let ends = |s: &Option<State>| {
            s.as_ref()
                .is_none_or(|s| s.ending || s.postgres != Postgres::Running)
        };
        let mut states = self.states.clone();
        if !matches!(
            tokio::time::timeout(LAST_WORD, states.wait_for(ends)).await,
            Ok(Ok(_))
        ) {
            tracing::info!("PostgreSQL goes on: only the agent restarts");
            return;
        }
        self.leave().await;
        let stopped = |s: &Option<State>| {
            s.as_ref()
                .is_none_or(|s| matches!(s.postgres, Postgres::Stopped { .. }))
        };
        let _ = tokio::time::timeout(Duration::from_secs(80), states.wait_for(stopped)).await;
        self.parts.runner.tell(FromAgent::Leave);
        if self.parts.say.borrow().standing == Standing::Stopped {
            let mut reported = self.parts.reported.clone();
            let _ = tokio::time::timeout(FAREWELL, reported.wait_for(|s| *s == Standing::Stopped)).await;
        }
    }
}

fn read_kept(settings: &Settings) -> Option<Kept> {
    let path = settings.file(paths::AGENT_STATE, "kept.json");
    let text = state_file::read(&path).ok().flatten()?;
    let kept: Kept = serde_json::from_str(&text).ok()?;
    (kept.uid == settings.uid && kept.pod_uid == settings.pod_uid).then_some(kept)
}
