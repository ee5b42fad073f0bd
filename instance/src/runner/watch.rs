//! The loop: waits for whatever comes first, and tends to everything.

use rustix::event::{PollFd, PollFlags, poll};

use super::certificates::LOOK_EVERY;
use super::server::Server;
use super::{Runner, clock, signals};

/// Between two looks at the volume; milliseconds.
const VOLUME_EVERY: u64 = 1_000;
/// Between two looks at a PostgreSQL that starts, or whose last processes are ending; milliseconds.
const SOON: u64 = 10;
/// How long an ending runner waits for the agent's last word; milliseconds.
const LINGER: u64 = 1_000;

impl Runner {
    /// Until the container is told to end and PostgreSQL is gone.
    pub(super) fn watch(&mut self) {
        loop {
            let now = clock::now();
            if let Err(e) = self.link.connect(now) {
                self.hang_up(&e);
            }
            self.tell();
            if self.over(now) {
                self.log.say(super::log::Level::Info, "the end");
                self.log.flush();
                return;
            }
            self.wait(now);
            let now = clock::now();
            if signals::take(&self.signals.end) {
                self.begin_end(now);
            }
            self.log.read();
            if signals::take(&self.signals.child) {
                self.reap();
            }
            self.receive(now);
            self.tend_server(now);
            self.job_due(now);
            self.work(now);
            if now >= self.volume_at {
                self.volume_at = now + VOLUME_EVERY;
                self.tend_ballast();
            }
            self.log.flush();
        }
    }

    /// Sleeps until something arrives or something is due.
    fn wait(&mut self, now: u64) {
        let next = self.next_due(now);
        let timeout = clock::timespec(next.saturating_sub(now));
        let error = std::io::stderr();
        let mut fds = vec![
            PollFd::new(&self.signals.child, PollFlags::IN),
            PollFd::new(&self.signals.end, PollFlags::IN),
            PollFd::from_borrowed_fd(self.certificates.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.link.arrivals(), PollFlags::IN),
        ];
        if let Some(socket) = self.link.to_send() {
            fds.push(PollFd::from_borrowed_fd(socket, PollFlags::OUT));
        }
        if let Some(log) = self.log.fd() {
            fds.push(PollFd::from_borrowed_fd(log, PollFlags::IN));
        }
        if self.log.waits() {
            fds.push(PollFd::new(&error, PollFlags::OUT));
        }
        if let Some(job) = self.job.as_ref().filter(|job| !job.silent) {
            fds.push(PollFd::from_borrowed_fd(job.running.fd(), PollFlags::IN));
        }
        let _ = poll(&mut fds, Some(&timeout));
        let certificates = fds.get(2).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);

        if certificates || now >= self.certificates_at {
            self.certificates.look();
            self.certificates_at = now + LOOK_EVERY;
        }
        if let Some(job) = &mut self.job {
            job.silent = !job.running.read();
        }
        if let Err(e) = self.link.flush() {
            self.hang_up(&e);
        }
    }

    fn next_due(&self, now: u64) -> u64 {
        let mut next = self.volume_at.min(self.certificates_at);
        if matches!(self.server, Server::Starting { .. } | Server::Ending(_)) {
            next = next.min(now + SOON);
        }
        if let Some(retry_at) = self.link.retry_at() {
            next = next.min(retry_at.max(now + 1));
        }
        if let Some(stopped_at) = self.end.and_then(|end| end.stopped_at) {
            next = next.min(stopped_at + LINGER);
        }
        next
    }

    /// Whether the container may end.
    fn over(&mut self, now: u64) -> bool {
        let gone = matches!(self.server, Server::Down { .. }) && self.job.is_none();
        let Some(end) = &mut self.end else { return false };
        if !gone {
            return false;
        }
        let stopped_at = *end.stopped_at.get_or_insert(now);
        !self.link.open() || end.leave || now >= stopped_at + LINGER
    }
}
