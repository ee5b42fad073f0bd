//! What goes to the container's output: PostgreSQL's own lines as they are, the runner's as JSON; and the end of
//! PostgreSQL's log for whoever asks why it ended.
//!
//! # Guarantees
//! Writing never blocks: when nobody reads the container's output, PostgreSQL is made to wait, not the runner.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::postgres::log_line;

/// Lines that are kept for an error report.
const LINES: usize = 20;
/// Bytes of a line that are kept.
const LINE: usize = 512;
/// Bytes that wait to be written before PostgreSQL's are no longer read.
const WAITING: usize = 256 << 10;
/// What a pipe takes without blocking once it is writable.
const CHUNK: usize = 4096;

/// The end of a log, without what could be somebody's data.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    keeping: bool,
}

impl Tail {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes the next line. Statements, and the errors of sessions with their values, are left out: they belong to
    /// the log, not to a status that more people can read.
    pub fn push(&mut self, line: &str) {
        let severity = [
            "PANIC:  ",
            "FATAL:  ",
            "LOG:  ",
            "WARNING:  ",
            "ERROR:  ",
            "STATEMENT:  ",
            "CONTEXT:  ",
            "QUERY:  ",
        ]
        .into_iter()
        .find(|severity| line.contains(severity));
        let speaks_of_a_statement = ["statement: ", "duration: ", "execute ", "parameters: "]
            .iter()
            .any(|w| line.contains(w));
        self.keeping = match severity {
            Some("PANIC:  " | "FATAL:  " | "WARNING:  ") => true,
            Some("LOG:  ") => !speaks_of_a_statement,
            Some(_) => false,
            None if line.starts_with('\t') || line.contains("DETAIL:  ") || line.contains("HINT:  ") => {
                self.keeping
            }
            None => !line.trim().is_empty(),
        };
        if self.keeping {
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines
                .push_back(log_line::from_severity(line).chars().take(LINE).collect());
        }
    }

    /// The lines, oldest first.
    pub fn text(&self) -> String {
        self.lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// How much a line of the runner's own matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something happened.
    Info,
    /// Somebody should look.
    Warn,
}

/// The container's output.
#[derive(Debug)]
pub struct Log {
    from_postgres: OwnedFd,
    for_postgres: OwnedFd,
    part: Vec<u8>,
    waiting: VecDeque<u8>,
    /// The end of PostgreSQL's log.
    pub tail: Tail,
}

impl Log {
    /// Opens the pipe that PostgreSQL writes to.
    pub fn open() -> std::io::Result<Self> {
        let (from_postgres, for_postgres) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&from_postgres, true)?;
        Ok(Self {
            from_postgres,
            for_postgres,
            part: Vec::new(),
            waiting: VecDeque::new(),
            tail: Tail::default(),
        })
    }

    /// An end of the pipe for a program that is started.
    pub fn stdio(&self) -> std::io::Result<Stdio> {
        Ok(self.for_postgres.try_clone()?.into())
    }

    /// Readable when PostgreSQL wrote something; `None` while too much waits.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        (self.waiting.len() < WAITING).then(|| self.from_postgres.as_fd())
    }

    /// Whether something waits to be written to standard error.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes over what PostgreSQL wrote.
    pub fn read(&mut self) {
        let mut bytes = [0; CHUNK];
        while self.waiting.len() < WAITING {
            let Ok(count @ 1..) = rustix::io::read(&self.from_postgres, &mut bytes) else {
                return;
            };
            for byte in &bytes[..count] {
                self.part.push(*byte);
                if *byte == b'\n' || self.part.len() >= 2 * CHUNK {
                    self.tail
                        .push(String::from_utf8_lossy(&self.part).trim_end_matches('\n'));
                    self.waiting.extend(self.part.drain(..));
                }
            }
        }
    }

    /// Says something in the runner's own name. Never a password, a verifier or a key.
    pub fn say(&mut self, level: Level, message: &str) {
        if self.waiting.len() > 2 * WAITING {
            return;
        }
        let level = match level {
            Level::Info => "info",
            Level::Warn => "warn",
        };
        #[allow(clippy::disallowed_methods, reason = "the runner's log carries the time")]
        let time = jiff::Timestamp::now();
        let line = serde_json::json!({
            "timestamp": format!("{time:.3}"), "level": level, "logger": "runner", "message": message,
        });
        self.waiting.extend(format!("{line}\n").as_bytes());
    }

    /// Writes what standard error takes without blocking; true when nothing is left.
    pub fn flush(&mut self) -> bool {
        let error = std::io::stderr();
        while self.waits() {
            let mut fds = [PollFd::new(&error, PollFlags::OUT)];
            let ready = poll(&mut fds, Some(&super::clock::timespec(0))).unwrap_or(0);
            if ready == 0 {
                return false;
            }
            let (front, _) = self.waiting.as_slices();
            let Ok(written @ 1..) = rustix::io::write(&error, &front[..front.len().min(CHUNK)]) else {
                self.waiting.clear();
                return true;
            };
            self.waiting.drain(..written);
        }
        self.waiting.shrink_to(CHUNK);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(lines: &[&str]) -> String {
        let mut tail = Tail::default();
        for line in lines {
            tail.push(line);
        }
        tail.text()
    }

    #[test]
    fn why_postgres_ended_is_in_the_report() {
        let prefix = "2025-12-01 10:00:00 UTC [9] ";
        let lines = [
            "LOG:  starting PostgreSQL 15",
            "FATAL:  could not map anonymous shared memory: Cannot allocate memory",
            "HINT:  This error usually means …",
            "postgres: error while loading shared libraries: libx.so",
        ];
        assert_eq!(tail(&lines), lines.join("\n"));
        let logged = lines.map(|line| format!("{prefix}{line}"));
        let logged = [&*logged[0], &*logged[1], &*logged[2], lines[3]];
        assert_eq!(
            tail(&logged),
            lines.join("\n"),
            "the same failure has the same words at every try"
        );
    }

    #[test]
    fn no_password_and_no_row_reaches_a_status() {
        let report = tail(&[
            "LOG:  ready",
            "LOG:  statement: ALTER ROLE app PASSWORD 'hush'",
            "LOG:  duration: 3 ms  execute <unnamed>: SELECT 'hush'",
            "ERROR:  duplicate key value violates unique constraint",
            "DETAIL:  Key (email)=(hush) already exists.",
            "STATEMENT:  INSERT INTO t VALUES (",
            "\t'hush')",
            "LOG:  shutting down",
        ]);
        assert_eq!(report, "LOG:  ready\nLOG:  shutting down");
    }

    #[test]
    fn a_report_has_a_bound() {
        let long = "x".repeat(10_000);
        let mut tail = Tail::default();
        (0..100).for_each(|_| tail.push(&long));
        assert_eq!(tail.text().len(), LINES * LINE + LINES - 1);
    }
}
