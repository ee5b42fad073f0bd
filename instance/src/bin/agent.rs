//! `sampledb-agent`: the agent beside a PostgreSQL, and the small programs that come in the same binary.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sampledb_instance::agent;
use sampledb_shared::telemetry::logs;

#[derive(Parser)]
#[command(
    name = "sampledb-agent",
    version,
    about = "The agent beside a PostgreSQL of a SampleDB"
)]
struct Arguments {
    /// What is logged: error, warn, info, debug or trace, or target=level pairs.
    #[arg(long, env = "SAMPLEDB_LOG", default_value = "info", global = true)]
    log: String,
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// The agent itself.
    Run(Box<agent::Settings>),
    /// The initial SQL of a new database.
    Init(agent::init::Settings),
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    logs::start("sampledb-agent", &arguments.log)?;
    // An error means that a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // One thread is enough, and costs the least memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match arguments.program {
            Program::Run(settings) => agent::run(*settings).await.map(|()| ExitCode::SUCCESS),
            Program::Init(settings) => Ok(agent::init::run(&settings).await),
        }
    })
}
