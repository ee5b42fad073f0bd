//! The life of the postgres child, as a state machine without clock or process.
//!
//! It is over only when everything that PostgreSQL started is gone, not when the postmaster is: a backend whose
//! postmaster was killed can go on, and commit.

use rustix::process::{Signal, WaitStatus};

use crate::control::{Postgres, StopMode};

/// After a fast stop was asked for by the end of the container, this much later it becomes an immediate one;
/// milliseconds.
pub const PATIENCE_AT_END: u64 = 70_000;

/// The postgres child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// Nothing runs.
    Down {
        /// Why, when it was not asked for.
        error: Option<String>,
    },
    /// Started.
    Starting {
        /// The postmaster.
        pid: i32,
    },
    /// Takes connections.
    Up {
        /// The postmaster.
        pid: i32,
    },
    /// On its way down.
    Ending(Ending),
}

/// On its way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The postmaster; absent once it is gone.
    pub pid: Option<i32>,
    /// Whether it was asked to stop.
    pub asked: bool,
    /// Whether it was ready before.
    pub was_up: bool,
    /// How the postmaster ended.
    pub how: Option<String>,
    quit_at: Option<u64>,
    kill_at: Option<u64>,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Wait,
    /// Send a signal to the postmaster.
    Signal(i32, Signal),
    /// Kill what is left, and look again; nothing left means that it is over.
    Sweep,
}

impl Server {
    /// The postmaster, while there is one.
    pub fn pid(&self) -> Option<i32> {
        match self {
            Self::Down { .. } => None,
            Self::Starting { pid } | Self::Up { pid } => Some(*pid),
            Self::Ending(ending) => ending.pid,
        }
    }

    /// Asks for a stop. `half_budget`: milliseconds from an immediate stop to SIGKILL; `patience`: milliseconds
    /// after which a fast stop becomes an immediate one.
    pub fn stop(&mut self, mode: StopMode, now: u64, half_budget: u64, patience: Option<u64>) -> Act {
        let (pid, was_up) = match self {
            Self::Down { .. } => return Act::Wait,
            Self::Starting { pid } => (Some(*pid), false),
            Self::Up { pid } => (Some(*pid), true),
            Self::Ending(ending) => (ending.pid, ending.was_up),
        };
        let quit_at = patience.map(|patience| now + patience);
        if !matches!(self, Self::Ending(_)) {
            *self = Self::Ending(Ending {
                pid,
                asked: true,
                was_up,
                how: None,
                quit_at,
                kill_at: None,
            });
        }
        let (Self::Ending(ending), Some(pid)) = (&mut *self, pid) else {
            return Act::Wait;
        };
        match mode {
            StopMode::Fast => {
                ending.quit_at = ending.quit_at.or(quit_at);
                Act::Signal(pid, Signal::INT)
            }
            StopMode::Immediate => {
                ending.quit_at = None;
                ending.kill_at = Some(now + half_budget);
                Act::Signal(pid, Signal::QUIT)
            }
        }
    }

    /// The postmaster takes connections.
    pub fn ready(&mut self) {
        if let Self::Starting { pid } = *self {
            *self = Self::Up { pid };
        }
    }

    /// A child was reaped; whether it was the postmaster.
    pub fn reaped(&mut self, pid: i32, how: String) -> bool {
        if self.pid() != Some(pid) {
            return false;
        }
        let was_up = matches!(self, Self::Up { .. });
        match self {
            Self::Ending(ending) => {
                ending.pid = None;
                ending.how = Some(how);
            }
            _ => {
                *self = Self::Ending(Ending {
                    pid: None,
                    asked: false,
                    was_up,
                    how: Some(how),
                    quit_at: None,
                    kill_at: None,
                });
            }
        }
        true
    }

