//! What a person does, with kubectl, helm and psql, on a real cluster.
//!
//! The harness only runs those programs and waits for what they show; it knows nothing of the suite's code. It
//! expects `KUBECONFIG` of a cluster with the chart installed (`make e2e` sees to that).

// A test harness ends a test by panicking.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod cluster;
pub mod database;
pub mod processes;
mod wait;

pub use cluster::{Namespace, helm, kubectl, kubectl_in, try_kubectl};
pub use database::{Client, Database, condition};
pub use processes::processes;
pub use wait::{eventually, within};

/// The namespace of the release.
pub const RELEASE_NAMESPACE: &str = "sampledb-system";
/// The image of the PostgreSQL clients in the tests: the one the catalogue names for the default major.
pub fn postgres_image() -> String {
    std::env::var("SAMPLEDB_TEST_POSTGRES_IMAGE").unwrap_or_else(|_| "localhost/sampledb/postgres:17".into())
}
