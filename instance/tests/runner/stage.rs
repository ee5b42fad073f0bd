//! A container without the container: folders, a user, the real runner, and an agent that the test plays.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sampledb_instance::control::{Command, Configuration, Initdb, Member, Postgres};

use crate::agent::Agent;

/// How long anything may take before the test fails.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Milliseconds of CLOCK_BOOTTIME.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// The server's programs: a test without them says so and fails.
pub fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os("SAMPLEDB_PG_BIN") {
        return folder.into();
    }
    let majors = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let found = majors
        .map(|m| m.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file())
        .max();
    found.expect("these tests need PostgreSQL: install the package postgresql, or set SAMPLEDB_PG_BIN to its bin folder")
}

/// PostgreSQL refuses to run as root: the user of the database image, if root can become it.
fn user() -> (u32, u32, String) {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let row = |wanted: &dyn Fn(&[&str]) -> bool| {
        passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|f| f.len() > 3 && wanted(f))
            .map(|f| (f[2].parse().unwrap(), f[3].parse().unwrap(), f[0].to_owned()))
    };
    let me = rustix::process::getuid().as_raw();
    if me != 0 {
        return row(&|f| f[2] == me.to_string()).expect("this user has a name");
    }
    row(&|f| f[0] == "postgres")
        .or_else(|| row(&|f| f[0] == "nobody"))
        .expect("a user other than root")
}

pub struct Stage {
    pub root: PathBuf,
    pub runner: Child,
    pub agent: Agent,
    listener: UnixListener,
    mounted: Option<PathBuf>,
    uid: u32,
    gid: u32,
    name: String,
}

impl Stage {
    /// Folders as in the pod and a runner that has been let in.
    pub fn set() -> Self {
        Self::set_with_volume(None, &[])
    }

