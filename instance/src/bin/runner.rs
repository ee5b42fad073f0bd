//! `sampledb-runner`: PID 1 of the PostgreSQL container.
//!
//! `sampledb-runner [--flag value]…` runs. `sampledb-runner inject <folder>` copies the binary there.
//! `sampledb-runner archive <path> <file>` is PostgreSQL's archive command: it succeeds, and keeps nothing, as long
//! as no repository is set.

use std::process::ExitCode;

use sampledb_instance::runner::options::Options;
use sampledb_instance::runner::{self, inject};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let done = match arguments.peek().map(String::as_str) {
        Some("inject") => {
            let folder = arguments.nth(1).unwrap_or_default();
            std::env::current_exe()
                .map_err(|e| e.to_string())
                .and_then(|own| inject::inject(&own, folder.as_ref()).map_err(|e| e.to_string()))
                .map(|_| ())
        }
        Some("archive") => Ok(()),
        Some(runner::BECOME) => Err(runner::become_program(arguments.skip(1)).to_string()),
        _ => Options::parse(arguments)
            .map_err(|e| e.to_string())
            .map(|options| match std::env::var("SAMPLEDB_HAS_WAL").as_deref() {
                Ok("false") => Options { wal: None, ..options },
                _ => options,
            })
            .and_then(|options| runner::run(options).map_err(|e| e.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sampledb-runner: {error}");
            ExitCode::FAILURE
        }
    }
}
