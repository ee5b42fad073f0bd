//! The runtime as a whole: against an API server in memory (`promises`, `leadership`) and a real one (`real`).

mod fake;
mod leadership;
mod process;
mod promises;
mod real;
mod sample;
