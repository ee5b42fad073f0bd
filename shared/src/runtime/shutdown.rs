//! The signals that end a process.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the process is told to end (SIGTERM or SIGINT).
pub async fn told() -> std::io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}
