//! What PostgreSQL's own files and programs say, as values: no process is started and no clock is read here.

pub mod control_data;
pub mod log_line;
pub mod lsn;
pub mod programs;
pub mod version;
