//! How the runner starts a program: never with what it holds itself.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

use super::log::Log;

/// The subcommand by which this binary becomes the postmaster; see [`become_program`].
pub const BECOME: &str = "become";
/// Bytes of a program's output that are kept.
const LONGEST_OUTPUT: usize = 64 << 10;

/// Starts the postmaster; its process id.
pub fn start_postmaster(own: &Path, postgres: &Path, arguments: &[String], log: &Log) -> io::Result<i32> {
    let mut command = Command::new(own);
    command
        .arg(BECOME)
        .arg(std::process::id().to_string())
        .arg(postgres)
        .args(arguments);
    without_settings(&mut command);
    let child = command
        .stdin(Stdio::null())
        .stdout(log.stdio()?)
        .stderr(log.stdio()?)
        .spawn()?;
    Ok(child.id() as i32)
}

/// In the child: a session of its own, and SIGKILL when the runner goes; then becomes the program. Returns only
/// when that fails.
pub fn become_program(mut arguments: impl Iterator<Item = String>) -> io::Error {
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let parent = arguments
        .next()
        .and_then(|pid| pid.parse().ok())
        .and_then(Pid::from_raw);
    let Some(program) = arguments.next() else {
        return wrong();
    };
    if let Err(e) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return e.into();
    }
    if parent.is_none() || getppid() != parent {
        return io::Error::other("the runner is gone");
    }
    if let Err(e) = setsid() {
        return e.into();
    }
    Command::new(program).args(arguments).exec()
}

/// Whatever an image sets for PostgreSQL's programs, the suite has its own way of saying.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG")) {
            command.env_remove(name);
        }
    }
}

/// A program that runs beside the loop, with its output.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub pid: i32,
    from_program: OwnedFd,
    output: Vec<u8>,
}

impl Running {
    /// Starts it with a clean environment, `environment` in it, and `input` on its standard input.
    pub fn start(mut command: Command, environment: &[(&str, &str)], input: &str) -> io::Result<Self> {
        let (from_program, to_us) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&from_program, true)?;
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        command
            .env_clear()
            .env("PATH", path)
            .env("LC_ALL", "C")
            .envs(environment.iter().copied());
        let errors = to_us.try_clone()?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(to_us)
            .stderr(errors)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A script is far shorter than a pipe; a program that ended already says so by its status.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(Self {
            pid: child.id() as i32,
            from_program,
            output: Vec::new(),
        })
    }

    /// Readable when the program wrote something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.from_program.as_fd()
    }

    /// Takes over what the program wrote; false at the end.
    pub fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match rustix::io::read(&self.from_program, &mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    let room = LONGEST_OUTPUT.saturating_sub(self.output.len());
                    self.output.extend_from_slice(&bytes[..count.min(room)]);
                }
                Err(_) => return true,
            }
        }
    }

    /// All that it wrote.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output).trim().to_owned()
    }
}

/// `psql` as the superuser, on the local socket, in database `postgres`; the script comes on its standard input.
pub fn psql(psql: &PathBuf, socket_dir: &Path, port: u16) -> Command {
    let mut command = Command::new(psql);
    command.args([
        "-X",
        "-w",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-U",
        "postgres",
        "-d",
        "postgres",
        "-h",
    ]);
    command.arg(socket_dir).arg("-p").arg(port.to_string());
    command
}
