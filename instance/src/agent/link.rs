//! The connection to the runner: the socket, who is let in, requests and their answers, the deadline.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::Mode;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};

use super::admission::{Admission, GRACE_MS, admit};
use super::{clock, state_file};
use crate::control::{Command, FromAgent, FromRunner, LONGEST_LINE, Reply, Request, State};
use sampledb_shared::domain::hex::hex;

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no runner, or it went away before it answered.
    #[error("the runner is not connected")]
    NotConnected,
    /// The runner refused, in the words of PostgreSQL or the kernel.
    #[error("{0}")]
    Refused(String),
}

type Waiting = HashMap<u64, oneshot::Sender<Reply>>;

#[derive(Default)]
struct Inner {
    key: Option<String>,
    /// Counts connections, so that an old one that ends does not end the new one.
    epoch: u64,
    outgoing: Option<mpsc::UnboundedSender<FromAgent>>,
    waiting: Waiting,
    last_id: u64,
}

/// The runner, as the rest of the agent has it.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Mutex<Inner>>,
    state: Arc<watch::Sender<Option<State>>>,
}

impl Runner {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the runner sees; `None` while it is not connected.
    pub fn state(&self) -> watch::Receiver<Option<State>> {
        self.state.subscribe()
    }

    /// Has the runner do something, and waits until it did or refused. Cancel-safe: the answer is then dropped.
    pub async fn request(&self, command: Command) -> Result<(), RequestError> {
        let answer = {
            let mut inner = self.inner();
            inner.last_id += 1;
            let id = inner.last_id;
            let sender = inner.outgoing.clone().ok_or(RequestError::NotConnected)?;
            let (tell, answer) = oneshot::channel();
            inner.waiting.insert(id, tell);
            sender
                .send(FromAgent::Request(Request { id, command }))
                .map_err(|_| RequestError::NotConnected)?;
            answer
        };
        match answer.await.map_err(|_| RequestError::NotConnected)?.error {
            None => Ok(()),
            Some(error) => Err(RequestError::Refused(error)),
        }
    }

    /// Says something that is never answered; lost when there is no runner.
    pub fn tell(&self, message: FromAgent) {
        if let Some(outgoing) = &self.inner().outgoing {
            let _ = outgoing.send(message);
        }
    }
}

/// Binds the socket and starts to listen. `uid` is the only peer that is listened to.
pub fn listen(socket: &std::path::Path, key_file: PathBuf, uid: u32) -> io::Result<Runner> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Made with its mode instead of changed by path afterwards: 0666, so that the runner's user can connect.
    let before = rustix::process::umask(Mode::XUSR | Mode::XGRP | Mode::XOTH);
    let listener = UnixListener::bind(socket);
    rustix::process::umask(before);
    let listener = listener?;
    let key = state_file::read(&key_file)?.filter(|k| !k.is_empty());
    let runner = Runner {
        inner: Arc::new(Mutex::new(Inner {
            key,
            ..Inner::default()
        })),
        state: Arc::new(watch::Sender::new(None)),
    };
    tokio::spawn(accept(listener, runner.clone(), key_file, uid));
    Ok(runner)
}

async fn accept(listener: UnixListener, runner: Runner, key_file: PathBuf, uid: u32) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match stream.peer_cred() {
                Ok(peer) if peer.uid() == uid => {
                    let (runner, key_file) = (runner.clone(), key_file.clone());
                    tokio::spawn(async move {
                        if let Err(error) = converse(stream, &runner, &key_file).await {
                            tracing::warn!(%error, "the connection to the runner ended");
                        }
                    });
                }
                Ok(peer) => tracing::warn!(uid = peer.uid(), "a connection of another user was turned away"),
                Err(error) => tracing::warn!(%error, "a connection without credentials was turned away"),
            },
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, runner: &Runner, key_file: &std::path::Path) -> io::Result<()> {
    let (read, write) = stream.into_split();
    let mut lines = BufReader::new(read);
    let hello = tokio::time::timeout(Duration::from_secs(5), line(&mut lines)).await;
    let Ok(Ok(Some(FromRunner::Hello { key }))) = hello else {
        return Err(io::Error::other("it did not begin with Hello"));
    };
    let (outgoing, messages) = mpsc::unbounded_channel();
    let epoch = admitted(runner, key.as_deref(), key_file, outgoing).await?;
    tracing::info!("the runner is connected");
    let writer = tokio::spawn(write_all(write, messages));
    let result = listen_to(&mut lines, runner, epoch).await;
    let mut inner = runner.inner();
    if inner.epoch == epoch {
        inner.outgoing = None;
        inner.waiting.clear();
        drop(inner);
        runner.state.send_replace(None);
    }
    writer.abort();
    result
}

