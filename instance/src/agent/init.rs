//! `sampledb-agent init`: the initial SQL of a new database, each file in one transaction, each content once.
//!
//! Ends with 0 when all was run, with [`SQL_ERROR`] and PostgreSQL's words in the termination message when the SQL is
//! wrong (trying again would not help), and with [`TRY_AGAIN`] when it is not the SQL's fault.

use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sampledb_shared::domain::conditions::truncated;
use sampledb_shared::domain::names::paths;
use sha2::{Digest, Sha256};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{clock, tls, transaction_ends};
use sampledb_shared::domain::hex::hex;

/// The SQL is wrong (EX_DATAERR).
pub const SQL_ERROR: u8 = 65;
/// Something else is wrong, and may be better next time (EX_TEMPFAIL).
pub const TRY_AGAIN: u8 = 75;

/// How long the server is waited for.
const PATIENCE_MS: u64 = 600_000;
/// The kubelet reads no more of a termination message.
const LONGEST_MESSAGE: usize = 3500;

/// Where the database is and what is run.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The server: its name is verified.
    #[arg(long, env = "SAMPLEDB_HOST")]
    pub host: String,
    /// Its port.
    #[arg(long, env = "SAMPLEDB_PORT", default_value_t = 5432)]
    pub port: u16,
    /// The database.
    #[arg(long, env = "SAMPLEDB_DATABASE")]
    pub database: String,
    /// The folder with the owner's username and password.
    #[arg(long, default_value = paths::OWNER)]
    pub owner: PathBuf,
    /// The CA's certificates.
    #[arg(long, default_value = "/etc/sampledb/trust/ca.crt")]
    pub ca: PathBuf,
    /// The folder with the files, run in the order of their names, when none are named.
    #[arg(long, default_value = "/etc/sampledb/init")]
    pub folder: PathBuf,
    /// Connects to this address instead of the host's.
    #[arg(long, hide = true)]
    pub address: Option<IpAddr>,
    /// Where the error goes.
    #[arg(long, default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
    /// The files, in order.
    pub files: Vec<PathBuf>,
}

/// Why it ended.
#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error("{0}")]
    Sql(String),
    #[error("{0}")]
    Other(String),
}

impl InitError {
    fn file(path: &Path, error: &io::Error) -> Self {
        Self::Other(format!("{}: {error}", path.display()))
    }
}

/// Runs everything that was not run before.
pub async fn run(settings: &Settings) -> ExitCode {
    match run_all(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the initial SQL was not run");
            let message =
                serde_json::json!({"error": truncated(&error.to_string(), LONGEST_MESSAGE)}).to_string();
            if let Err(error) = std::fs::write(&settings.termination_log, message) {
                tracing::warn!(%error, "the termination message could not be written");
            }
            ExitCode::from(if matches!(error, InitError::Sql(_)) {
                SQL_ERROR
            } else {
                TRY_AGAIN
            })
        }
    }
}

async fn run_all(settings: &Settings) -> Result<(), InitError> {
    let mut scripts = Vec::new();
    for path in files(settings)? {
        let bytes = std::fs::read(&path).map_err(|e| InitError::file(&path, &e))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| InitError::Sql(format!("{}: it is not UTF-8 text", key(&path))))?;
        if let Some(ends) = transaction_ends::find(&text) {
            return Err(InitError::Sql(format!(
                "{}, line {}: {} ends the transaction that the whole file runs in; leave it out, everything in the \
                 file is committed together",
                key(&path),
                ends.line,
                ends.word
            )));
        }
        scripts.push((key(&path), text));
    }
    let mut client = connect(settings).await?;
    client
        .batch_execute(
            "CREATE SCHEMA IF NOT EXISTS sampledb; CREATE TABLE IF NOT EXISTS sampledb.init \
             (sha256 text PRIMARY KEY, file text NOT NULL, at timestamptz NOT NULL DEFAULT now())",
        )
        .await
        .map_err(|e| InitError::Other(words(&e, "the list of what was run", "")))?;
    for (name, script) in &scripts {
        run_one(&mut client, name, script).await?;
    }
    Ok(())
}

