//! What every SampleDB binary has in common.
//!
//! Dependencies point one way: `api ← domain ← runtime ← controllers`. `telemetry` stands beside them and
//! knows nothing of a SampleDB.

pub mod api;
pub mod domain;
pub mod runtime;
pub mod telemetry;
