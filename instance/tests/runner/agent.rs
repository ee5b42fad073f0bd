//! The agent's end of the socket, as the test plays it.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use sampledb_instance::control::{Command, FromAgent, FromRunner, Reply, Request, State};

use crate::stage::PATIENCE;

/// What the runner is given at its first connection.
pub const KEY: &str = "00112233";

pub struct Agent {
    input: BufReader<UnixStream>,
    output: UnixStream,
    pub key_shown: Option<String>,
    pub state: Option<State>,
    next: u64,
}

impl Agent {
    pub fn accept(listener: &UnixListener) -> Self {
        listener.set_nonblocking(true).unwrap();
        let since = Instant::now();
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(e) if since.elapsed() > PATIENCE => panic!("the runner does not connect: {e}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let output = stream.try_clone().unwrap();
        let mut agent = Self {
            input: BufReader::new(stream),
            output,
            key_shown: None,
            state: None,
            next: 1,
        };
        match agent.read() {
            FromRunner::Hello { key } => agent.key_shown = key,
            other => panic!("{other:?} before Hello"),
        }
        agent.say(&FromAgent::Welcome { key: KEY.into() });
        while agent.state.is_none() {
            agent.next_message();
        }
        agent
    }

    pub fn say(&mut self, message: &FromAgent) {
        let mut line = serde_json::to_vec(message).unwrap();
        line.push(b'\n');
        self.output.write_all(&line).unwrap();
    }

    fn read(&mut self) -> FromRunner {
        let mut line = String::new();
        self.input
            .read_line(&mut line)
            .expect("the runner says something");
        assert!(!line.is_empty(), "the runner ended the connection");
        serde_json::from_str(&line).unwrap()
    }

    fn next_message(&mut self) -> Option<Reply> {
        match self.read() {
            FromRunner::State(state) => {
                self.state = Some(state);
                None
            }
            FromRunner::Reply(reply) => Some(reply),
            FromRunner::Hello { .. } => panic!("Hello in the middle"),
        }
    }

    pub fn send(&mut self, command: Command) -> u64 {
        let id = self.next;
        self.next += 1;
        self.say(&FromAgent::Request(Request { id, command }));
        id
    }

    pub fn reply(&mut self, id: u64) -> Option<String> {
        loop {
            if let Some(reply) = self.next_message() {
                assert_eq!(reply.id, id);
                return reply.error;
            }
        }
    }

    /// The next answer, whichever of the requests it is for.
    pub fn reply_to_any(&mut self, ids: &[u64]) -> (u64, Option<String>) {
        loop {
            if let Some(reply) = self.next_message() {
                assert!(ids.contains(&reply.id));
                return (reply.id, reply.error);
            }
        }
    }

    /// Asks and expects it to be done.
    pub fn done(&mut self, command: Command) {
        let shown = format!("{command:?}");
        let id = self.send(command);
        let error = self.reply(id);
        assert_eq!(error, None, "{shown}");
    }

    /// Asks and expects a refusal: its text.
    pub fn refused(&mut self, command: Command) -> String {
        let shown = format!("{command:?}");
        let id = self.send(command);
        self.reply(id).unwrap_or_else(|| panic!("not refused: {shown}"))
    }

    pub fn extend(&mut self, until: u64) {
        self.say(&FromAgent::Extend { until });
    }

    /// Reads until the state is so.
    pub fn until(&mut self, holds: impl Fn(&State) -> bool) -> State {
        loop {
            if let Some(state) = self.state.as_ref().filter(|state| holds(state)) {
                return state.clone();
            }
            assert_eq!(self.next_message(), None, "a reply that nobody waits for");
        }
    }

    pub fn state(&self) -> &State {
        self.state.as_ref().unwrap()
    }

    /// Ends the connection.
    pub fn hang_up(&self) {
        self.output.shutdown(Shutdown::Both).unwrap();
    }
}