    /// The volume of the log has this many MiB, or is a folder.
    pub fn set_with_volume(mib: Option<u32>, more: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (uid, gid, name) = user();
        let root = std::env::temp_dir().join(format!(
            "sampledb-runner-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        for folder in ["data", "wal", "socket", "control", "bin", "tls", "trust"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::set_permissions(root.join(folder), Permissions::from_mode(0o755)).unwrap();
        }
        let mounted = mib.map(|mib| {
            let size = format!("size={mib}m");
            let wal = root.join("wal");
            let mount = Program::new("mount")
                .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
                .arg(&wal)
                .status()
                .unwrap();
            assert!(mount.success(), "mounting a volume needs root");
            wal
        });
        if uid != rustix::process::getuid().as_raw() {
            for folder in ["data", "wal", "socket"] {
                chown(root.join(folder), Some(uid), Some(gid)).unwrap();
            }
        }
        fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        let built = env!("CARGO_BIN_EXE_sampledb-runner");
        assert!(
            Program::new(built)
                .arg("inject")
                .arg(root.join("bin"))
                .status()
                .unwrap()
                .success()
        );
        let injected = root.join("bin/sampledb-runner");
        assert_eq!(fs::metadata(&injected).unwrap().mode() & 0o7777, 0o555);

        let socket = root.join("control/runner.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
        let mut command = Program::new(&injected);
        let folder = |name: &str| root.join(name).display().to_string();
        command
            .args([
                "--data",
                &folder("data"),
                "--wal",
                &folder("wal"),
                "--socket-dir",
                &folder("socket"),
            ])
            .args([
                "--control",
                &folder("control"),
                "--tls",
                &folder("tls"),
                "--trust",
                &folder("trust"),
            ])
            .args([
                "--bin-dir",
                &programs().display().to_string(),
                "--ballast-mib",
                "4",
            ])
            .args(["--agent-uid", &rustix::process::getuid().as_raw().to_string()])
            .args(more)
            .env("PGPORT", "1")
            .stdin(Stdio::null())
            .stderr(fs::File::create(root.join("output")).unwrap());
        as_user(&mut command, uid, gid);
        let runner = command.spawn().unwrap();
        let agent = Agent::accept(&listener);
        Self {
            root,
            runner,
            agent,
            listener,
            mounted,
            uid,
            gid,
            name,
        }
    }

    /// A running, established database.
    pub fn with_database() -> Self {
        Self::with_database_and(&[])
    }

    pub fn with_database_and(more: &[&str]) -> Self {
        let mut stage = Self::set_with_volume(None, more);
        stage.agent.done(Command::Initdb(initdb()));
        let configuration = stage.configuration("first", "");
        stage.agent.done(Command::Start {
            configuration,
            until: now() + 600_000,
        });
        assert_eq!(stage.agent.state().postgres, Postgres::Running);
        stage
    }

    /// The agent's end of the connection breaks, and it listens again.
    pub fn reconnect(&mut self) {
        self.agent.hang_up();
        self.agent = Agent::accept(&self.listener);
    }

    /// A configuration like the provisioner's, with more settings.
    pub fn configuration(&self, hash: &str, settings: &str) -> Configuration {
        let conf = format!(
            "listen_addresses = ''\nshared_buffers = 16MB\nmax_connections = 20\nrestart_after_crash = off\n\
             log_statement = all\n{settings}\n"
        );
        let hba = "local all postgres peer map=test\nlocal all all scram-sha-256\n";
        let ident = format!("test {} postgres\n", self.name);
        Configuration {
            hash: hash.into(),
            files: files(&[
                ("postgresql.conf", &conf),
                ("pg_hba.conf", hba),
                ("pg_ident.conf", &ident),
            ]),
        }
    }

    pub fn pgdata(&self) -> PathBuf {
        self.root.join("data/pgdata")
    }

    /// What the container printed.
    pub fn output(&self) -> String {
        fs::read_to_string(self.root.join("output")).unwrap()
    }

    /// A program of PostgreSQL's, as the database's user.
    pub fn program(&self, name: &str) -> Program {
        let mut command = Program::new(programs().join(name));
        as_user(&mut command, self.uid, self.gid);
        command.current_dir("/").env("LC_ALL", "C");
        command
    }

    pub fn psql(&self, database: &str, role: &str, password: &str, sql: &str) -> Program {
        let mut command = self.program("psql");
        command
            .args(["-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-h"])
            .arg(self.root.join("socket"));
        command
            .args(["-d", database, "-U", role, "-c", sql])
            .env("PGPASSWORD", password);
        command
    }

    /// As superuser.
    pub fn sql(&self, sql: &str) -> String {
        text(&self.psql("postgres", "postgres", "", sql).output().unwrap())
    }

    pub fn controldata(&self, field: &str) -> String {
        let output = text(
            &self
                .program("pg_controldata")
                .arg("-D")
                .arg(self.pgdata())
                .output()
                .unwrap(),
        );
        output
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .unwrap()
            .trim_start_matches(':')
            .trim()
            .to_owned()
    }

    /// The processes below the runner.
    pub fn processes(&self) -> Vec<i32> {
        let mut table = BTreeMap::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
                continue;
            };
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
                continue;
            };
            let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
            if fields[0] != "Z" {
                table.insert(pid, fields[1].parse::<i32>().unwrap());
            }
        }
        let mut found = vec![self.runner.id() as i32];
        let mut at = 0;
        while at < found.len() {
            let parent = found[at];
            found.extend(table.iter().filter(|(_, p)| **p == parent).map(|(pid, _)| *pid));
            at += 1;
        }
        found.split_off(1)
    }

    pub fn postmaster(&self) -> i32 {
        fs::read_to_string(self.pgdata().join("postmaster.pid"))
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.runner.id())).unwrap();
        let row = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        row.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits until it holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let since = Instant::now();
        while !holds(self) {
            assert!(
                since.elapsed() < PATIENCE,
                "{what} did not happen\n{}",
                self.output()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// SIGTERM; how it ended.
    pub fn terminate(&mut self) {
        kill(self.runner.id() as i32, "TERM");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the container printed:\n{}", self.output());
        }
        let _ = self.runner.kill();
        let _ = self.runner.wait();
        std::thread::sleep(Duration::from_millis(100));
        if let Some(volume) = &self.mounted {
            let _ = Program::new("umount").arg(volume).status();
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn as_user(command: &mut Program, uid: u32, gid: u32) {
    if uid != rustix::process::getuid().as_raw() {
        command.uid(uid).gid(gid);
    }
}

pub fn kill(pid: i32, signal: &str) {
    let _ = Program::new("kill")
        .arg(format!("-{signal}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

pub fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files
        .iter()
        .map(|(name, content)| ((*name).to_owned(), (*content).to_owned()))
        .collect()
}

pub fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn initdb() -> Initdb {
    Initdb {
        data_checksums: true,
        encoding: "UTF8".into(),
        locale_provider: "libc".into(),
        locale: "C.UTF-8".into(),
    }
}

pub fn member(promised: i64, opened_in: i64) -> Member {
    Member {
        version: 1,
        uid: "u".into(),
        claim_uid: "c".into(),
        promised,
        primary_of: opened_in,
        opened_in,
        resigned: None,
        marked: false,
    }
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
