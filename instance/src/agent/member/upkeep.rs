//! What is done while the database serves: configuration, restarts, certificates, the owner's password.

use super::super::clock;
use super::super::configuration::{Inputs, Step, step};
use super::super::fence::Fence;
use super::super::link::RequestError;
use super::super::notes::Fact;
use super::Loop;
use crate::control::{Command, Postgres, State};

/// PostgreSQL's processes read a changed configuration within this time.
const READ_MS: u64 = 300;
/// How often the settings that wait for a restart are read without a reason.
const SETTINGS_MS: u64 = 30_000;
/// A failed step is tried again after this time.
const AGAIN_MS: u64 = 10_000;
/// What keeps a running database from being opened is tried again after this time.
const MEND_MS: u64 = 1000;

impl Loop {
    /// One step. Returns when to look again at the latest, or `None` for at once.
    pub(super) async fn upkeep(&mut self, state: &State) -> Option<u64> {
        let now = clock::boot_ms();
        if now >= self.settings_due {
            self.settings_due = now + SETTINGS_MS;
            self.read_settings().await;
        }
        if now < self.upkeep_due {
            return Some(self.upkeep_due.min(self.settings_due));
        }
        match self.step(state) {
            Step::Nothing => Some(self.settings_due),
            Step::Reload => self.reload().await,
            Step::Establish => self.establish(false).await,
            Step::Configure => self.configure().await,
            Step::Forgive => {
                if let Some(instance) = &mut self.instance {
                    instance.rejected_hash = None;
                    instance.parameter_errors = Vec::new();
                }
                None
            }
            Step::Restart => self.restart().await,
        }
    }

    /// PostgreSQL runs and cannot be opened: what a person corrects meanwhile is taken, for it may be the reason.
    pub(super) async fn mend(&mut self) -> Option<u64> {
        let state = self.states.borrow().clone();
        match state.map(|state| self.step(&state)) {
            Some(Step::Configure) => self.configure().await,
            Some(Step::Restart) => self.restart().await,
            _ => Some(clock::boot_ms() + MEND_MS),
        }
    }

    fn step(&self, state: &State) -> Step {
        let database = self.database.as_ref();
        let instance = self.instance.as_ref();
        step(&Inputs {
            wanted: self.configuration.as_ref(),
            in_force: state.config_hash.as_deref(),
            rejected: instance.and_then(|i| i.rejected_hash.as_deref()),
            // Before the SampleDB and the own entry were seen nobody knows which restart was done.
            restart_wanted: instance.and(database).and_then(|d| d.restarted_at.as_deref()),
            restart_done: instance.and_then(|i| i.restarted_at.as_deref()),
            certificates_changed: state.certificates_changed,
            owner_changed: self.owner.is_some() && self.owner != self.established,
            paused: database.is_some_and(|d| d.paused),
        })
    }

    async fn read_settings(&mut self) {
        match self.parts.sql.pending_restart().await {
            Ok(mut pending) => {
                pending.truncate(128);
                if let Some(instance) = &mut self.instance {
                    instance.pending_restart = pending;
                }
            }
            Err(error) => tracing::warn!(%error, "the settings that wait for a restart could not be read"),
        }
    }

    async fn reload(&mut self) -> Option<u64> {
        let done = self.patiently(self.parts.runner.request(Command::Reload)).await;
        if let Err(error) = &done {
            tracing::warn!(%error, "the certificates could not be reloaded");
        }
        if done.is_err() || !self.settle(|s| !s.certificates_changed).await {
            self.upkeep_due = clock::boot_ms() + AGAIN_MS;
            return Some(self.upkeep_due);
        }
        tracing::info!("the certificates were reloaded");
        // The postmaster reads them when it handles the signal, a moment later.
        self.patiently(tokio::time::sleep(std::time::Duration::from_millis(READ_MS)))
            .await;
        self.parts.sql.forget().await;
        self.read_server().await;
        None
    }

    async fn configure(&mut self) -> Option<u64> {
        let wanted = self.configuration.clone()?;
        match self
            .patiently(self.parts.runner.request(Command::Configure(wanted.clone())))
            .await
        {
            Ok(()) => {
                tracing::info!(hash = wanted.hash, "PostgreSQL took the configuration");
                if let Some(instance) = &mut self.instance {
                    instance.rejected_hash = None;
                    instance.parameter_errors = Vec::new();
                }
                self.settings_due = clock::boot_ms() + READ_MS;
                self.settle(|s| s.config_hash.as_ref() == Some(&wanted.hash))
                    .await;
                None
            }
            Err(RequestError::Refused(error)) => {
                self.reject(&wanted.hash, &error);
                None
            }
            Err(RequestError::NotConnected) => Some(clock::boot_ms() + READ_MS),
        }
    }

    async fn restart(&mut self) -> Option<u64> {
        let asked = self.database.as_ref().and_then(|d| d.restarted_at.clone())?;
        tracing::info!(asked, "PostgreSQL is restarted because it was asked for");
        // An end that was asked for is no crash.
        self.ran = false;
        self.parts.health.set(false, false);
        self.backoff.started(clock::boot_ms());
        let done = self
            .patiently(self.parts.runner.request(Command::Restart {
                until: Fence::deadline(),
            }))
            .await;
        self.session.established = false;
        self.session.committed = None;
        self.settings_due = 0;
        if let Some(instance) = &mut self.instance {
            instance.restarted_at = Some(asked.clone());
        }
        match done {
            Ok(()) => {
                self.parts.notes.say(
                    Fact::RestartedAsAsked,
                    &format!(
                        "PostgreSQL in {} was restarted in term {} for {asked}",
                        self.settings().pod,
                        self.term().unwrap_or(0)
                    ),
                );
                self.settle(|s| s.postgres == Postgres::Running).await;
            }
            Err(error) => self.start_failed(&error.to_string()),
        }
        None
    }
}
