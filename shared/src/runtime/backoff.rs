//! How long to wait after a failure: pure, with jitter from what is retried instead of a random number.

use std::time::Duration;

/// The first pause after a failure.
pub const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
pub const CEILING: Duration = Duration::from_mins(1);

/// The pause after the `attempts`-th failure in a row (from 1): twice as long each time up to `ceiling`, spread by
/// `seed` over 75 % to 125 % so that what failed together is not retried together. Never longer than `ceiling`.
pub fn pause(attempts: u32, first: Duration, ceiling: Duration, seed: u64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(24);
    let base = first.saturating_mul(1 << doublings).min(ceiling);
    spread(base, 0.25, seed ^ u64::from(attempts)).min(ceiling)
}

/// `base`, up to `share` shorter or longer.
pub fn spread(base: Duration, share: f64, seed: u64) -> Duration {
    let unit = (mixed(seed) >> 11) as f64 / (1u64 << 53) as f64;
    base.mul_f64(1.0 + share * (2.0 * unit - 1.0))
}

/// Every bit of the result depends on every bit of the seed (the finaliser of SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_object_is_tried_ever_later_but_at_least_once_a_minute() {
        let pauses: Vec<_> = (1..=12).map(|n| pause(n, FIRST, CEILING, 7)).collect();
        for (n, found) in pauses.iter().enumerate() {
            let base = FIRST.mul_f64(f64::from(1u32 << n)).min(CEILING);
            assert!(
                *found >= base.mul_f64(0.75) && *found <= base.mul_f64(1.25).min(CEILING),
                "{n}: {found:?}"
            );
        }
        assert!(pause(u32::MAX, FIRST, CEILING, 7) <= CEILING);
    }

    #[test]
    fn objects_that_failed_together_are_not_retried_together() {
        let pauses: std::collections::BTreeSet<_> =
            (0..100).map(|seed| pause(6, FIRST, CEILING, seed)).collect();
        assert!(pauses.len() > 95);
    }
}
