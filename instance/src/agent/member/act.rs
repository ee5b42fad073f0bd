//! Doing what was decided. Each returns when to look again at the latest, or `None` for at once.

use sampledb_shared::api::election::{Election, ElectionPhase};
use sampledb_shared::api::instances::InstanceErrorReason;

use super::super::configuration::{is_about_configuration, lines};
use super::super::fence::Fence;
use super::super::link::RequestError;
use super::super::notes::Fact;
use super::super::report::Standing;
use super::super::routing::Lead;
use super::super::{clock, seen};
use super::Loop;
use crate::control::{Command, Data, Establish, FromAgent, Member, Postgres, State};
use crate::election::{Action, Refusal, Register, Waiting};

/// A failed step is not tried again sooner.
const AGAIN_MS: u64 = 200;

impl Loop {
    pub(super) async fn act(&mut self, action: Action, state: &State) -> Option<u64> {
        let now = clock::boot_ms();
        if self.gone && !matches!(action, Action::Leave) {
            return Some(now + 1000);
        }
        if action != Action::Leave {
            self.left = false;
        }
        match action {
            Action::Wait(waiting) => {
                if self.last_wait.replace(waiting) != Some(waiting) {
                    tracing::info!(?waiting, "waiting");
                }
                Some(if waiting == Waiting::HoldOff {
                    self.session.hold_until
                } else {
                    now + 1000
                })
            }
            Action::Write { old, new } => self.write(old.as_deref(), &new).await,
            Action::Remember(member) => self.remember(member).await,
            Action::Initdb => self.initdb().await,
            Action::Start => self.start(state).await,
            Action::Establish { database } => self.establish(database).await,
            Action::Commit { term } => self.commit(term).await,
            Action::Publish { term } => {
                self.parts.routing.lead(Lead { term, filled: true });
                self.session.published = Some(term);
                None
            }
            Action::Serve => {
                self.last_wait = None;
                self.stand(Standing::Open);
                if let Some(instance) = &mut self.instance {
                    instance.last_error = None;
                }
                self.upkeep(state).await
            }
            Action::Leave => {
                self.leave().await;
                if matches!(state.postgres, Postgres::Stopped { .. }) {
                    self.parts.runner.tell(FromAgent::Leave);
                }
                Some(now + 1000)
            }
            Action::Refuse(refusal) => {
                self.refuse(&refusal);
                Some(now + 1000)
            }
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        let message = refusal.message(&self.settings().uid, &self.claim_name);
        let is_new = self.fail(refusal.reason(), &message);
        self.down();
        if is_new {
            tracing::error!(reason = ?refusal.reason(), why = message, "nothing is done to the volume");
            self.parts.notes.say(Fact::Refused, &message);
        }
    }

    /// A swap. Whatever went wrong, the register is read before anything else is decided.
    async fn write(&mut self, old: Option<&Election>, new: &Election) -> Option<u64> {
        match self.patiently(self.parts.cluster.swap(old, new)).await {
            Ok(register) => {
                if new.phase == ElectionPhase::Electing {
                    self.session.candidate = Some(new.term);
                }
                if new.phase == ElectionPhase::Open {
                    self.parts.notes.say(
                        Fact::Opened,
                        &format!("{} takes writes in term {}", self.settings().pod, new.term),
                    );
                }
                tracing::info!(term = new.term, rev = new.rev, phase = ?new.phase, "the register was written");
                self.take_register(register);
                None
            }
            Err(error) => {
                tracing::warn!(%error, term = new.term, rev = new.rev, "the register was not written; it is read again");
                match self.parts.cluster.database().await {
                    Ok(database) => self.take_register(database.register),
                    Err(error) => tracing::warn!(%error, "the register could not be read"),
                }
                Some(clock::boot_ms() + AGAIN_MS)
            }
        }
    }

    async fn remember(&mut self, member: Member) -> Option<u64> {
        match self
            .patiently(self.parts.runner.request(Command::Remember(member.clone())))
            .await
        {
            Ok(()) => {
                self.settle(|s| s.member.as_ref() == Some(&member)).await;
                None
            }
            Err(error) => {
                tracing::warn!(%error, "member.json was not written");
                self.fail(
                    InstanceErrorReason::StartFailed,
                    &format!("member.json could not be written: {error}"),
                );
                Some(clock::boot_ms() + AGAIN_MS)
            }
        }
    }

    async fn initdb(&mut self) -> Option<u64> {
        let Some(database) = &self.database else {
            return Some(clock::boot_ms() + AGAIN_MS);
        };
        let command = Command::Initdb(seen::initdb(&database.new));
        match self.patiently(self.parts.runner.request(command)).await {
            Ok(()) => {
                tracing::info!("the data directory was made");
                self.settle(|s| s.data != Data::Empty).await;
                None
            }
            Err(error) => {
                self.fail(
                    InstanceErrorReason::InitFailed,
                    &format!(
                        "initdb failed: {error}; spec.bootstrap.new cannot be changed: delete this SampleDB and its claims, and make it anew with other values"
                    ),
                );
                tracing::error!(%error, "initdb failed");
                self.session.hold_until = self.backoff.failed(clock::boot_ms());
                Some(self.session.hold_until)
            }
        }
    }

    /// Starts with the configuration that is asked for, or, when PostgreSQL refuses it, with the one that is there.
    async fn start(&mut self, state: &State) -> Option<u64> {
        let Some(wanted) = self.configuration.clone() else {
            tracing::info!("waiting for the configuration");
            return Some(clock::boot_ms() + 1000);
        };
        let there = state.config_hash.as_deref();
        let paused = self.database.as_ref().is_some_and(|d| d.paused);
        let rejected = self.instance.as_ref().and_then(|i| i.rejected_hash.clone());
        let mut takes_wanted = there.is_none() || there == Some(wanted.hash.as_str());
        if !takes_wanted && !paused && rejected.as_deref() != Some(wanted.hash.as_str()) {
            takes_wanted = match self
                .patiently(self.parts.runner.request(Command::Configure(wanted.clone())))
                .await
            {
                Ok(()) => true,
                Err(RequestError::Refused(error)) => {
                    self.reject(&wanted.hash, &error);
                    false
                }
                Err(RequestError::NotConnected) => return Some(clock::boot_ms() + AGAIN_MS),
            };
        }
        let until = Fence::deadline();
        let hash = wanted.hash.clone();
        let command = if takes_wanted {
            Command::Start {
                configuration: wanted,
                until,
            }
        } else {
            Command::Restart { until }
        };
        self.backoff.started(clock::boot_ms());
        match self.patiently(self.parts.runner.request(command)).await {
            Ok(()) => {
                tracing::info!("PostgreSQL runs");
                self.settle(|s| s.postgres == Postgres::Running).await;
                // A start does what a restart was asked for.
                let asked = self.database.as_ref().and_then(|d| d.restarted_at.clone());
                if let Some(instance) = &mut self.instance {
                    instance.restarted_at = asked.or_else(|| instance.restarted_at.take());
                    instance.last_error = None;
                    if takes_wanted && instance.rejected_hash.as_ref() == Some(&hash) {
                        instance.rejected_hash = None;
                        instance.parameter_errors = Vec::new();
                    }
                }
                self.settings_due = 0;
                None
            }
            Err(error) => {
                let text = error.to_string();
                if takes_wanted && is_about_configuration(&text) {
                    self.reject(&hash, &text);
                    if let Some(instance) = &mut self.instance {
                        instance.last_error = None;
                    }
                    self.hold_off();
                } else {
                    self.start_failed(&text);
                }
                Some(self.session.hold_until)
            }
        }
    }

    pub(super) fn start_failed(&mut self, error: &str) {
        tracing::error!(error, "PostgreSQL does not start");
        self.fail(
            InstanceErrorReason::StartFailed,
            &format!("PostgreSQL does not start: {error}"),
        );
        self.parts
            .notes
            .say(Fact::StartFailed, &format!("PostgreSQL does not start: {error}"));
        self.hold_off();
    }

    /// Nothing runs, and the next start waits.
    fn hold_off(&mut self) {
        self.down();
        self.session.hold_until = self.backoff.failed(clock::boot_ms());
    }

    pub(super) fn reject(&mut self, hash: &str, error: &str) {
        tracing::warn!(hash, error, "PostgreSQL refused the configuration");
        if let Some(instance) = &mut self.instance {
            instance.rejected_hash = Some(hash.to_owned());
            instance.parameter_errors = lines(error);
        }
        self.parts.notes.say(
            Fact::ConfigurationRefused,
            &format!(
                "PostgreSQL refused the configuration: {}",
                lines(error).join("; ")
            ),
        );
    }

    pub(super) async fn establish(&mut self, database: bool) -> Option<u64> {
        let Some(owner) = self.owner.clone() else {
            return Some(clock::boot_ms() + AGAIN_MS);
        };
        let name = self.database.as_ref().map(|d| d.new.database.clone());
        if database && name.is_none() {
            return Some(clock::boot_ms() + AGAIN_MS);
        }
        let command = Command::Establish(Establish {
            database: name.filter(|_| database),
            owner: owner.name.clone(),
            verifier: owner.verifier.clone(),
        });
        match self.patiently(self.parts.runner.request(command)).await {
            Ok(()) => {
                self.session.established = true;
                self.established = Some(owner);
                None
            }
            Err(error) => {
                let why = format!("the roles could not be made: {error}");
                if self.fail(InstanceErrorReason::StartFailed, &why) {
                    tracing::warn!("{why}");
                }
                self.mend().await
            }
        }
    }

    async fn commit(&mut self, term: i64) -> Option<u64> {
        self.parts.sql.forget().await;
        match self.patiently(self.parts.sql.commit_opening(term)).await {
            Ok(()) => {
                self.session.committed = Some(term);
                self.read_server().await;
                None
            }
            Err(error) => {
                let why = format!("the database takes no write: {error}");
                if self.fail(InstanceErrorReason::StartFailed, &why) {
                    tracing::warn!(term, "{why}");
                }
                self.mend().await
            }
        }
    }

    /// Version and certificate, as the server shows them.
    pub(super) async fn read_server(&mut self) {
        let version = self.parts.sql.version().await.ok();
        let serial = self.parts.sql.serial().await;
        if let Some(instance) = &mut self.instance {
            instance.version = version.or_else(|| instance.version.take());
            instance.cert_serial = serial.or_else(|| instance.cert_serial.take());
        }
    }

    /// A primary that was open does not run: whoever reads the status is not told otherwise.
    fn down(&self) {
        if self.was_open() {
            self.stand(Standing::Down);
        }
    }

    /// Whether the register says that the database takes clients.
    pub(super) fn was_open(&self) -> bool {
        let block = self.register.as_ref().and_then(Register::block);
        block.is_some_and(|b| b.phase == ElectionPhase::Open)
    }

    pub(super) fn term(&self) -> Option<i64> {
        self.register.as_ref().and_then(Register::block).map(|b| b.term)
    }
}
