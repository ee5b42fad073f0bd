//! The agent: the election, the API, probes, metrics, SQL. It thinks; the runner acts.
//!
//! One thread. [`member`] is the loop that drives the election and has the runner act; beside it stand tasks that
//! must not wait for it or make it wait: the deadline ([`fence`]), the watches, the slice ([`routing`]), the status
//! ([`report`]) and HTTP ([`health`]).

mod admission;
mod backoff;
pub mod clock;
mod cluster;
mod configuration;
mod fence;
mod health;
pub mod init;
mod link;
mod member;
mod metrics;
mod notes;
mod owner;
mod report;
mod routing;
mod seen;
mod settings;
mod slice;
mod sql;
mod state_file;
mod tls;
mod transaction_ends;
mod watches;

use std::sync::Arc;

use anyhow::Context;
use sampledb_shared::domain::names::{self, paths};
use sampledb_shared::runtime::client;
use sampledb_shared::telemetry::metrics::{Requests, registry};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub use settings::Settings;

/// Runs the agent until the pod ends.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let ordinal = settings.ordinal()?;
    let settings = Arc::new(settings);
    let mut terminated = signal(SignalKind::terminate())?;

    // The socket first: the startup probe waits for it, and it needs no API server.
    let socket = settings.at(paths::RUNNER_SOCKET);
    let key = settings.file(paths::AGENT_STATE, "runner.key");
    let runner = link::listen(&socket, key, settings.runner_uid)
        .with_context(|| format!("listening on {}", socket.display()))?;

    let registry = registry()?;
    let requests = Requests::new(&registry)?;
    let metrics = metrics::Metrics::new(registry)?;
    let fence = fence::Fence::default();
    let sql = Arc::new(sql::Sql::new(Arc::clone(&settings)));
    let health = health::Health::new(fence.clone(), Arc::clone(&sql), Arc::clone(&metrics));
    let port = settings.metrics_port;
    let http = Arc::clone(&health);
    tokio::spawn(async move {
        if let Err(error) = health::serve(port, http).await {
            tracing::error!(%error, port, "metrics and probes are not served");
        }
    });
    tokio::spawn(fence.clone().run(runner.clone()));

    let client = client::connect("sampledb-agent", requests).context("the API server's client")?;
    let cluster = cluster::Cluster::new(client, Arc::clone(&settings), ordinal);
    let pod = settings.pod.clone();
    let databases = watches::object(cluster.databases(), &settings.name, move |row| {
        seen::Database::of(row, &pod)
    });
    let uid = settings.uid.clone();
    let configurations = watches::object(
        cluster.configurations(),
        &names::config(&settings.name),
        move |map| seen::configuration(&map, &uid),
    );
    let slices = watches::object(cluster.slices(), &names::rw(&settings.name), |slice| slice);
    let routing = routing::Routing::start(cluster.clone(), slices);
    let (say, said) = watch::channel(report::Said {
        instance: None,
        standing: report::Standing::Silent,
    });
    let (tell, reported) = watch::channel(report::Standing::Silent);
    tokio::spawn(report::run(cluster.clone(), databases.clone(), said, tell));

    let notes = notes::Notes::new(cluster.clone());
    let parts = member::Parts {
        cluster,
        runner,
        fence,
        sql,
        health,
        notes,
        routing,
        say,
        reported,
        databases,
        configurations,
    };
    let mut member = member::Loop::new(parts)?;
    tokio::select! {
        () = member.run() => {}
        _ = terminated.recv() => {}
    }
    tracing::info!("the agent was told to end");
    member.end().await;
    Ok(())
}