/// Waits until the connection is let in, and makes it the runner's.
async fn admitted(
    runner: &Runner,
    shown: Option<&str>,
    key_file: &std::path::Path,
    outgoing: mpsc::UnboundedSender<FromAgent>,
) -> io::Result<u64> {
    let since = clock::boot_ms();
    loop {
        {
            let mut inner = runner.inner();
            let waited = clock::boot_ms().saturating_sub(since);
            let key = match admit(inner.key.as_deref(), shown, inner.outgoing.is_some(), waited) {
                Admission::Admit { new_key: false } => inner.key.clone().unwrap_or_default(),
                Admission::Admit { new_key: true } => {
                    let key = new_key()?;
                    state_file::write(key_file, &key)?;
                    inner.key = Some(key.clone());
                    key
                }
                Admission::Turn { away } => return Err(io::Error::other(away)),
                Admission::Hold => String::new(),
            };
            if !key.is_empty() {
                inner.epoch += 1;
                inner.waiting.clear();
                let _ = outgoing.send(FromAgent::Welcome { key });
                inner.outgoing = Some(outgoing);
                return Ok(inner.epoch);
            }
        }
        tokio::time::sleep(Duration::from_millis(GRACE_MS / 20)).await;
    }
}

#[allow(clippy::disallowed_methods, reason = "the key is the agent's own secret")]
fn new_key() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(hex(&bytes))
}

async fn listen_to(lines: &mut BufReader<OwnedReadHalf>, runner: &Runner, epoch: u64) -> io::Result<()> {
    while let Some(message) = line(lines).await? {
        let mut inner = runner.inner();
        if inner.epoch != epoch {
            return Err(io::Error::other(
                "a newer connection of the runner took its place",
            ));
        }
        match message {
            FromRunner::State(state) => {
                drop(inner);
                runner.state.send_if_modified(|now| {
                    let changed = now.as_ref() != Some(&state);
                    *now = Some(state);
                    changed
                });
            }
            FromRunner::Reply(reply) => {
                if let Some(waiting) = inner.waiting.remove(&reply.id) {
                    let _ = waiting.send(reply);
                }
            }
            FromRunner::Hello { .. } => return Err(io::Error::other("it said Hello twice")),
        }
    }
    Ok(())
}

/// The next message; `None` at the end of the connection.
async fn line(lines: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<FromRunner>> {
    let mut text = String::new();
    let read = (&mut *lines)
        .take(LONGEST_LINE as u64)
        .read_line(&mut text)
        .await?;
    if read == 0 {
        return Ok(None);
    }
    if !text.ends_with('\n') {
        return Err(io::Error::other("a line was cut off or is too long"));
    }
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| io::Error::other(format!("a line is not understood: {error}")))
}

