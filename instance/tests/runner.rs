//! The runner with a real PostgreSQL; the test plays the agent.
//!
//! Needs PostgreSQL's programs in /usr/lib/postgresql/*/bin, or SAMPLEDB_PG_BIN. As root, PostgreSQL runs as the
//! user `postgres` or `nobody`.
#![allow(clippy::disallowed_methods, reason = "tests measure time")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "runner/agent.rs"]
mod agent;
#[path = "runner/configuring.rs"]
mod configuring;
#[path = "runner/ending.rs"]
mod ending;
#[path = "runner/making.rs"]
mod making;
#[path = "runner/stage.rs"]
mod stage;
