//! How soon PostgreSQL is started again.

/// The longest pause.
const LONGEST_MS: u64 = 10_000;
/// After running for so long a failure is a new one.
const FORGIVEN_MS: u64 = 60_000;

/// Counts failures in a row. The first is answered at once, then after 100 ms, doubling to 10 s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    started: Option<u64>,
}

impl Backoff {
    /// It runs since `now`.
    pub fn started(&mut self, now: u64) {
        self.started = Some(now);
    }

    /// It failed; until when it is left alone.
    pub fn failed(&mut self, now: u64) -> u64 {
        if self
            .started
            .take()
            .is_some_and(|at| now.saturating_sub(at) >= FORGIVEN_MS)
        {
            self.failures = 0;
        }
        let pause = match self.failures {
            0 => 0,
            n => (100 << (n - 1).min(7)).min(LONGEST_MS),
        };
        self.failures = self.failures.saturating_add(1);
        now + pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_crash_costs_no_pause_and_a_crash_loop_no_storm() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..10).map(|_| backoff.failed(1000) - 1000).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        backoff.started(1000);
        assert_eq!(backoff.failed(5000) - 5000, 10_000);
        backoff.started(5000);
        assert_eq!(backoff.failed(70_000) - 70_000, 0);
    }
}
