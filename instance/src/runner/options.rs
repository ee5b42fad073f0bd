//! Where things are and what they are allowed to cost: the design's values, each of which a flag can replace.

use std::path::PathBuf;

use sampledb_shared::domain::names::{self, ids, paths};

const MIB: u64 = 1 << 20;

/// Where things are and what they are allowed to cost.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data volume. `--data`
    pub data: PathBuf,
    /// The volume of the write-ahead log; used when it exists. `--wal`, absent with `SAMPLEDB_HAS_WAL=false`
    pub wal: Option<PathBuf>,
    /// The folder of the agent's socket. `--control`
    pub control: PathBuf,
    /// The folder of PostgreSQL's socket. `--socket-dir`
    pub socket_dir: PathBuf,
    /// PostgreSQL's programs; found by major when not given. `--bin-dir`
    pub bin_dir: Option<PathBuf>,
    /// The uid that the agent must have. `--agent-uid`
    pub agent_uid: u32,
    /// PostgreSQL's port. `--port`
    pub port: u16,
    /// The server's certificate. `--tls`
    pub tls: PathBuf,
    /// The CA's certificates. `--trust`
    pub trust: PathBuf,
    /// The size of the reserve on the volume that holds pg_wal; bytes. `--ballast-mib`
    pub ballast: u64,
    /// How long a fenced PostgreSQL may take to be gone; milliseconds. `--stop-budget-ms`
    pub stop_budget: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: paths::DATA.into(),
            wal: Some(paths::WAL.into()),
            control: paths::CONTROL.into(),
            socket_dir: paths::POSTGRES_SOCKET.into(),
            bin_dir: None,
            agent_uid: ids::SUITE as u32,
            port: names::POSTGRES_PORT as u16,
            tls: paths::SERVER_TLS.into(),
            trust: paths::TRUST.into(),
            ballast: 64 * MIB,
            stop_budget: 200,
        }
    }
}

/// A flag cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Not one of ours.
    #[error(
        "unknown argument {0:?}; known are --data --wal --control --socket-dir --bin-dir --agent-uid --port --tls --trust --ballast-mib --stop-budget-ms, each followed by a value"
    )]
    Unknown(String),
    /// Nothing after it, or no number.
    #[error("{0} needs a value, and some need a number")]
    Value(String),
}

impl Options {
    /// Reads `--flag value` pairs.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, Wrong> {
        fn number<N: std::str::FromStr>(flag: &str, value: &str) -> Result<N, Wrong> {
            value.parse().map_err(|_| Wrong::Value(flag.to_owned()))
        }
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            if !flag.starts_with("--") {
                return Err(Wrong::Unknown(flag));
            }
            let value = arguments.next().ok_or_else(|| Wrong::Value(flag.clone()))?;
            match flag.as_str() {
                "--data" => options.data = value.into(),
                "--wal" => options.wal = Some(value.into()),
                "--control" => options.control = value.into(),
                "--socket-dir" => options.socket_dir = value.into(),
                "--bin-dir" => options.bin_dir = Some(value.into()),
                "--agent-uid" => options.agent_uid = number(&flag, &value)?,
                "--port" => options.port = number(&flag, &value)?,
                "--tls" => options.tls = value.into(),
                "--trust" => options.trust = value.into(),
                "--ballast-mib" => options.ballast = number::<u64>(&flag, &value)? * MIB,
                "--stop-budget-ms" => options.stop_budget = number(&flag, &value)?,
                _ => return Err(Wrong::Unknown(flag)),
            }
        }
        Ok(options)
    }

    /// PostgreSQL's data directory.
    pub fn pgdata(&self) -> PathBuf {
        self.data.join(leaf(paths::PGDATA))
    }

    /// Where initdb works, until the rename that makes its result the data directory.
    pub fn pgdata_new(&self) -> PathBuf {
        self.data.join(format!("{}.new", leaf(paths::PGDATA)))
    }

    /// `member.json`.
    pub fn member(&self) -> PathBuf {
        self.data.join(leaf(paths::MEMBER))
    }

    /// The agent's socket.
    pub fn agent_socket(&self) -> PathBuf {
        self.control.join(leaf(paths::RUNNER_SOCKET))
    }

    /// The folder of the write-ahead log on its own volume; `None` when it has none.
    pub fn pg_wal(&self) -> Option<PathBuf> {
        self.own_wal_volume().map(|volume| volume.join("pg_wal"))
    }

    /// The root of the volume that holds pg_wal: the one that must not run full.
    pub fn wal_volume(&self) -> PathBuf {
        self.own_wal_volume().unwrap_or(&self.data).clone()
    }

    fn own_wal_volume(&self) -> Option<&PathBuf> {
        self.wal.as_ref().filter(|wal| wal.is_dir())
    }
}

fn leaf(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_the_runner_uses_the_places_that_the_pod_mounts() {
        let options = Options::parse([]).unwrap();
        assert_eq!(options.pgdata().to_str(), Some(paths::PGDATA));
        assert_eq!(options.member().to_str(), Some(paths::MEMBER));
        assert_eq!(options.agent_socket().to_str(), Some(paths::RUNNER_SOCKET));
        assert_eq!((options.agent_uid, options.port), (65532, 5432));
    }

    #[test]
    fn a_mistyped_flag_is_named_and_never_ignored() {
        let parse = |words: &[&str]| Options::parse(words.iter().map(ToString::to_string)).unwrap_err();
        assert!(matches!(parse(&["--date", "/x"]), Wrong::Unknown(flag) if flag == "--date"));
        assert!(matches!(parse(&["--data"]), Wrong::Value(flag) if flag == "--data"));
        assert!(matches!(parse(&["--port", "many"]), Wrong::Value(flag) if flag == "--port"));
        assert!(matches!(parse(&["run"]), Wrong::Unknown(word) if word == "run"));
    }
}
