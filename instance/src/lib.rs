//! What runs inside a database pod: the **agent**, which thinks, and the **runner**, which acts.
//!
//! The runner is PID 1 of the PostgreSQL container and owns the postgres child; it obeys the agent over a unix
//! socket ([`control`]) and lets postgres run only until a deadline that the agent keeps extending.

pub mod agent;
pub mod control;
pub mod election;
pub mod postgres;
pub mod runner;
