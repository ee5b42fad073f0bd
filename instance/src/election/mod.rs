//! election