    /// What time asks for.
    pub fn due(&mut self, now: u64, half_budget: u64) -> Act {
        let Self::Ending(ending) = self else {
            return Act::Wait;
        };
        let Some(pid) = ending.pid else { return Act::Sweep };
        if ending.kill_at.is_some_and(|at| at <= now) {
            return Act::Sweep;
        }
        if ending.quit_at.take_if(|at| *at <= now).is_some() {
            ending.kill_at = Some(now + half_budget);
            return Act::Signal(pid, Signal::QUIT);
        }
        Act::Wait
    }

    /// What the agent sees.
    pub fn seen(&self) -> Postgres {
        match self {
            Self::Down { error } => Postgres::Stopped { error: error.clone() },
            Self::Starting { .. } => Postgres::Starting,
            Self::Up { .. } => Postgres::Running,
            Self::Ending(_) => Postgres::Stopping,
        }
    }
}

/// How a process ended, for a person.
pub fn how(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Whether the postmaster `pid` says in its `postmaster.pid` that it takes connections. A file of an earlier
/// postmaster says nothing.
pub fn says_ready(postmaster_pid: &str, pid: i32) -> bool {
    let mut lines = postmaster_pid.lines();
    lines.next().and_then(|line| line.trim().parse().ok()) == Some(pid)
        && lines.nth(6).is_some_and(|status| status.trim() == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up() -> Server {
        Server::Up { pid: 20 }
    }

    #[test]
    fn a_stopped_database_is_reported_only_when_its_last_process_is_gone() {
        let mut server = up();
        assert_eq!(
            server.stop(StopMode::Fast, 0, 100, None),
            Act::Signal(20, Signal::INT)
        );
        assert_eq!(server.due(1_000_000, 100), Act::Wait);
        assert!(server.reaped(20, "ended".into()));
        assert_eq!(server.seen(), Postgres::Stopping);
        assert_eq!(server.due(1_000_001, 100), Act::Sweep);
    }

    #[test]
    fn an_immediate_stop_that_hangs_is_killed_at_half_the_budget() {
        let mut server = up();
        assert_eq!(
            server.stop(StopMode::Immediate, 0, 100, None),
            Act::Signal(20, Signal::QUIT)
        );
        assert_eq!(server.due(99, 100), Act::Wait);
        assert_eq!(server.due(100, 100), Act::Sweep);
    }

    #[test]
    fn the_end_of_the_pod_does_not_wait_longer_than_the_grace_period() {
        let mut server = up();
        server.stop(StopMode::Fast, 0, 100, Some(PATIENCE_AT_END));
        assert_eq!(server.due(PATIENCE_AT_END - 1, 100), Act::Wait);
        assert_eq!(server.due(PATIENCE_AT_END, 100), Act::Signal(20, Signal::QUIT));
        assert_eq!(server.due(PATIENCE_AT_END + 1, 100), Act::Wait);
        assert_eq!(server.due(PATIENCE_AT_END + 100, 100), Act::Sweep);
    }

    #[test]
    fn a_fast_stop_that_takes_too_long_can_be_hurried() {
        let mut server = up();
        server.stop(StopMode::Fast, 0, 100, None);
        assert_eq!(
            server.stop(StopMode::Immediate, 50, 100, None),
            Act::Signal(20, Signal::QUIT)
        );
        assert_eq!(server.due(150, 100), Act::Sweep);
    }

    #[test]
    fn a_crash_is_told_from_a_stop() {
        let mut server = up();
        assert!(!server.reaped(21, "an orphan".into()));
        assert!(server.reaped(20, "was ended by signal 9".into()));
        let Server::Ending(ending) = &server else {
            panic!("{server:?}")
        };
        assert!(!ending.asked && ending.was_up);
    }

    #[test]
    fn a_database_is_not_called_ready_for_the_sake_of_an_older_one() {
        let file = "20\n/data/pgdata\n1764583200\n5432\n/run/postgresql\n*\n  123 456\nready   \n";
        assert!(says_ready(file, 20));
        assert!(!says_ready(file, 21));
        assert!(!says_ready(&file.replace("ready   ", "starting"), 20));
        assert!(!says_ready(&file.replace("ready   ", "standby "), 20));
        assert!(!says_ready("20\n", 20));
    }
}
