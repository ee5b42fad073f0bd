//! `/metrics`: PostgreSQL's numbers by a few queries, and the agent's own.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Gauge, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use sampledb_shared::telemetry::metrics::{MetricsError, counter, encode, gauge, register};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use super::clock;
use super::fence::Fence;
use super::sql::{Sql, SqlError};
use crate::control::Storage;

/// Scrapes within this time get the same numbers.
const FRESH_MS: u64 = 1000;
/// A scrape does not wait longer for PostgreSQL.
const PATIENCE: Duration = Duration::from_secs(5);

/// Databases: size, transactions, what was read and written, conflicts.
const DATABASES: &str = "SELECT d.datname, pg_database_size(d.oid), s.xact_commit, s.xact_rollback, s.deadlocks, \
    s.temp_bytes, s.blks_read, s.blks_hit, s.tup_inserted, s.tup_updated, s.tup_deleted, s.tup_returned \
    FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datallowconn AND NOT d.datistemplate";
/// Client sessions by database and state.
const SESSIONS: &str = "SELECT coalesce(datname, ''), coalesce(state, 'unknown'), count(*) FROM pg_stat_activity \
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1, 2";
/// The server as a whole; the positions are bytes since the beginning of WAL.
const SERVER: &str = "SELECT pg_is_in_recovery(), \
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')::float8, \
    extract(epoch FROM pg_postmaster_start_time())::float8, \
    (SELECT count(*) FROM pg_settings WHERE pending_restart), \
    (SELECT count(*) FROM pg_stat_replication), \
    (SELECT coalesce(max(pg_wal_lsn_diff(sent_lsn, flush_lsn)), 0)::float8 FROM pg_stat_replication), \
    (SELECT count(*) FROM pg_replication_slots WHERE NOT active), \
    (SELECT coalesce(max(extract(epoch FROM now() - xact_start)), 0)::float8 FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()), \
    (SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()), \
    (SELECT archived_count FROM pg_stat_archiver), (SELECT failed_count FROM pg_stat_archiver), \
    current_setting('max_connections')::bigint, \
    (SELECT max(age(datfrozenxid))::bigint FROM pg_database)";

/// The numbers.
pub struct Metrics {
    registry: Registry,
    gathered: Mutex<Option<u64>>,
    up: IntGauge,
    size: IntGaugeVec,
    /// Totals of `pg_stat_database`, in the order of the query's columns from the third.
    totals: Vec<IntCounterVec>,
    sessions: IntGaugeVec,
    in_recovery: IntGauge,
    wal_position: Gauge,
    started: Gauge,
    pending_restart: IntGauge,
    replicas: IntGauge,
    replication_lag: Gauge,
    inactive_slots: IntGauge,
    longest_transaction: Gauge,
    wal_size: IntGauge,
    archived: IntCounterVec,
    max_connections: IntGauge,
    oldest_xid: IntGauge,
    agent: AgentMetrics,
}

/// The agent's own numbers, set by whoever knows.
#[derive(Clone)]
pub struct AgentMetrics {
    /// The term of the register.
    pub term: IntGauge,
    /// Whether this instance is the primary and open.
    pub is_primary: IntGauge,
    /// Seconds until PostgreSQL would be ended.
    pub fence: Gauge,
    /// Whether the runner is connected.
    pub runner_connected: IntGauge,
    /// How often PostgreSQL ended without being asked.
    pub crashes: prometheus::IntCounter,
    /// 1 for the state that holds.
    pub storage: IntGaugeVec,
}

