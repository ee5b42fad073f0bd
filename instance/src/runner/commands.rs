//! What the agent asks for.
//!
//! Remember and Stop are done at once. The others wait for one another, and for PostgreSQL to be neither starting
//! nor stopping.

use super::link::Ended;
use super::log::Level;
use super::server::Server;
use super::{Runner, Ticket, configuration, member};
use crate::control::{Command, Configuration, Data, FromAgent, FromRunner, Member, Reply, Request, State};

/// Requests that may wait.
const LONGEST_QUEUE: usize = 16;

impl Runner {
    pub(super) fn receive(&mut self, now: u64) {
        for message in self.link.receive() {
            match message {
                Ok(message) => self.take(message, now),
                Err(e) => self.hang_up(&e),
            }
        }
    }

    fn take(&mut self, message: FromAgent, now: u64) {
        match message {
            // Both are the link's: it keeps the key, and hands a deadline to the fence without waiting for this loop.
            FromAgent::Welcome { .. } | FromAgent::Extend { .. } => {}
            FromAgent::Leave => {
                if let Some(end) = &mut self.end {
                    end.leave = true;
                }
            }
            FromAgent::Request(request) => {
                let ticket = Ticket {
                    epoch: self.link.epoch,
                    id: request.id,
                };
                match request.command {
                    Command::Remember(member) => {
                        let done = self.remember(member);
                        self.answer(ticket, done);
                    }
                    Command::Stop(mode) => {
                        self.refuse_waiting("PostgreSQL is being stopped");
                        self.stop(Some(ticket), mode, None, now);
                    }
                    _ if self.end.is_some() => self.answer(ticket, Err("the container is ending".into())),
                    _ if self.queue.len() == LONGEST_QUEUE => {
                        self.answer(ticket, Err("too many requests are waiting".into()));
                    }
                    _ => self.queue.push_back((ticket, request)),
                }
            }
        }
    }

    /// Begins what waits, as far as it can begin.
    pub(super) fn work(&mut self, now: u64) {
        while self.job.is_none() && matches!(self.server, Server::Down { .. } | Server::Up { .. }) {
            let Some((ticket, request)) = self.queue.pop_front() else {
                return;
            };
            match self.begin(ticket, request, now) {
                Ok(Begun::Done) => self.answer(ticket, Ok(())),
                Ok(Begun::AnswersLater) => {}
                Err(e) => self.answer(ticket, Err(e)),
            }
        }
    }

    fn begin(&mut self, ticket: Ticket, request: Request, now: u64) -> Result<Begun, String> {
        match request.command {
            // The deadlines went to the fence when the commands arrived.
            Command::Start {
                configuration,
                until: _,
            } => self
                .start(Some(ticket), Some(&configuration), now)
                .map(|()| Begun::AnswersLater),
            Command::Restart { until: _ } => self.restart(ticket, now).map(|()| Begun::AnswersLater),
            Command::Initdb(wish) => self.initdb(ticket, &wish).map(|()| Begun::AnswersLater),
            Command::Establish(wish) => self.establish(ticket, &wish, now).map(|()| Begun::AnswersLater),
            Command::Reload => self.reload().map(|()| Begun::Done),
            Command::Configure(wish) => self.configure(ticket, &wish, now),
            Command::Remember(member) => self.remember(member).map(|()| Begun::Done),
            Command::Stop(mode) => {
                self.stop(Some(ticket), mode, None, now);
                Ok(Begun::AnswersLater)
            }
        }
    }

    fn configure(&mut self, ticket: Ticket, wish: &Configuration, now: u64) -> Result<Begun, String> {
        if !matches!(self.data, Data::Initialised { .. }) {
            return Err("there is no data directory to configure".into());
        }
        if self.config_hash.as_ref() == Some(&wish.hash) {
            return Ok(Begun::Done);
        }
        let before = configuration::present(&self.options).map_err(|e| e.to_string())?;
        self.adopt(wish)?;
        if matches!(self.server, Server::Down { .. }) {
            return Ok(Begun::Done);
        }
        self.check_access(ticket, before, now)
            .map(|()| Begun::AnswersLater)
    }

    fn remember(&mut self, member: Member) -> Result<(), String> {
        if let Data::Unreadable { error } = &self.data
            && self.member.is_none()
        {
            return Err(format!("not remembered: {error}"));
        }
        member::check(self.member.as_ref(), &member).map_err(|e| e.to_string())?;
        member::save(&self.options.member(), &member).map_err(|e| e.to_string())?;
        self.member = Some(member);
        Ok(())
    }

    /// Whatever waits to be started is not.
    pub(super) fn refuse_waiting(&mut self, why: &str) {
        for (ticket, _) in std::mem::take(&mut self.queue) {
            self.answer(ticket, Err(format!("not done: {why}")));
        }
        if let Some(restart) = self.restart.take() {
            self.answer(restart.ticket, Err(format!("not started again: {why}")));
        }
    }

    /// Answers a request, when the connection that it came by is still there.
    pub(super) fn answer(&mut self, ticket: Ticket, done: Result<(), String>) {
        if let Err(error) = &done {
            self.log.say(
                Level::Warn,
                &format!("refused: {}", error.lines().next().unwrap_or_default()),
            );
        }
        if ticket.epoch == self.link.epoch {
            // The agent sees the state that its request led to no later than the answer.
            self.tell();
            self.send(&FromRunner::Reply(Reply {
                id: ticket.id,
                error: done.err(),
            }));
        }
    }

    /// Tells the agent what the runner sees, if that changed.
    pub(super) fn tell(&mut self) {
        if !self.link.open() {
            self.sent = None;
            return;
        }
        let state = State {
            postgres: self.server.seen(),
            data: self.data.clone(),
            member: self.member.clone(),
            storage: self.storage,
            ending: self.end.is_some(),
            config_hash: self.config_hash.clone(),
            certificates_changed: self.certificates.changed(),
            refused: self.refused.clone(),
        };
        if self.sent.as_ref() != Some(&state) {
            self.send(&FromRunner::State(state.clone()));
            self.sent = self.link.open().then_some(state);
        }
    }

    fn send(&mut self, message: &FromRunner) {
        if let Err(e) = self.link.send(message) {
            self.hang_up(&e);
        }
    }

    pub(super) fn hang_up(&mut self, why: &Ended) {
        self.link.close();
        self.sent = None;
        self.queue.clear();
        self.log.say(Level::Warn, &why.to_string());
    }
}

/// How far a request has come.
enum Begun {
    Done,
    AnswersLater,
}
