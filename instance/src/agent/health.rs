//! The agent's HTTP: `/metrics` and the probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use sampledb_shared::telemetry::http::{ListenError, Server};
use sampledb_shared::telemetry::metrics::CONTENT_TYPE;

use super::clock;
use super::fence::Fence;
use super::metrics::Metrics;
use super::sql::Sql;

/// Without a heartbeat for so long the loop is stuck, and only a restart helps.
const STUCK_MS: u64 = 30_000;
/// A ready database answers within this time.
const ANSWER: Duration = Duration::from_secs(1);

/// What the probes are told from.
pub struct Health {
    beat: AtomicU64,
    open: AtomicBool,
    runs: AtomicBool,
    /// The deadline.
    pub fence: Fence,
    /// The connection.
    pub sql: Arc<Sql>,
    /// The numbers.
    pub metrics: Arc<Metrics>,
}

impl Health {
    /// Alive from now on.
    pub fn new(fence: Fence, sql: Arc<Sql>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            beat: AtomicU64::new(clock::boot_ms()),
            open: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            fence,
            sql,
            metrics,
        })
    }

    /// The loop goes round.
    pub fn beat(&self) {
        self.beat.store(clock::boot_ms(), Ordering::Relaxed);
    }

    /// Whether PostgreSQL runs, and whether it is open to clients.
    pub fn set(&self, runs: bool, open: bool) {
        self.runs.store(runs, Ordering::Relaxed);
        self.open.store(open, Ordering::Relaxed);
    }

    fn alive(&self) -> bool {
        clock::boot_ms().saturating_sub(self.beat.load(Ordering::Relaxed)) < STUCK_MS
    }

    async fn ready(&self) -> Result<(), String> {
        if !self.open.load(Ordering::Relaxed) {
            return Err("the database is not open to clients".to_owned());
        }
        if self.fence.term().is_none() {
            return Err("this instance may not take writes".to_owned());
        }
        self.sql.answers(ANSWER).await.map_err(|error| error.to_string())
    }
}

/// The routes.
pub fn router(health: Arc<Health>) -> Router {
    let answer = |result: Result<(), String>| match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    Router::new()
        .route("/startupz", get(|| async { "the runner's socket listens\n" }))
        .route(
            "/livez",
            get(move |State(health): State<Arc<Health>>| async move {
                answer(if health.alive() {
                    Ok(())
                } else {
                    Err("the agent's loop is stuck".to_owned())
                })
            }),
        )
        .route(
            "/readyz",
            get(move |State(health): State<Arc<Health>>| async move { answer(health.ready().await) }),
        )
        .route(
            "/metrics",
            get(|State(health): State<Arc<Health>>| async move {
                let runs = health.runs.load(Ordering::Relaxed);
                let text = health.metrics.text(&health.sql, &health.fence, runs).await;
                ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
            }),
        )
        .with_state(health)
}

/// Serves for ever.
pub async fn serve(port: u16, health: Arc<Health>) -> Result<(), ListenError> {
    let server = Server::listen(port).await?;
    server.serve_routes(router(health), std::future::pending()).await;
    Ok(())
}
