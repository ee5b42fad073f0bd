//! The two clocks of the agent.

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of CLOCK_BOOTTIME: counts on while the machine sleeps, is never set, and is the same for agent and
/// runner.
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The time of day, for what people read.
#[allow(
    clippy::disallowed_methods,
    reason = "the agent is one of the three places that may read a clock"
)]
pub fn wall() -> Timestamp {
    Timestamp::now()
}
