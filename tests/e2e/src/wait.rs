//! Waiting for a condition, never for a time.

use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Calls `look` until it answers `Ok`, for `seconds` at the most; panics with its last `Err` then.
#[allow(clippy::disallowed_methods, reason = "a test waits on the real clock")]
pub fn within<T, E: Debug>(seconds: u64, what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        match look() {
            Ok(value) => return value,
            Err(last) if Instant::now() > end => {
                panic!("{what}: not within {seconds} s; last seen: {last:?}")
            }
            Err(_) => sleep(Duration::from_millis(300)),
        }
    }
}

/// [`within`] three minutes, which a busy machine of two cores may need.
pub fn eventually<T, E: Debug>(what: &str, look: impl FnMut() -> Result<T, E>) -> T {
    within(180, what, look)
}
