//! How PostgreSQL is started and stopped, and what is done when it is gone.

use super::ballast::{Decision, Moment};
use super::log::Level;
use super::server::{Act, Ending, PATIENCE_AT_END, Server, how, says_ready};
use super::{End, Restart, Runner, Ticket, children, clock, configuration, durable, family, member, pgdata};
use crate::control::{Configuration, Data, Postgres, Refused, StopMode};
use rustix::process::{Signal, WaitOptions, wait};

impl Runner {
    /// Starts PostgreSQL, with `wish` when it is another configuration than the one that is there.
    pub(super) fn start(
        &mut self,
        ticket: Option<Ticket>,
        wish: Option<&Configuration>,
        now: u64,
    ) -> Result<(), String> {
        if self.end.is_some() {
            return Err("not started: the container is ending".into());
        }
        if !matches!(self.server, Server::Down { .. }) {
            return Err("not started: PostgreSQL is running already".into());
        }
        match &self.data {
            Data::Initialised { .. } => {}
            Data::Empty => return Err("not started: there is no data directory".into()),
            Data::Unreadable { error } => return Err(format!("not started: {error}")),
        }
        let programs = self.programs()?;
        if let Some(wish) = wish {
            self.adopt(wish)?;
        }
        if self.config_hash.is_none() {
            return Err("not started: there is no configuration in the data directory".into());
        }
        pgdata::prepare_start(&self.options).map_err(|e| e.to_string())?;
        self.tend_ballast();
        self.certificates.look();
        self.certificates.taken();
        self.log.tail.clear();
        self.fence.arm(clock::now()).map_err(|e| e.to_string())?;
        let mut arguments = vec!["-D".to_owned(), self.options.pgdata().display().to_string()];
        arguments.extend(configuration::pinned(&self.options));
        let started =
            children::start_postmaster(&self.own, &programs.path("postgres"), &arguments, &self.log);
        match started {
            Ok(pid) => {
                self.server = Server::Starting { pid };
                self.starting = ticket;
                self.starting_at = now;
                Ok(())
            }
            Err(e) => {
                self.fence.disarm();
                Err(format!("PostgreSQL could not be run: {e}"))
            }
        }
    }

    /// Checks a configuration and puts it into PGDATA, unless it is there already.
    pub(super) fn adopt(&mut self, wish: &Configuration) -> Result<(), String> {
        if self.config_hash.as_ref() == Some(&wish.hash) {
            return Ok(());
        }
        if let Some(refused) = self.refused.as_ref().filter(|refused| refused.hash == wish.hash) {
            return Err(refused.error.clone());
        }
        let programs = self.programs()?;
        configuration::check(wish, &self.options, &programs).map_err(|e| e.to_string())?;
        let applied = configuration::apply(wish, &self.options).map_err(|e| e.to_string());
        self.refused = None;
        self.look_at_configuration();
        applied
    }

