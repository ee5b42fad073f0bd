//! Looking: what the watches, the runner and the mounted files say, and what of it a restart needs.

use sampledb_shared::api::election::ElectionPhase;
use sampledb_shared::api::instances::{Instance, StorageState};
use sampledb_shared::domain::conditions::truncated;
use sampledb_shared::domain::names::paths;

use super::super::notes::Fact;
use super::super::seen::Kept;
use super::super::settings::Settings;
use super::super::watches::Found;
use super::super::{clock, configuration, owner, state_file};
use super::Loop;
use crate::control::{Postgres, State, Storage};
use crate::election::Register;

impl Loop {
    /// Takes over what the watches found.
    pub(super) fn look(&mut self) {
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
                self.session.published = None;
                self.parts.routing.stop();
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
        match owner::read(self.parts.cluster.settings()) {
            Ok(owner) => self.owner = Some(owner),
            Err(error) if self.owner.is_none() => {
                tracing::warn!(%error, "the owner's Secret cannot be read yet");
            }
            Err(_) => {}
        }
        self.keep();
    }

    /// A watch may lag behind the own last write.
    pub(super) fn take_register(&mut self, found: Register) {
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
    pub(super) async fn ask_for_claim(&mut self) {
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

    /// What the runner's state changes in what this process thinks it did.
    pub(super) fn notice(&mut self, state: &State) {
        if state.postgres == Postgres::Running {
            self.ran = true;
        } else {
            self.session.established = false;
            self.session.committed = None;
        }
        if let Postgres::Stopped { error } = &state.postgres
            && self.ran
            && !state.ending
        {
            self.ran = false;
            let now = clock::boot_ms();
            self.session.hold_until = self.backoff.failed(now);
            let why = error
                .as_deref()
                .and_then(|e| e.lines().next())
                .unwrap_or("its container was restarted");
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
                instance.parameter_errors = configuration::lines(&refused.error);
                self.parts.notes.say(
                    Fact::ConfigurationRefused,
                    &format!(
                        "PostgreSQL does not start with the configuration: {}",
                        instance.parameter_errors.join("; ")
                    ),
                );
            }
        }
    }
}

/// What the container's predecessor kept for this pod.
pub(super) fn read_kept(settings: &Settings) -> Option<Kept> {
    let path = settings.file(paths::AGENT_STATE, "kept.json");
    let text = state_file::read(&path).ok().flatten()?;
    let kept: Kept = serde_json::from_str(&text).ok()?;
    (kept.uid == settings.uid && kept.pod_uid == settings.pod_uid).then_some(kept)
}