impl AgentMetrics {
    fn new(registry: &Registry) -> Result<Self, MetricsError> {
        Ok(Self {
            term: whole(
                registry,
                "sampledb_agent_term",
                "The term of the election's register.",
            )?,
            is_primary: whole(
                registry,
                "sampledb_agent_is_primary",
                "1 when this instance takes writes.",
            )?,
            fence: real(
                registry,
                "sampledb_agent_fence_seconds_left",
                "Seconds until the runner ends PostgreSQL unless the agent moves the deadline.",
            )?,
            runner_connected: whole(
                registry,
                "sampledb_agent_runner_connected",
                "1 when the runner is connected.",
            )?,
            crashes: register(
                registry,
                prometheus::IntCounter::new(
                    "sampledb_agent_postgres_crashes_total",
                    "How often PostgreSQL ended without being asked since the agent started.",
                )?,
            )?,
            storage: gauge(
                registry,
                "sampledb_agent_storage_state",
                "1 for the state of the volumes that holds: Ok, BallastUsed or Full.",
                &["state"],
            )?,
        })
    }

    /// Sets the state of the volumes.
    pub fn storage(&self, storage: Storage) {
        for (state, name) in [
            (Storage::Ok, "Ok"),
            (Storage::BallastUsed, "BallastUsed"),
            (Storage::Full, "Full"),
        ] {
            self.storage
                .with_label_values(&[name])
                .set(i64::from(state == storage));
        }
    }
}

fn whole(registry: &Registry, name: &str, help: &str) -> Result<IntGauge, MetricsError> {
    register(registry, IntGauge::with_opts(Opts::new(name, help))?)
}

fn real(registry: &Registry, name: &str, help: &str) -> Result<Gauge, MetricsError> {
    register(registry, Gauge::with_opts(Opts::new(name, help))?)
}

impl Metrics {
    /// All numbers, in `registry`.
    pub fn new(registry: Registry) -> Result<Arc<Self>, MetricsError> {
        let per_database = |name: &str, help: &str| counter(&registry, name, help, &["datname"]);
        let totals = vec![
            per_database(
                "pg_stat_database_xact_commit_total",
                "Transactions that were committed.",
            )?,
            per_database(
                "pg_stat_database_xact_rollback_total",
                "Transactions that were rolled back.",
            )?,
            per_database("pg_stat_database_deadlocks_total", "Deadlocks.")?,
            per_database(
                "pg_stat_database_temp_bytes_total",
                "Bytes written to temporary files.",
            )?,
            per_database(
                "pg_stat_database_blks_read_total",
                "Blocks read from outside the buffer cache.",
            )?,
            per_database(
                "pg_stat_database_blks_hit_total",
                "Blocks found in the buffer cache.",
            )?,
            per_database("pg_stat_database_tup_inserted_total", "Rows inserted.")?,
            per_database("pg_stat_database_tup_updated_total", "Rows updated.")?,
            per_database("pg_stat_database_tup_deleted_total", "Rows deleted.")?,
            per_database("pg_stat_database_tup_returned_total", "Rows read.")?,
        ];
        Ok(Arc::new(Self {
            gathered: Mutex::new(None),
            up: whole(
                &registry,
                "pg_up",
                "1 when PostgreSQL answered the last scrape's queries.",
            )?,
            size: gauge(
                &registry,
                "pg_database_size_bytes",
                "Size of a database on disk.",
                &["datname"],
            )?,
            totals,
            sessions: gauge(
                &registry,
                "pg_stat_activity_sessions",
                "Client sessions by database and state.",
                &["datname", "state"],
            )?,
            in_recovery: whole(&registry, "pg_in_recovery", "1 on a standby.")?,
            wal_position: real(
                &registry,
                "pg_wal_position_bytes",
                "The end of the write-ahead log, in bytes since its beginning.",
            )?,
            started: real(
                &registry,
                "pg_postmaster_start_time_seconds",
                "When PostgreSQL was started, in seconds since 1970.",
            )?,
            pending_restart: whole(
                &registry,
                "pg_settings_pending_restart",
                "Settings that wait for a restart.",
            )?,
            replicas: whole(
                &registry,
                "pg_replication_standbys",
                "Standbys that are connected.",
            )?,
            replication_lag: real(
                &registry,
                "pg_replication_flush_lag_bytes",
                "Bytes of the write-ahead log that the slowest standby was sent and has not flushed.",
            )?,
            inactive_slots: whole(
                &registry,
                "pg_replication_slots_inactive",
                "Replication slots that nobody uses.",
            )?,
            longest_transaction: real(
                &registry,
                "pg_stat_activity_longest_transaction_seconds",
                "Age of the oldest transaction of a client.",
            )?,
            wal_size: whole(&registry, "pg_wal_size_bytes", "Size of the files in pg_wal.")?,
            archived: counter(
                &registry,
                "pg_stat_archiver_segments_total",
                "Segments given to the archive command, by result.",
                &["result"],
            )?,
            max_connections: whole(
                &registry,
                "pg_settings_max_connections",
                "The setting max_connections.",
            )?,
            oldest_xid: whole(
                &registry,
                "pg_database_oldest_xid_age_transactions",
                "Transactions since the oldest one that is not frozen; at about two thousand million writes stop.",
            )?,
            agent: AgentMetrics::new(&registry)?,
            registry,
        }))
    }

