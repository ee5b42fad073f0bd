//! Reads the arguments and starts the shared runtime.

use clap::Parser;
use sampledb_service_publisher::ServicePublisher;
use sampledb_service_publisher::settings::Settings;
use sampledb_shared::runtime::{self, Options};

/// Tells clients where each database is: Services, connection Secret and ConfigMap.
#[derive(Debug, Parser)]
#[command(name = "sampledb-service-publisher", version)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<()> {
    let Arguments { settings, options } = Arguments::parse();
    runtime::run(ServicePublisher { settings }, options)
}
