//! The one clock of the runner.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds of CLOCK_BOOTTIME: it goes on while the machine is suspended, and agent and runner, on one kernel,
/// read the same.
pub fn now() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    tv_sec.unsigned_abs() * 1000 + tv_nsec.unsigned_abs() / 1_000_000
}

/// A duration for the kernel.
pub fn timespec(milliseconds: u64) -> Timespec {
    Timespec {
        tv_sec: (milliseconds / 1000) as i64,
        tv_nsec: ((milliseconds % 1000) * 1_000_000) as i64,
    }
}
