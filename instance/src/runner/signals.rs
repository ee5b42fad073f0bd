//! Signals as file descriptors: a byte arrives for each.

use std::io::Read;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// The signals that the runner listens to.
#[derive(Debug)]
pub struct Signals {
    /// A child ended.
    pub child: UnixStream,
    /// The container is to end (SIGTERM, SIGINT).
    pub end: UnixStream,
}

impl Signals {
    /// Installs the handlers. Programs that are started later get the defaults back.
    pub fn install() -> std::io::Result<Self> {
        let (child, of_child) = UnixStream::pair()?;
        let (end, of_end) = UnixStream::pair()?;
        pipe::register(SIGCHLD, of_child)?;
        pipe::register(SIGINT, of_end.try_clone()?)?;
        pipe::register(SIGTERM, of_end)?;
        child.set_nonblocking(true)?;
        end.set_nonblocking(true)?;
        Ok(Self { child, end })
    }
}

/// Empties one of them; whether there was anything.
pub fn take(mut signal: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut any = false;
    while matches!(signal.read(&mut bytes), Ok(1..)) {
        any = true;
    }
    any
}
