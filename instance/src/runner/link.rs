//! The connection to the agent: it listens, the runner connects, and connects again.
//!
//! A thread reads it, so that a deadline reaches the [`Fence`] also while the main loop waits for a slow disk;
//! everything else that it reads waits for the main loop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, shutdown, socket_with,
};

use super::fence::Fence;
use super::{clock, signals};
use crate::control::{Command, FromAgent, FromRunner, LONGEST_LINE, Request};

/// Between two attempts to connect; milliseconds.
const RETRY: u64 = 100;

/// The connection, or the wish for one.
#[derive(Debug)]
pub struct Link {
    path: PathBuf,
    agent_uid: u32,
    fence: Fence,
    key: Option<String>,
    line: Option<Line>,
    retry_at: u64,
    arrivals: UnixStream,
    of_reader: UnixStream,
    /// Counts the connections: the answer to a request of an earlier one is not sent.
    pub epoch: u64,
}

#[derive(Debug)]
struct Line {
    socket: Arc<OwnedFd>,
    inbox: Inbox,
    output: Vec<u8>,
    welcome: bool,
}

type Inbox = Arc<Mutex<Vec<Result<FromAgent, Ended>>>>;

/// Why a connection ended, or did not come to be.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The kernel said so.
    #[error("the agent's socket: {0}")]
    Socket(#[from] Errno),
    /// No thread to read it.
    #[error("the agent's socket cannot be read: {0}")]
    Reader(std::io::Error),
    /// Who listens is not the agent.
    #[error("who listens on the agent's socket has the uid {found}, and not {expected}")]
    Stranger {
        /// The peer's.
        found: u32,
        /// The agent's.
        expected: u32,
    },
    /// It ended the connection.
    #[error("the agent ended the connection")]
    ByAgent,
    /// It does not read.
    #[error("the agent does not take what is sent to it")]
    Deaf,
    /// It said something that is not in the contract.
    #[error("the agent said what the runner does not understand: {0}")]
    Words(String),
}

impl Link {
    /// No connection yet.
    pub fn to(path: PathBuf, agent_uid: u32, fence: Fence) -> std::io::Result<Self> {
        let (arrivals, of_reader) = UnixStream::pair()?;
        arrivals.set_nonblocking(true)?;
        of_reader.set_nonblocking(true)?;
        Ok(Self {
            path,
            agent_uid,
            fence,
            key: None,
            line: None,
            retry_at: 0,
            arrivals,
            of_reader,
            epoch: 0,
        })
    }