async fn write_all(mut write: OwnedWriteHalf, mut messages: mpsc::UnboundedReceiver<FromAgent>) {
    while let Some(message) = messages.recv().await {
        let Ok(mut text) = serde_json::to_vec(&message) else {
            continue;
        };
        text.push(b'\n');
        if let Err(error) = write.write_all(&text).await {
            tracing::warn!(%error, "writing to the runner failed");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::control::{Data, Postgres, Storage};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("agent-link-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn agent(folder: &Path) -> Runner {
        let uid = rustix::process::getuid().as_raw();
        listen(&folder.join("runner.sock"), folder.join("runner.key"), uid).unwrap()
    }

    /// A runner played by the test.
    struct Played {
        lines: tokio::io::Lines<BufReader<OwnedReadHalf>>,
        write: OwnedWriteHalf,
    }

    impl Played {
        async fn hello(folder: &Path, key: Option<&str>) -> Self {
            let (read, write) = UnixStream::connect(folder.join("runner.sock"))
                .await
                .unwrap()
                .into_split();
            let mut played = Self {
                lines: BufReader::new(read).lines(),
                write,
            };
            played
                .say(&FromRunner::Hello {
                    key: key.map(str::to_owned),
                })
                .await;
            played
        }

        async fn say(&mut self, message: &FromRunner) {
            let text = serde_json::to_string(message).unwrap() + "\n";
            let _ = self.write.write_all(text.as_bytes()).await;
        }

        async fn hears(&mut self) -> Option<FromAgent> {
            let line = self.lines.next_line().await.ok().flatten();
            line.map(|l| serde_json::from_str(&l).unwrap())
        }

        async fn key(&mut self) -> Option<String> {
            match self.hears().await? {
                FromAgent::Welcome { key } => Some(key),
                other => panic!("{other:?} instead of a welcome"),
            }
        }
    }

    fn state() -> State {
        State {
            postgres: Postgres::Running,
            data: Data::Empty,
            member: None,
            storage: Storage::Ok,
            ending: false,
            config_hash: None,
            certificates_changed: false,
            refused: None,
        }
    }

    #[tokio::test]
    async fn a_program_of_sql_never_takes_the_runners_place() {
        let folder = folder("place");
        let agent = agent(&folder);
        let mut runner = Played::hello(&folder, None).await;
        let key = runner.key().await.unwrap();
        assert_eq!(
            Played::hello(&folder, None).await.key().await,
            None,
            "let in beside the runner"
        );
        assert_eq!(
            Played::hello(&folder, Some("guessed")).await.key().await,
            None,
            "let in with a wrong key"
        );
        let mut again = Played::hello(&folder, Some(&key)).await;
        assert_eq!(
            again.key().await.as_ref(),
            Some(&key),
            "the runner is not let in again"
        );
        again.say(&FromRunner::State(state())).await;
        agent.state().wait_for(Option::is_some).await.unwrap();
    }

    #[tokio::test]
    async fn after_the_agents_restart_the_runner_wins_over_a_program_that_was_faster() {
        let folder = folder("restart");
        let key = {
            let _first = agent(&folder);
            Played::hello(&folder, None).await.key().await.unwrap()
        };
        let agent = agent(&folder);
        let mut program = Played::hello(&folder, None).await;
        let mut runner = Played::hello(&folder, Some(&key)).await;
        assert_eq!(runner.key().await, Some(key));
        assert_eq!(program.key().await, None);
        runner.say(&FromRunner::State(state())).await;
        agent.state().wait_for(Option::is_some).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_ends_when_the_runner_goes_away() {
        let folder = folder("request");
        let agent = agent(&folder);
        let mut runner = Played::hello(&folder, None).await;
        runner.key().await.unwrap();
        let (answer, ()) = tokio::join!(agent.request(Command::Reload), async {
            let Some(FromAgent::Request(request)) = runner.hears().await else {
                panic!("no request")
            };
            runner
                .say(&FromRunner::Reply(Reply {
                    id: request.id,
                    error: Some("no".into()),
                }))
                .await;
        });
        assert_eq!(answer, Err(RequestError::Refused("no".into())));
        let (answer, ()) = tokio::join!(agent.request(Command::Reload), async {
            runner.hears().await;
            drop(runner);
        });
        assert_eq!(answer, Err(RequestError::NotConnected));
        assert_eq!(
            agent.request(Command::Reload).await,
            Err(RequestError::NotConnected)
        );
    }

    #[tokio::test]
    async fn another_user_is_turned_away() {
        let folder = folder("user");
        let uid = rustix::process::getuid().as_raw() + 1;
        let _agent = listen(&folder.join("runner.sock"), folder.join("runner.key"), uid).unwrap();
        assert_eq!(Played::hello(&folder, None).await.key().await, None);
    }
}
