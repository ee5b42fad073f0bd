//! The kinds: one file a kind, one file a status section. No IO and no clock.

pub mod bootstrap;
pub mod conditions;
pub mod election;
pub mod endpoints;
pub mod instances;
pub mod ownership;
pub mod postgres;
pub mod provisioning;
pub mod sampledb;
pub mod scheduling;
pub mod services;
pub mod storage;

pub use sampledb::{Phase, SampleDb, SampleDbSpec, SampleDbStatus};

/// The API group of every kind of the suite.
pub const GROUP: &str = "sampledb.dev";
/// The version every kind is served and stored at.
pub const VERSION: &str = "v1";
