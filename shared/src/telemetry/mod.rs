//! Metrics, logs and the HTTP server of every binary. It knows nothing of a SampleDB.

pub mod http;
pub mod logs;
pub mod metrics;
