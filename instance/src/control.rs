//! What agent and runner say to each other: one JSON object a line, over `/run/sampledb/runner.sock`.
//!
//! The agent listens, the runner connects. Programs started by SQL have the runner's uid, so the uid alone proves
//! nothing: the first connection gets a key, and every later one shows it. A runner without a key is let in only
//! when the agent has none to ask for, or when nobody with the key came back within two seconds, which means that
//! the container, and with it every program of SQL, is a new one.
//!
//! # Guarantees
//! A [`Request`] is answered by exactly one [`Reply`] with its `id`, or by the end of the connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A line longer than this ends the connection.
pub const LONGEST_LINE: usize = 1 << 20;

/// From the runner to the agent.
#[allow(
    clippy::large_enum_variant,
    reason = "one of them at a time, on its way through the socket"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromRunner {
    /// The first line of a connection.
    Hello {
        /// What the agent gave at an earlier connection of this process.
        key: Option<String>,
    },
    /// What the runner sees; sent after Hello and whenever it changes.
    State(State),
    /// The answer to a request.
    Reply(Reply),
}

/// From the agent to the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromAgent {
    /// The answer to Hello: the key to show next time.
    Welcome {
        /// 32 random bytes in hexadecimal.
        key: String,
    },
    /// Something to do.
    Request(Request),
    /// PostgreSQL may run until then; past it the runner kills the whole group, whatever else happens. Never
    /// answered.
    Extend {
        /// Milliseconds of CLOCK_BOOTTIME.
        until: u64,
    },
    /// Nothing more is to be done before the container ends: an ending runner whose PostgreSQL is gone waits for
    /// this (or a second), so that a last [`Command::Remember`] finds somebody. Never answered; ignored while the
    /// runner is not ending.
    Leave,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Counts up within a connection.
    pub id: u64,
    /// What.
    pub command: Command,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The request's.
    pub id: u64,
    /// What is wrong, in the words of who refused (PostgreSQL, the kernel); absent when it was done.
    pub error: Option<String>,
}

/// What the agent can ask for. There is no free text that becomes SQL, a path or an argument: every value is
/// checked again by the runner against its grammar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Command {
    /// Write `member.json`: durable before the reply.
    Remember(Member),
    /// Remove a half-made data directory and run initdb. Refused when `member.json` says that the database was
    /// open before, or when PGDATA holds a finished one.
    Initdb(Initdb),
    /// Write the configuration and start PostgreSQL; answered when it takes local connections, or when it ended
    /// (with the end of its log).
    Start {
        /// The configuration.
        configuration: Configuration,
        /// The first deadline, as in [`FromAgent::Extend`]; when others arrive before the start, the last counts.
        until: u64,
    },
    /// Have `postgres -C` check the configuration; copy it and reload when it is accepted. Otherwise nothing
    /// changes and the error is PostgreSQL's.
    Configure(Configuration),
    /// Reload: the certificates changed.
    Reload,
    /// Stop PostgreSQL and start it again with the configuration that is there.
    Restart {
        /// The deadline for the new start, as in [`FromAgent::Extend`].
        until: u64,
    },
    /// Stop PostgreSQL; answered when its process group is gone.
    Stop(StopMode),
    /// Make the roles and the database of a new database, or bring the owner's password up to date: fixed
    /// statements as `postgres` over the local socket, idempotent.
    Establish(Establish),
}

/// How PostgreSQL is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopMode {
    /// Sessions are ended, a checkpoint is written (SIGINT).
    Fast,
    /// At once, without a checkpoint (SIGQUIT, then SIGKILL).
    Immediate,
}

/// How the data directory is made; see `spec.bootstrap.new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initdb {
    /// Whether pages carry checksums.
    pub data_checksums: bool,
    /// The encoding.
    pub encoding: String,
    /// libc, icu or builtin.
    pub locale_provider: String,
    /// The locale.
    pub locale: String,
}

/// What PostgreSQL is configured with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// The hash of `files`, as the provisioner computed it.
    pub hash: String,
    /// The files by name: `postgresql.conf`, `pg_hba.conf`, `pg_ident.conf`. Others are refused.
    pub files: BTreeMap<String, String>,
}

/// The roles and the database of a new database.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Establish {
    /// The database to create; absent when only the roles are brought up to date.
    pub database: Option<String>,
    /// The owner.
    pub owner: String,
    /// The owner's SCRAM-SHA-256 verifier; never a password.
    pub verifier: String,
}

impl std::fmt::Debug for Establish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Establish")
            .field("database", &self.database)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// What the runner sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The postgres child.
    pub postgres: Postgres,
    /// The data directory.
    pub data: Data,
    /// `member.json`; absent when there is none.
    pub member: Option<Member>,
    /// Whether the volume that holds pg_wal has its reserve.
    pub storage: Storage,
    /// The runner was told to end (SIGTERM): PostgreSQL is being stopped fast, and it will not start again.
    pub ending: bool,
    /// The configuration in PGDATA; absent when there is none.
    pub config_hash: Option<String>,
    /// The server's certificate, or the CA's, changed since the last start or reload.
    pub certificates_changed: bool,
    /// A configuration that PostgreSQL would not start with; it runs with the one before (see `config_hash`).
    /// Absent after a configuration was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

/// A configuration that PostgreSQL would not start with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// [`Configuration::hash`].
    pub hash: String,
    /// Why, in PostgreSQL's words.
    pub error: String,
}

/// The postgres child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Postgres {
    /// Not running.
    Stopped {
        /// Why, when it was not asked for: the exit status and the end of its log.
        error: Option<String>,
    },
    /// Started, not taking connections yet.
    Starting,
    /// Taking local connections.
    Running,
    /// Asked to stop.
    Stopping,
}

/// The data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Data {
    /// There is none, or a half-made one.
    Empty,
    /// A finished one.
    Initialised {
        /// PostgreSQL's system identifier, decimal.
        system_id: String,
        /// The timeline in the control file.
        timeline: i64,
        /// Where the record of the last checkpoint in the control file begins, as PostgreSQL writes it.
        checkpoint: String,
        /// The major version in PG_VERSION.
        major: String,
    },
    /// There is something that cannot be read: a damaged control file or `member.json`. Nothing is done with it:
    /// initdb and a start are refused.
    Unreadable {
        /// What, and why.
        error: String,
    },
}

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Storage {
    /// The ballast file is whole.
    Ok,
    /// The ballast was given up.
    BallastUsed,
    /// The ballast is gone and the volume is full.
    Full,
}

/// What a member must remember, beside PGDATA (design: the election protocol). Durable before any effect or answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The form of this file; 1.
    pub version: u32,
    /// The SampleDB's UID.
    pub uid: String,
    /// The UID of the claim of the data volume.
    pub claim_uid: String,
    /// The highest term promised; 0 before any.
    pub promised: i64,
    /// The term in which this member is, or was last, primary; 0 before any.
    pub primary_of: i64,
    /// The term in which it last opened to clients; 0 before any.
    pub opened_in: i64,
    /// The resignation from a term; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resigned: Option<Resigned>,
    /// The data is not to be trusted with a decision: the volume was lost, or a copy is being made.
    pub marked: bool,
}

/// A resignation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resigned {
    /// The term.
    pub term: i64,
    /// The end of the WAL, as PostgreSQL writes it.
    pub position: String,
}