    /// The agent's own numbers.
    pub fn agent(&self) -> &AgentMetrics {
        &self.agent
    }

    /// The numbers as text; PostgreSQL is asked at most once a second, whoever scrapes.
    pub async fn text(&self, sql: &Sql, fence: &Fence, runs: bool) -> String {
        {
            let mut gathered = self.gathered.lock().await;
            if gathered.is_none_or(|at| clock::boot_ms().saturating_sub(at) >= FRESH_MS) {
                let asked = async {
                    if !runs {
                        return Err(SqlError::TimedOut(Duration::ZERO));
                    }
                    self.gather(&*sql.client().await?).await
                };
                let answered = tokio::time::timeout(PATIENCE, asked).await;
                self.up.set(i64::from(matches!(answered, Ok(Ok(())))));
                if let (Ok(Err(error)), true) = (&answered, runs) {
                    tracing::debug!(%error, "the numbers of PostgreSQL could not be read");
                }
                *gathered = Some(clock::boot_ms());
            }
        }
        self.agent.fence.set(fence.seconds_left());
        encode(&self.registry)
    }

    async fn gather(&self, client: &Client) -> Result<(), SqlError> {
        let (databases, sessions, server) = tokio::try_join!(
            client.query(DATABASES, &[]),
            client.query(SESSIONS, &[]),
            client.query_one(SERVER, &[])
        )?;
        self.size.reset();
        self.totals.iter().for_each(IntCounterVec::reset);
        for row in &databases {
            let name: &str = row.try_get(0)?;
            self.size.with_label_values(&[name]).set(row.try_get(1)?);
            for (i, total) in self.totals.iter().enumerate() {
                let value: i64 = row.try_get(i + 2)?;
                total
                    .with_label_values(&[name])
                    .inc_by(value.try_into().unwrap_or_default());
            }
        }
        self.sessions.reset();
        for row in &sessions {
            self.sessions
                .with_label_values(&[row.try_get::<_, &str>(0)?, row.try_get(1)?])
                .set(row.try_get(2)?);
        }
        self.in_recovery.set(i64::from(server.try_get::<_, bool>(0)?));
        self.wal_position.set(server.try_get(1)?);
        self.started.set(server.try_get(2)?);
        self.pending_restart.set(server.try_get(3)?);
        self.replicas.set(server.try_get(4)?);
        self.replication_lag.set(server.try_get(5)?);
        self.inactive_slots.set(server.try_get(6)?);
        self.longest_transaction.set(server.try_get(7)?);
        self.wal_size.set(server.try_get(8)?);
        self.archived.reset();
        for (column, result) in [(9, "archived"), (10, "failed")] {
            let value: i64 = server.try_get(column)?;
            self.archived
                .with_label_values(&[result])
                .inc_by(value.try_into().unwrap_or_default());
        }
        self.max_connections.set(server.try_get(11)?);
        self.oldest_xid.set(server.try_get(12)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_metrics_have_one_name() {
        assert!(Metrics::new(Registry::new()).is_ok());
    }
}
