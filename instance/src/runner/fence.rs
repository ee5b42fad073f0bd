//! The watchdog: PostgreSQL lives only until a deadline that the agent keeps extending.
//!
//! A thread of its own waits on a kernel timer on CLOCK_BOOTTIME and does nothing else: neither a disk that hangs
//! under the runner's main loop, nor a log that nobody reads, nor the agent delays it.
//!
//! # Guarantees
//! Once the deadline has passed, nothing extends it any more: all descendants get SIGQUIT at once, what is left
//! gets SIGKILL at half the budget, and again until [`Fence::disarm`] says that they are gone.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::{clock, family};

/// The watchdog.
#[derive(Clone, Debug)]
pub struct Fence {
    timer: Arc<OwnedFd>,
    armed: Arc<Mutex<Armed>>,
    stop_budget: u64,
}

#[derive(Debug, Default)]
struct Armed {
    until: Option<u64>,
    fired: bool,
    /// The latest deadline that was named, whether anything ran then or not.
    latest: u64,
}

/// The deadline has passed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not started: the deadline that came with the command passed {late} ms ago")]
pub struct TooLate {
    /// Milliseconds.
    pub late: u64,
}

impl Fence {
    /// Starts the thread. `stop_budget`: milliseconds from the deadline until everything must be gone.
    pub fn start(stop_budget: u64) -> std::io::Result<Self> {
        let timer = Arc::new(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?);
        let fence = Self {
            timer,
            armed: Arc::default(),
            stop_budget,
        };
        let of_thread = fence.clone();
        std::thread::Builder::new()
            .name("fence".into())
            .stack_size(128 << 10)
            .spawn(move || of_thread.watch())?;
        Ok(fence)
    }

    /// A start that is to come will have this deadline, unless a later word changes it.
    pub fn name(&self, until: u64) {
        self.lock().latest = until;
    }

    /// Before PostgreSQL is started: the deadline is the one named last.
    pub fn arm(&self, now: u64) -> Result<(), TooLate> {
        let mut armed = self.lock();
        let until = armed.latest;
        if until <= now {
            return Err(TooLate { late: now - until });
        }
        *armed = Armed {
            until: Some(until),
            fired: false,
            latest: until,
        };
        self.set(until);
        Ok(())
    }

    /// Moves the deadline; the latest word counts. Without effect on what runs when it comes too late.
    pub fn extend(&self, until: u64, now: u64) {
        let mut armed = self.lock();
        armed.latest = until;
        let in_time = armed.until.is_some_and(|present| now < present);
        if in_time && !armed.fired {
            armed.until = Some(until);
            self.set(until);
        }
    }

    /// PostgreSQL and all that it started are gone. Says whether it was the fence that ended them.
    pub fn disarm(&self) -> bool {
        let mut armed = self.lock();
        let fired = armed.fired;
        *armed = Armed {
            latest: armed.latest,
            ..Armed::default()
        };
        self.set(0);
        fired
    }

    /// Whether the deadline has passed.
    fn fired(&self) -> bool {
        self.lock().fired
    }

    fn lock(&self) -> MutexGuard<'_, Armed> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// 0 stops the timer. The kernel refuses only malformed times.
    fn set(&self, until: u64) {
        let value = Itimerspec {
            it_interval: clock::timespec(0),
            it_value: clock::timespec(until),
        };
        let _ = timerfd_settime(&*self.timer, TimerfdTimerFlags::ABSTIME, &value);
    }

    fn watch(&self) {
        let mut expirations = [0_u8; 8];
        loop {
            if rustix::io::read(&*self.timer, &mut expirations).is_ok() {
                self.passed();
            }
        }
    }

    fn passed(&self) {
        let since = clock::now();
        {
            let mut armed = self.lock();
            if armed.until.is_none_or(|until| until > since) {
                return;
            }
            armed.fired = true;
        }
        signal_all(Signal::QUIT);
        while self.fired() {
            let waited = clock::now().saturating_sub(since);
            if waited >= self.stop_budget / 2 {
                signal_all(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(if waited > 10 * self.stop_budget {
                50
            } else {
                5
            }));
        }
    }
}

fn signal_all(signal: Signal) {
    for pid in family::mine(&[]).unwrap_or_default() {
        family::signal(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_word_never_revives_a_database_whose_deadline_has_passed() {
        let fence = Fence::start(200).unwrap();
        let now = clock::now();
        fence.name(now - 5);
        assert_eq!(fence.arm(now), Err(TooLate { late: 5 }));
        fence.name(now + 60_000);
        fence.arm(now).unwrap();
        fence.extend(now + 120_000, now + 60_000);
        assert_eq!(
            fence.lock().until,
            Some(now + 60_000),
            "the deadline had passed when the word arrived"
        );
        fence.extend(now + 120_000, now);
        assert_eq!(fence.lock().until, Some(now + 120_000));
        fence.lock().fired = true;
        fence.extend(now + 180_000, now);
        assert_eq!(fence.lock().until, Some(now + 120_000));
        assert!(fence.disarm());
        assert!(!fence.disarm());
        fence.extend(now + 180_000, now);
        assert_eq!(fence.lock().until, None, "nothing runs, so nothing is extended");
        fence.arm(now).unwrap();
        assert_eq!(
            fence.lock().until,
            Some(now + 180_000),
            "a restart under way is given the latest word"
        );
        fence.disarm();
    }
}
