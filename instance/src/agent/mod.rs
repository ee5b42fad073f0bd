//! The agent: thinks, and has the runner act.
