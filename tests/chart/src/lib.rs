//! Tests of the Helm chart, by rendering it: no cluster is needed.
//!
//! They need `helm` (version 3 or 4): in the environment variable `HELM`, or on the PATH.

pub mod helm;
pub mod kinds;
pub mod restricted;
