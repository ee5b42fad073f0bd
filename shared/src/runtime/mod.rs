//! The controller wrapper: watches, queue, backoff, apply, status, lease, events.
//!
//! A controller implements [`Controller`]; [`run`] does the rest. The flow of one pass:
//! `observe` (reads) → `decide` (pure) → apply → `report` (pure) → status → events.
//!
//! Watches only *wake*; every pass reads for itself, never older than what woke it or what it wrote ([`freshness`]).
//! A controller keeps no copy of the cluster in memory.

pub mod backoff;
pub mod client;
pub mod crds;
pub mod entropy;
pub mod events;
pub mod freshness;
pub mod lease;
pub mod options;
pub mod plan;
pub mod presence;
pub mod queue;
pub mod reader;
pub mod shutdown;
pub mod status;
pub mod trigger;

mod additions;
mod apply;
mod memory;
mod pass;
mod serve;
mod state;
mod trust;
mod watches;
mod workers;

#[cfg(test)]
mod tests;

pub use entropy::Sensitive;
pub use options::Options;
pub use plan::{Applied, Controller, Desired, Doomed, Error, ErrorClass, Note, Plan, Refusal, Report, Seen};
pub use reader::{Readable, Reader};

use anyhow::Context;

/// Runs a controller until it is told to end (SIGTERM), and ends in order: no new pass, the running ones finished,
/// the Lease given back. It is all that a controller's `main` does after it has read its arguments:
///
/// ```ignore
/// fn main() -> anyhow::Result<()> {
///     sampledb_shared::runtime::run(Provisioner::default(), Options::parse())
/// }
/// ```
///
/// # Errors
/// What keeps a controller from starting (arguments, no way to the API server, a taken port), and the loss of its
/// Lease: the process is to end then, because another may be working already.
pub fn run<C: Controller>(controller: C, options: Options) -> anyhow::Result<()> {
    if tokio::runtime::Handle::try_current().is_ok() {
        anyhow::bail!("`run` starts the async runtime itself: call it from a plain `fn main`");
    }
    crate::telemetry::logs::start(C::WRITER.manager, &options.log_level)?;
    options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        // Timers and sockets are looked at between any two steps, so that long ones cannot hold up the Lease.
        .event_interval(1)
        .thread_stack_size(512 << 10)
        .build()
        .context("the async runtime could not be started")?;
    tracing::info!(event = "starting", version = env!("CARGO_PKG_VERSION"), options = ?options, "starting");
    let result = runtime.block_on(serve::serve(controller, options));
    runtime.shutdown_background();
    match &result {
        Ok(()) => tracing::info!(event = "ended", "ended in order"),
        Err(error) => tracing::error!(
            event = "ended",
            error = format!("{error:#}"),
            "ended because of an error"
        ),
    }
    result
}