    /// Readable when there is something to [`Self::receive`].
    pub fn arrivals(&self) -> BorrowedFd<'_> {
        self.arrivals.as_fd()
    }

    /// The socket, while something waits to be sent.
    pub fn to_send(&self) -> Option<BorrowedFd<'_>> {
        self.line
            .as_ref()
            .filter(|line| !line.output.is_empty())
            .map(|line| line.socket.as_fd())
    }

    /// Whether the agent has let the runner in.
    pub fn open(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.welcome)
    }

    /// When to try next; `None` while there is a connection.
    pub fn retry_at(&self) -> Option<u64> {
        self.line.is_none().then_some(self.retry_at)
    }

    /// Connects, when there is no connection and it is time. An absent agent is no error.
    pub fn connect(&mut self, now: u64) -> Result<(), Ended> {
        if self.line.is_some() || now < self.retry_at {
            return Ok(());
        }
        self.retry_at = now + RETRY;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = Arc::new(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?);
        match connect(&*socket, &SocketAddrUnix::new(&self.path)?) {
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) => return Ok(()),
            connected => connected?,
        }
        // Across containers the peer's pid is 0: only the uid says anything. (rustix' own type cannot hold that 0.)
        let peer = getsockopt(&*socket, PeerCredentials).map_err(|e| Errno::from_raw_os_error(e as i32))?;
        if peer.uid() != self.agent_uid {
            self.retry_at = now + 10 * RETRY;
            return Err(Ended::Stranger {
                found: peer.uid(),
                expected: self.agent_uid,
            });
        }
        let inbox = Inbox::default();
        let reader = Reader {
            socket: socket.clone(),
            inbox: inbox.clone(),
            wake: self.of_reader.try_clone().map_err(Ended::Reader)?,
            fence: self.fence.clone(),
            welcome: false,
            input: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("agent".into())
            .stack_size(128 << 10);
        thread.spawn(move || reader.read()).map_err(Ended::Reader)?;
        self.epoch += 1;
        self.line = Some(Line {
            socket,
            inbox,
            output: Vec::new(),
            welcome: false,
        });
        self.send(&FromRunner::Hello {
            key: self.key.clone(),
        })
    }

    /// Queues a message and sends what the socket takes. Without a connection it is lost.
    pub fn send(&mut self, message: &FromRunner) -> Result<(), Ended> {
        let Some(line) = &mut self.line else { return Ok(()) };
        serde_json::to_writer(&mut line.output, message).map_err(|e| Ended::Words(e.to_string()))?;
        line.output.push(b'\n');
        self.flush()
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> Result<(), Ended> {
        let Some(line) = &mut self.line else { return Ok(()) };
        while !line.output.is_empty() {
            match send(&*line.socket, &line.output, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(line.output.drain(..sent)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if line.output.len() > LONGEST_LINE {
            Err(Ended::Deaf)
        } else {
            Ok(())
        }
    }

    /// The messages that arrived, but for the deadlines; the end of the connection after them.
    pub fn receive(&mut self) -> Vec<Result<FromAgent, Ended>> {
        signals::take(&self.arrivals);
        let Some(line) = &mut self.line else {
            return Vec::new();
        };
        let arrived = std::mem::take(&mut *line.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        for message in &arrived {
            if let Ok(FromAgent::Welcome { key }) = message {
                line.welcome = true;
                self.key = Some(key.clone());
            }
        }
        arrived
    }

    /// Ends the connection; its reader ends, too.
    pub fn close(&mut self) {
        if let Some(line) = self.line.take() {
            let _ = shutdown(&*line.socket, Shutdown::Both);
        }
    }
}

/// Reads one connection until it ends.
struct Reader {
    socket: Arc<OwnedFd>,
    inbox: Inbox,
    wake: UnixStream,
    fence: Fence,
    welcome: bool,
    input: Vec<u8>,
}

impl Reader {
    fn read(mut self) {
        let ended = loop {
            let mut fds = [PollFd::new(&*self.socket, PollFlags::IN)];
            let mut bytes = [0; 4096];
            let _ = poll(&mut fds, None);
            match recv(&*self.socket, &mut bytes, RecvFlags::empty()) {
                Ok((_, 0)) => break Ended::ByAgent,
                Ok((_, count)) => {
                    self.input.extend_from_slice(&bytes[..count]);
                    if let Err(e) = self.lines() {
                        break e;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => break e.into(),
            }
        };
        self.deliver(Err(ended));
    }

    fn lines(&mut self) -> Result<(), Ended> {
        let whole = self
            .input
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        if self.input.len() - whole > LONGEST_LINE {
            return Err(Ended::Words("a line without an end".into()));
        }
        let rest = self.input.split_off(whole);
        let lines = std::mem::replace(&mut self.input, rest);
        for line in lines.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line).map_err(|e| Ended::Words(e.to_string()))? {
                message @ FromAgent::Welcome { .. } => {
                    self.welcome = true;
                    self.deliver(Ok(message));
                }
                _ if !self.welcome => return Err(Ended::Words("something before the welcome".into())),
                FromAgent::Extend { until } => self.fence.extend(until, clock::now()),
                message => {
                    if let FromAgent::Request(Request {
                        command: Command::Start { until, .. } | Command::Restart { until },
                        ..
                    }) = &message
                    {
                        self.fence.name(*until);
                    }
                    self.deliver(Ok(message));
                }
            }
        }
        Ok(())
    }

    fn deliver(&self, message: Result<FromAgent, Ended>) {
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(message);
        let _ = send(&self.wake, &[1], SendFlags::NOSIGNAL);
    }
}
