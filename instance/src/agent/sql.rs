//! The agent's one connection to its own PostgreSQL: over the loopback, with its client certificate.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use sampledb_shared::domain::names::{paths, roles};
use tokio::sync::Mutex;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::settings::Settings;
use super::tls::{self, Shown};

/// No statement of the agent runs longer.
const STATEMENT: Duration = Duration::from_secs(10);
/// No connection takes longer.
const CONNECT: Duration = Duration::from_secs(3);

/// Why PostgreSQL did not answer.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The certificates cannot be used.
    #[error("{0}")]
    Tls(#[from] tls::TlsError),
    /// PostgreSQL's answer, or none.
    #[error("PostgreSQL: {}", said(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// No answer in time.
    #[error("PostgreSQL did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
}

/// PostgreSQL's own words where there are some: the library's are "db error".
fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(
        || {
            let cause = std::error::Error::source(error)
                .map(|s| format!(": {s}"))
                .unwrap_or_default();
            format!("{error}{cause}")
        },
        |e| format!("{} (SQLSTATE {})", e.message(), e.code().code()),
    )
}

struct Session {
    client: Arc<Client>,
    shown: Shown,
    /// Drives the connection; it ends with it.
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connection; made when it is needed, and made again when it broke.
pub struct Sql {
    settings: Arc<Settings>,
    session: Mutex<Option<Session>>,
}

impl Sql {
    /// Nothing is connected yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            session: Mutex::new(None),
        }
    }

    /// Ends the connection; the next use reads the certificates again.
    pub async fn forget(&self) {
        *self.session.lock().await = None;
    }

    /// The connection.
    pub async fn client(&self) -> Result<Arc<Client>, SqlError> {
        let mut session = self.session.lock().await;
        if let Some(open) = session.as_ref().filter(|s| !s.client.is_closed()) {
            return Ok(Arc::clone(&open.client));
        }
        *session = None;
        let made = tokio::time::timeout(CONNECT, self.connect())
            .await
            .map_err(|_| SqlError::TimedOut(CONNECT))??;
        let client = Arc::clone(&made.client);
        *session = Some(made);
        Ok(client)
    }

    async fn connect(&self) -> Result<Session, SqlError> {
        let ca = self.settings.file(paths::TRUST, "ca.crt");
        let (config, shown) = tls::client(&ca, Some(&self.settings.at(paths::AGENT_TLS)))?;
        let (client, connection) = Config::new()
            .host("localhost")
            .hostaddr(IpAddr::V4(Ipv4Addr::LOCALHOST))
            .port(self.settings.postgres_port)
            .user(roles::AGENT)
            .dbname("postgres")
            .application_name("sampledb-agent")
            .ssl_mode(SslMode::Require)
            .options(format!(
                "-c search_path=pg_catalog -c default_transaction_read_only=off -c statement_timeout={}",
                STATEMENT.as_millis()
            ))
            .connect(MakeRustlsConnect::new(config))
            .await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = said(&error), "the connection to PostgreSQL ended");
            }
        });
        Ok(Session {
            client: Arc::new(client),
            shown,
            task,
        })
    }

    /// The serial number of the certificate that the server showed; `None` while not connected.
    pub async fn serial(&self) -> Option<String> {
        self.session.lock().await.as_ref().and_then(|s| s.shown.serial())
    }

    /// Whether a query is answered within `patience`.
    pub async fn answers(&self, patience: Duration) -> Result<(), SqlError> {
        let asked = async { Ok(self.client().await?.simple_query("SELECT 1").await.map(|_| ())?) };
        tokio::time::timeout(patience, asked)
            .await
            .map_err(|_| SqlError::TimedOut(patience))?
    }

    /// Commits a write for this term: the database takes writes.
    pub async fn commit_opening(&self, term: i64) -> Result<(), SqlError> {
        let client = self.client().await?;
        client
            .execute(
                "INSERT INTO sampledb.opening (term, instance) VALUES ($1, $2) \
                 ON CONFLICT (term) DO UPDATE SET instance = excluded.instance, at = pg_catalog.now()",
                &[&term, &self.settings.pod],
            )
            .await?;
        Ok(())
    }

    /// The server's version: "17.12".
    pub async fn version(&self) -> Result<String, SqlError> {
        let client = self.client().await?;
        let row = client
            .query_one("SELECT current_setting('server_version')", &[])
            .await?;
        let text: String = row.try_get(0)?;
        Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
    }

    /// The settings that wait for a restart.
    pub async fn pending_restart(&self) -> Result<Vec<String>, SqlError> {
        let client = self.client().await?;
        let rows = client
            .query(
                "SELECT name FROM pg_settings WHERE pending_restart ORDER BY name",
                &[],
            )
            .await?;
        Ok(rows.iter().filter_map(|r| r.try_get(0).ok()).collect())
    }
}
