//! The controller wrapper: watches, queue, backoff, apply, status, lease, events.
//!
//! A controller implements [`Controller`]; [`run`] does the rest. The flow of one pass:
//! `observe` (reads) → `decide` (pure) → apply → `report` (pure) → status → events.
//!
//! Watches only *wake*; every read of a pass is live. So no decision is ever made from a stale cache, and a
//! controller keeps no copy of the cluster in memory.

pub mod plan;
pub mod reader;

pub use reader::Reader;
pub use plan::{Applied, Controller, Desired, Doomed, Error, ErrorClass, Note, Plan, Refusal, Report, Seen};
