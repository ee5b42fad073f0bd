//! `sampledb-provisioner`: makes everything a SampleDB consists of.

use clap::Parser;
use sampledb_provisioner::{Provisioner, Settings};
use sampledb_shared::runtime::{self, Options};

/// Makes everything a SampleDB consists of, and keeps it as it should be.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    settings: Settings,
}

fn main() -> anyhow::Result<()> {
    let Arguments { options, settings } = Arguments::parse();
    runtime::run(Provisioner { settings }, options)
}