    /// Has PostgreSQL read its files again.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        let Server::Up { pid } = self.server else {
            return Err("PostgreSQL is not running".into());
        };
        self.certificates.look();
        self.certificates.taken();
        family::signal(pid, Signal::HUP);
        Ok(())
    }

    /// Asks PostgreSQL to stop; answered when it is gone.
    pub(super) fn stop(&mut self, ticket: Option<Ticket>, mode: StopMode, patience: Option<u64>, now: u64) {
        if matches!(self.server, Server::Down { .. }) {
            if let Some(ticket) = ticket {
                self.answer(ticket, Ok(()));
            }
            return;
        }
        self.stopping.extend(ticket);
        let act = self
            .server
            .stop(mode, now, self.options.stop_budget / 2, patience);
        self.act(act, now);
    }

    /// Stops PostgreSQL fast and starts it again.
    pub(super) fn restart(&mut self, ticket: Ticket, now: u64) -> Result<(), String> {
        if matches!(self.server, Server::Down { .. }) {
            return self.start(Some(ticket), None, now);
        }
        self.restart = Some(Restart { ticket });
        self.stop(None, StopMode::Fast, None, now);
        Ok(())
    }

    /// The container is to end.
    pub(super) fn begin_end(&mut self, now: u64) {
        if self.end.is_some() {
            return;
        }
        self.log
            .say(Level::Info, "the container is ending: stopping PostgreSQL fast");
        self.end = Some(End::default());
        self.refuse_waiting("the container is ending");
        self.end_job();
        self.stop(None, StopMode::Fast, Some(PATIENCE_AT_END), now);
    }

    /// Reaps whatever ended.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            if self.server.reaped(pid, how(status)) {
                self.log.read();
                self.log.say(Level::Info, &format!("PostgreSQL {}", how(status)));
            } else {
                self.job_reaped(pid, status);
            }
        }
    }

    /// What time asks for.
    pub(super) fn tend_server(&mut self, now: u64) {
        if let Server::Starting { pid } = self.server {
            let file = durable::read(&self.options.pgdata().join("postmaster.pid"))
                .ok()
                .flatten();
            if file.is_some_and(|content| says_ready(&content, pid)) {
                self.became_ready(now);
            }
        }
        let act = self.server.due(now, self.options.stop_budget / 2);
        self.act(act, now);
    }

    fn became_ready(&mut self, now: u64) {
        self.server.ready();
        self.on_trial = None;
        self.log.say(
            Level::Info,
            &format!(
                "PostgreSQL takes connections, {} ms after its start",
                now - self.starting_at
            ),
        );
        if let Err(e) = configuration::prove(&self.options) {
            self.log.say(
                Level::Warn,
                &format!("the configuration that works could not be kept aside: {e}"),
            );
        }
        self.look_at_data();
        if let Some(ticket) = self.starting.take() {
            self.answer(ticket, Ok(()));
        }
    }

    fn act(&mut self, act: Act, now: u64) {
        match act {
            Act::Wait => {}
            Act::Signal(pid, signal) => family::signal(pid, signal),
            Act::Sweep => {
                let spared: Vec<i32> = self.job.iter().map(|job| job.running.pid).collect();
                let Ok(left) = family::mine(&spared) else { return };
                for pid in &left {
                    family::signal(*pid, Signal::KILL);
                }
                if left.is_empty() && self.server.pid().is_none() {
                    self.gone(now);
                }
            }
        }
    }

    /// Everything that PostgreSQL started is gone.
    fn gone(&mut self, now: u64) {
        let Server::Ending(ending) = self.server.clone() else {
            return;
        };
        let fenced = self.fence.disarm();
        self.log.read();
        let error = self.why(&ending, fenced);
        if let Some(error) = &error {
            self.log.say(
                Level::Warn,
                &format!("PostgreSQL is gone: {}", error.lines().next().unwrap_or_default()),
            );
        }
        self.server = Server::Down { error: error.clone() };
        self.look_at_data();
        self.tend_ballast();
        for ticket in std::mem::take(&mut self.stopping) {
            self.answer(ticket, Ok(()));
        }
        let ticket = self.starting.take();
        if let Some(restart) = self.restart.take() {
            let again = match error.clone().filter(|_| fenced) {
                Some(error) => Err(error),
                None => self.start(Some(restart.ticket), None, now),
            };
            if let Err(e) = again {
                self.answer(restart.ticket, Err(e));
            }
            return;
        }
        let acquitted = self.acquit();
        if !acquitted
            && !ending.was_up
            && !ending.asked
            && !fenced
            && self.fall_back(ticket, error.as_deref(), now)
        {
            return;
        }
        if let Some(ticket) = ticket {
            self.answer(
                ticket,
                Err(error.unwrap_or_else(|| "PostgreSQL was stopped before it was ready".into())),
            );
        }
    }

    fn why(&self, ending: &Ending, fenced: bool) -> Option<String> {
        if fenced {
            return Some("fenced: the deadline passed and the agent had not extended it".into());
        }
        if ending.asked {
            return None;
        }
        let how = ending.how.as_deref().unwrap_or("ended");
        Some(
            format!("PostgreSQL {how}\n{}", self.log.tail.text())
                .trim_end()
                .to_owned(),
        )
    }

    /// A start failed: with the configuration of the last one that did not, if that is another.
    fn fall_back(&mut self, ticket: Option<Ticket>, error: Option<&str>, now: u64) -> bool {
        let (Ok(Some(proven)), Some(hash)) =
            (configuration::fallback(&self.options), self.config_hash.clone())
        else {
            return false;
        };
        self.on_trial = configuration::present(&self.options).ok().flatten();
        if let Err(e) = configuration::apply(&proven, &self.options) {
            self.log.say(
                Level::Warn,
                &format!("the configuration that worked could not be put back: {e}"),
            );
            return false;
        }
        self.look_at_configuration();
        self.log.say(
            Level::Warn,
            "PostgreSQL did not start with the new configuration; starting it with the one before",
        );
        self.refused = Some(Refused {
            hash,
            error: error.unwrap_or_default().to_owned(),
        });
        self.start(ticket, None, now).is_ok()
    }

    /// PostgreSQL did not start with the configuration before either: the new one was not the reason.
    fn acquit(&mut self) -> bool {
        let Some(on_trial) = self.on_trial.take() else {
            return false;
        };
        self.refused = None;
        if let Err(e) = configuration::apply(&on_trial, &self.options) {
            self.log.say(
                Level::Warn,
                &format!("the new configuration could not be put back: {e}"),
            );
        }
        self.look_at_configuration();
        true
    }

    /// Reads again what is on the volume.
    pub(super) fn look_at_data(&mut self) {
        let member = member::load(&self.options.member());
        let seen = match &member {
            Ok(member) => pgdata::inspect(&self.options, member.as_ref()).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        self.data = seen.unwrap_or_else(|error| Data::Unreadable { error });
        self.member = member.ok().flatten();
        self.look_at_configuration();
    }

    pub(super) fn look_at_configuration(&mut self) {
        self.config_hash = configuration::hash(&self.options).ok().flatten();
    }

    /// Looks after the reserve on the volume.
    pub(super) fn tend_ballast(&mut self) {
        let moment = if self.server.seen() == Postgres::Running {
            Moment::Running
        } else {
            Moment::AtRest
        };
        match self.ballast.tend(moment) {
            Ok((storage, decision)) => {
                self.storage = storage;
                match decision {
                    Decision::Leave => {}
                    Decision::Make => self.log.say(Level::Info, "room was reserved on the volume of the log"),
                    Decision::GiveUp => self.log.say(
                        Level::Warn,
                        "the volume of the log is nearly full: the reserved room was given up; make the volume larger",
                    ),
                }
            }
            Err(e) if self.server.seen() != Postgres::Running => {
                self.log
                    .say(Level::Warn, &format!("the reserve on the volume: {e}"));
            }
            Err(_) => {}
        }
    }
}