fn files(settings: &Settings) -> Result<Vec<PathBuf>, InitError> {
    if !settings.files.is_empty() {
        return Ok(settings.files.clone());
    }
    let entries = std::fs::read_dir(&settings.folder).map_err(|e| InitError::file(&settings.folder, &e))?;
    // The kubelet keeps the versions of a mounted ConfigMap under names that begin with two dots.
    let visible = |p: &PathBuf| {
        p.file_name()
            .is_some_and(|n| !n.to_string_lossy().starts_with(".."))
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(visible)
        .collect();
    files.sort();
    Ok(files)
}

/// The name that the user knows: the file's, without the number before it.
fn key(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    match name.split_once('-') {
        Some((number, key)) if number.bytes().all(|b| b.is_ascii_digit()) => key.to_owned(),
        _ => name,
    }
}

async fn connect(settings: &Settings) -> Result<Client, InitError> {
    let file = |name: &str| {
        let path = settings.owner.join(name);
        std::fs::read_to_string(&path)
            .map(|t| t.trim().to_owned())
            .map_err(|e| InitError::file(&path, &e))
    };
    let (user, password) = (file("username")?, file("password")?);
    let begun = clock::boot_ms();
    let mut attempt = 0_u32;
    loop {
        let (tls, _) = tls::client(&settings.ca, None).map_err(|e| InitError::Other(e.to_string()))?;
        let mut config = Config::new();
        config
            .host(&settings.host)
            .port(settings.port)
            .user(&user)
            .password(&password)
            .dbname(&settings.database)
            .application_name("sampledb-init")
            .connect_timeout(Duration::from_secs(5))
            .ssl_mode(SslMode::Require);
        if let Some(address) = settings.address {
            config.hostaddr(address);
        }
        let connecting = tokio::time::timeout(
            Duration::from_secs(10),
            config.connect(MakeRustlsConnect::new(tls)),
        );
        let why = match connecting.await {
            Ok(Ok((client, connection))) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Ok(Err(error)) => words(&error, &settings.host, ""),
            Err(_) => format!("{}: no answer within 10 s", settings.host),
        };
        if clock::boot_ms().saturating_sub(begun) >= PATIENCE_MS {
            return Err(InitError::Other(format!(
                "the database did not answer for 10 minutes: {why}"
            )));
        }
        if attempt.is_multiple_of(20) {
            tracing::info!(why, "waiting for the database");
        }
        attempt += 1;
        tokio::time::sleep(Duration::from_millis(100 << attempt.min(4))).await;
    }
}

/// The transaction's id: another one afterwards means that the script ended it.
const ID: &str = "SELECT pg_catalog.pg_current_xact_id()::text";

async fn run_one(client: &mut Client, name: &str, script: &str) -> Result<(), InitError> {
    let other = |e: tokio_postgres::Error| sql_or_other(&e, name, "");
    let sha = hex(&Sha256::digest(script.as_bytes()));
    let transaction = client.transaction().await.map_err(other)?;
    let known = transaction
        .query_opt("SELECT FROM sampledb.init WHERE sha256 = $1", &[&sha])
        .await
        .map_err(other)?;
    if known.is_some() {
        tracing::info!(file = name, "was run before");
        return Ok(());
    }
    let before: String = transaction
        .query_one(ID, &[])
        .await
        .and_then(|r| r.try_get(0))
        .map_err(other)?;
    transaction
        .batch_execute(script)
        .await
        .map_err(|e| sql_or_other(&e, name, script))?;
    // The script may have changed the search path and the role.
    transaction
        .batch_execute("RESET ALL; RESET SESSION AUTHORIZATION")
        .await
        .map_err(other)?;
    let after: String = transaction
        .query_one(ID, &[])
        .await
        .and_then(|r| r.try_get(0))
        .map_err(other)?;
    if before != after {
        return Err(InitError::Sql(format!(
            "{name}: it ended the transaction that the whole file runs in; what it did before that stays. Take COMMIT, \
             END, ROLLBACK, ABORT and PREPARE TRANSACTION out of it"
        )));
    }
    transaction
        .execute(
            "INSERT INTO sampledb.init (sha256, file) VALUES ($1, $2)",
            &[&sha, &name],
        )
        .await
        .map_err(other)?;
    transaction.commit().await.map_err(other)?;
    tracing::info!(file = name, "was run");
    Ok(())
}

/// Whose fault it is: what the server says about a statement is the SQL's, unless the server itself was in trouble.
fn sql_or_other(error: &tokio_postgres::Error, name: &str, script: &str) -> InitError {
    let text = words(error, name, script);
    // Connection, resources, operator intervention, system error, serialisation and deadlock.
    let passing = ["08", "53", "57", "58", "40"];
    match error.as_db_error() {
        Some(db) if !passing.iter().any(|class| db.code().code().starts_with(class)) => InitError::Sql(text),
        _ => InitError::Other(text),
    }
}

/// PostgreSQL's words, with the place in the file.
fn words(error: &tokio_postgres::Error, name: &str, script: &str) -> String {
    let Some(db) = error.as_db_error() else {
        let cause = std::error::Error::source(error)
            .map(|s| format!(": {s}"))
            .unwrap_or_default();
        return format!("{name}: {error}{cause}");
    };
    let place = match db.position() {
        Some(ErrorPosition::Original(at)) if !script.is_empty() => format!(", line {}", line(script, *at)),
        _ => String::new(),
    };
    let mut text = format!(
        "{name}{place}: {}: {} (SQLSTATE {})",
        db.severity(),
        db.message(),
        db.code().code()
    );
    // Not the detail and the context: they quote rows and statements, and everybody reads the status.
    if let Some(hint) = db.hint() {
        let _ = write!(text, "; hint: {hint}");
    }
    text
}

/// The line of the character `at` (from 1).
fn line(script: &str, at: u32) -> usize {
    1 + script
        .chars()
        .take((at as usize).saturating_sub(1))
        .filter(|c| *c == '\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_users_key_and_line() {
        assert_eq!(key(Path::new("/etc/sampledb/init/03-schema.sql")), "schema.sql");
        assert_eq!(key(Path::new("/x/schema-v2.sql")), "schema-v2.sql");
        assert_eq!(line("SELECT 1;\nSELEC 2", 11), 2);
        assert_eq!(line("é;\nx", 4), 2);
    }
}
