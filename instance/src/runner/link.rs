//! The connection to the agent: it listens, the runner connects, and connects again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use crate::control::{FromAgent, FromRunner, LONGEST_LINE};

/// Between two attempts to connect; milliseconds.
pub const RETRY: u64 = 100;

/// The connection, or the wish for one.
#[derive(Debug)]
pub struct Link {
    path: PathBuf,
    agent_uid: u32,
    key: Option<String>,
    line: Option<Line>,
    retry_at: u64,
    /// Counts the connections: the answer to a request of an earlier one is not sent.
    pub epoch: u64,
}

#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    welcome: bool,
}

/// Why a connection ended, or did not come to be.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The kernel said so.
    #[error("the agent's socket: {0}")]
    Socket(#[from] Errno),
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
    pub fn to(path: PathBuf, agent_uid: u32) -> Self {
        Self { path, agent_uid, key: None, line: None, retry_at: 0, epoch: 0 }
    }

    /// The socket, for `poll`, and whether something waits to be sent.
    pub fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.line.as_ref().map(|line| (line.socket.as_fd(), !line.output.is_empty()))
    }

    /// Whether the agent has let the runner in.
    pub fn open(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.welcome)
    }

    /// When to try next; `None` while there is a connection.
    pub fn retry_at(&self) -> Option<u64> {
        self.line.is_none().then_some(self.retry_at)
    }

    /// Connects, when there is no connection and it is time. An absent or silent agent is no error.
    pub fn connect(&mut self, now: u64) -> Result<(), Ended> {
        if self.line.is_some() || now < self.retry_at {
            return Ok(());
        }
        self.retry_at = now + RETRY;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match connect(&socket, &SocketAddrUnix::new(&self.path)?) {
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) => return Ok(()),
            connected => connected?,
        }
        // Across containers the peer's pid is 0: only the uid says anything.
        let peer = getsockopt(&socket, PeerCredentials).map_err(|e| Errno::from_raw_os_error(e as i32))?;
        if peer.uid() != self.agent_uid {
            self.retry_at = now + 10 * RETRY;
            return Err(Ended::Stranger { found: peer.uid(), expected: self.agent_uid });
        }
        self.epoch += 1;
        self.line = Some(Line { socket, input: Vec::new(), output: Vec::new(), welcome: false });
        self.send(&FromRunner::Hello { key: self.key.clone() })
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
            match send(&line.socket, &line.output, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(line.output.drain(..sent)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if line.output.len() > LONGEST_LINE { Err(Ended::Deaf) } else { Ok(()) }
    }

    /// Takes the messages that arrived. A Welcome is kept here; before it nothing else is taken.
    pub fn receive(&mut self) -> Result<Vec<FromAgent>, Ended> {
        let Some(line) = &mut self.line else { return Ok(Vec::new()) };
        let mut bytes = [0; 4096];
        let ended = loop {
            match recv(&line.socket, &mut bytes, RecvFlags::empty()) {
                Ok((_, 0)) => break true,
                Ok((_, count)) => line.input.extend_from_slice(&bytes[..count]),
                Err(Errno::AGAIN) => break false,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            if line.input.len() > 2 * LONGEST_LINE {
                return Err(Ended::Words("a line without an end".into()));
            }
        };
        let mut messages = Vec::new();
        let whole = line.input.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        for text in line.input[..whole].split(|b| *b == b'\n').filter(|text| !text.is_empty()) {
            if text.len() > LONGEST_LINE {
                return Err(Ended::Words("a line that is too long".into()));
            }
            match serde_json::from_slice(text).map_err(|e| Ended::Words(e.to_string()))? {
                FromAgent::Welcome { key } => {
                    line.welcome = true;
                    self.key = Some(key);
                }
                _ if !line.welcome => return Err(Ended::Words("a request before the welcome".into())),
                message => messages.push(message),
            }
        }
        line.input.drain(..whole);
        line.input.shrink_to(4096);
        if ended && messages.is_empty() { Err(Ended::ByAgent) } else { Ok(messages) }
    }

    /// Ends the connection.
    pub fn close(&mut self) {
        self.line = None;
    }
}
