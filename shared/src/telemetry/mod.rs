//! Metrics, logs, HTTP.
