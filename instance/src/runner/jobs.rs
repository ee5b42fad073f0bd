//! Programs that run beside the loop, and what happens when they end: initdb, and `psql` with the fixed statements.

use rustix::process::{Signal, WaitStatus};

use super::children::{self, Running};
use super::log::{Level, Tail};
use super::server::Server;
use super::{Runner, Ticket, configuration, establish, family, pgdata, server};
use crate::control::{Configuration, Data, Establish, Initdb};
use crate::postgres::programs::Programs;

/// After this long `psql` is killed; milliseconds. Its statements have a shorter timeout of their own.
const PSQL_PATIENCE: u64 = 60_000;

/// A program that runs beside the loop.
#[derive(Debug)]
pub(super) struct Job {
    /// The program.
    pub running: Running,
    what: What,
    ticket: Ticket,
    /// When it is killed.
    kill_at: Option<u64>,
    /// Its output has ended.
    pub silent: bool,
}

#[derive(Debug)]
enum What {
    Initdb,
    Establish,
    /// Are the access files, already in PGDATA, without errors? If not, the configuration before comes back.
    Access {
        before: Option<Configuration>,
    },
}

impl Runner {
    pub(super) fn initdb(&mut self, ticket: Ticket, wish: &Initdb) -> Result<(), String> {
        if let Data::Unreadable { error } = &self.data {
            return Err(format!("initdb is refused: {error}"));
        }
        if !matches!(self.server, Server::Down { .. }) {
            return Err("initdb is refused: PostgreSQL is running".into());
        }
        let command =
            pgdata::begin_initdb(wish, &self.options, self.member.as_ref()).map_err(|e| e.to_string())?;
        let running =
            Running::start(command, &[], "").map_err(|e| format!("initdb could not be run: {e}"))?;
        self.log.say(Level::Info, "initdb begins");
        self.job = Some(Job {
            running,
            what: What::Initdb,
            ticket,
            kill_at: None,
            silent: false,
        });
        Ok(())
    }

    pub(super) fn establish(&mut self, ticket: Ticket, wish: &Establish, now: u64) -> Result<(), String> {
        let script = establish::script(wish).map_err(|e| e.to_string())?;
        self.psql(ticket, &script, What::Establish, now)
    }

    /// After the files were replaced, and before PostgreSQL reads them.
    pub(super) fn check_access(
        &mut self,
        ticket: Ticket,
        before: Option<Configuration>,
        now: u64,
    ) -> Result<(), String> {
        let back = before.clone();
        self.psql(ticket, establish::ACCESS_ERRORS, What::Access { before }, now)
            .inspect_err(|_| self.put_back(back))
    }

    fn psql(&mut self, ticket: Ticket, script: &str, what: What, now: u64) -> Result<(), String> {
        if !matches!(self.server, Server::Up { .. }) {
            return Err("PostgreSQL is not running".into());
        }
        let programs = self.programs()?;
        let command = children::psql(
            &programs.path("psql"),
            &self.options.socket_dir,
            self.options.port,
        );
        let environment = [
            ("PGOPTIONS", establish::SESSION),
            ("PGCONNECT_TIMEOUT", "10"),
            ("PGAPPNAME", "sampledb-runner"),
        ];
        let running = Running::start(command, &environment, script)
            .map_err(|e| format!("psql could not be run: {e}"))?;
        self.job = Some(Job {
            running,
            what,
            ticket,
            kill_at: Some(now + PSQL_PATIENCE),
            silent: false,
        });
        Ok(())
    }

    /// PostgreSQL's programs for this data directory.
    pub(super) fn programs(&self) -> Result<Programs, String> {
        let major = match &self.data {
            Data::Initialised { major, .. } => major.parse().ok(),
            _ => None,
        };
        Programs::find(self.options.bin_dir.as_deref(), major).map_err(|e| e.to_string())
    }

    /// A child was reaped; whether it was the job.
    pub(super) fn job_reaped(&mut self, pid: i32, status: WaitStatus) -> bool {
        let Some(mut job) = self.job.take_if(|job| job.running.pid == pid) else {
            return false;
        };
        job.running.read();
        let output = job.running.output();
        let succeeded = status.exit_status() == Some(0);
        let done = match job.what {
            What::Initdb => self.initdb_ended(succeeded, &output, status),
            What::Establish if succeeded => Ok(()),
            What::Establish => Err(said(&output, status)),
            What::Access { before } => {
                if succeeded && output.is_empty() {
                    self.reload()
                } else if succeeded {
                    self.put_back(before);
                    Err(output)
                } else {
                    // Not a refusal: nobody can log in, perhaps because of what this configuration corrects. A file
                    // that PostgreSQL cannot read it leaves aside at a reload.
                    let why = said(&output, status);
                    self.log.say(
                        Level::Warn,
                        &format!("the access files are taken unchecked: {why}"),
                    );
                    self.reload()
                }
            }
        };
        self.answer(job.ticket, done);
        true
    }

    fn initdb_ended(&mut self, succeeded: bool, output: &str, status: WaitStatus) -> Result<(), String> {
        if !succeeded {
            // What initdb says before its error is about how well it goes.
            let error = output.find("initdb: error").unwrap_or(0);
            let text = said(&output[error..], status);
            self.log.say(Level::Warn, &format!("initdb failed: {text}"));
            return Err(text);
        }
        pgdata::finish_initdb(&self.options).map_err(|e| e.to_string())?;
        self.log.say(Level::Info, "initdb is done");
        self.look_at_data();
        self.tend_ballast();
        Ok(())
    }

    fn put_back(&mut self, before: Option<Configuration>) {
        if let Some(before) = before
            && let Err(e) = configuration::apply(&before, &self.options)
        {
            self.log.say(
                Level::Warn,
                &format!("the configuration before could not be put back: {e}"),
            );
        }
        self.look_at_configuration();
    }

    /// Kills a job that takes too long.
    pub(super) fn job_due(&self, now: u64) {
        if let Some(job) = &self.job
            && job.kill_at.is_some_and(|at| at <= now)
        {
            family::signal(job.running.pid, Signal::KILL);
        }
    }

    /// The container is to end: initdb, which cleans up, is told so.
    pub(super) fn end_job(&self) {
        if let Some(job) = &self.job {
            family::signal(job.running.pid, Signal::TERM);
        }
    }
}

/// The end of what a program said, or how it ended when it said nothing.
fn said(output: &str, status: WaitStatus) -> String {
    let mut tail = Tail::default();
    output.lines().for_each(|line| tail.push(line));
    let text = tail.text();
    // psql's own lines carry the severity ERROR, which a server's log would be stripped of.
    let errors: Vec<&str> = output.lines().filter(|line| line.contains("ERROR:  ")).collect();
    match (text.is_empty(), errors.is_empty()) {
        (_, false) => errors.join("\n").chars().take(2048).collect(),
        (false, true) => text,
        (true, true) => format!("it {}", server::how(status)),
    }
}
