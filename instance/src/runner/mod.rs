//! The runner: PID 1 of the PostgreSQL container. It owns the postgres child, obeys the agent, and is the watchdog
//! that ends PostgreSQL when the agent falls silent.
//!
//! The agent thinks, the runner acts: it decides nothing but when to end what it was told to run only until a
//! deadline ([`fence`]). [`watch`] is the loop; what arrives goes to [`commands`], what becomes of PostgreSQL is in
//! [`lifecycle`] and [`server`]; each other module does one thing to the container's files or processes.
//!
//! # Guarantees
//! - PostgreSQL never runs past the deadline by more than the stop budget.
//! - The runner ends only when the container is told to (SIGTERM), never because PostgreSQL did.
//! - Nothing that SQL can start holds the agent's socket, its key, or a way into this process' memory.

mod ballast;
mod certificates;
mod children;
mod clock;
mod commands;
mod configuration;
mod durable;
mod establish;
mod family;
mod fence;
pub mod inject;
mod jobs;
mod lifecycle;
mod link;
mod log;
mod member;
pub mod options;
mod pgdata;
mod server;
mod signals;
mod watch;

use std::collections::VecDeque;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, set_child_subreaper, set_dumpable_behavior};

pub use children::{BECOME, become_program};
use options::Options;

use crate::control::{Configuration, Data, Member, Refused, Request, State, Storage};

/// The runner cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something that it never refuses in a sound container.
    #[error("cannot {what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

fn kernel(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Kernel { what, source }
}

/// Where the answer to a request goes: the connection that it came from, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket {
    epoch: u64,
    id: u64,
}

/// A restart that waits for the stop.
#[derive(Clone, Copy, Debug)]
struct Restart {
    ticket: Ticket,
}

/// The container is to end.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// When PostgreSQL was gone.
    stopped_at: Option<u64>,
    /// The agent needs nothing more.
    leave: bool,
}

/// The runner.
#[derive(Debug)]
struct Runner {
    options: Options,
    own: PathBuf,
    fence: fence::Fence,
    signals: signals::Signals,
    log: log::Log,
    link: link::Link,
    certificates: certificates::Certificates,
    ballast: ballast::Ballast,

    server: server::Server,
    job: Option<jobs::Job>,
    queue: VecDeque<(Ticket, Request)>,
    starting: Option<Ticket>,
    stopping: Vec<Ticket>,
    restart: Option<Restart>,
    end: Option<End>,

    member: Option<Member>,
    data: Data,
    storage: Storage,
    config_hash: Option<String>,
    refused: Option<Refused>,
    /// The refused configuration, until the one before has shown that it starts.
    on_trial: Option<Configuration>,
    sent: Option<State>,
    volume_at: u64,
    certificates_at: u64,
    starting_at: u64,
}

/// Runs until the container is told to end. Call it from the main thread, before any other is started.
pub fn run(options: Options) -> Result<(), Error> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| kernel("keep this process' memory to itself")(e.into()))?;
    if std::process::id() != 1 {
        set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| kernel("become the parent of orphans")(e.into()))?;
    }
    let signals = signals::Signals::install().map_err(kernel("listen to signals"))?;
    let fence = fence::Fence::start(options.stop_budget).map_err(kernel("start the watchdog"))?;
    let own = std::env::current_exe().map_err(kernel("find this program"))?;
    let log = log::Log::open().map_err(kernel("open a pipe for the log"))?;
    let certificates = certificates::Certificates::watch(&options.tls, &options.trust)
        .map_err(kernel("watch the certificates"))?;
    let mut runner = Runner {
        link: link::Link::to(options.agent_socket(), options.agent_uid, fence.clone())
            .map_err(kernel("make a pair of sockets"))?,
        ballast: ballast::Ballast::on(options.wal_volume(), options.ballast),
        own,
        fence,
        signals,
        log,
        certificates,
        server: server::Server::Down { error: None },
        job: None,
        queue: VecDeque::new(),
        starting: None,
        stopping: Vec::new(),
        restart: None,
        end: None,
        member: None,
        data: Data::Empty,
        storage: Storage::Ok,
        config_hash: None,
        refused: None,
        on_trial: None,
        sent: None,
        volume_at: 0,
        certificates_at: 0,
        starting_at: 0,
        options,
    };
    runner.log.say(log::Level::Info, "started");
    runner.look_at_data();
    runner.tend_ballast();
    runner.watch();
    Ok(())
}
