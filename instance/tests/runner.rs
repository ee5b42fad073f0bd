//! The runner with a real PostgreSQL; the test plays the agent.
//!
//! Needs PostgreSQL's programs in /usr/lib/postgresql/*/bin, or SAMPLEDB_PG_BIN. As root, PostgreSQL runs as the
//! user `postgres` or `nobody`.
#![allow(clippy::disallowed_methods, reason = "tests measure time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "runner/stage.rs"]
mod stage;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sampledb_instance::control::{Command, Data, Establish, FromAgent, Postgres, StopMode, Storage};
use stage::{KEY, Stage, exists, files, initdb, kill, member, now, text};

fn establish(stage: &Stage, password: &str) -> Establish {
    let verifier = stage.sql(&format!(
        "DROP ROLE IF EXISTS maker; CREATE ROLE maker PASSWORD '{password}'; \
         SELECT rolpassword FROM pg_authid WHERE rolname = 'maker'"
    ));
    Establish { database: Some("shop".into()), owner: "shop_owner".into(), verifier }
}

#[test]
fn a_new_database_answers_its_owner_and_nobody_else() {
    let mut stage = Stage::set();
    assert_eq!(stage.agent.state().data, Data::Empty);
    stage.agent.done(Command::Remember(member(1, 0)));
    let begun = Instant::now();
    stage.agent.done(Command::Initdb(initdb()));
    println!("initdb: {:?}", begun.elapsed());
    let Data::Initialised { system_id, timeline, .. } = stage.agent.state().data.clone() else {
        panic!("{:?}", stage.agent.state())
    };
    assert_eq!(system_id, stage.controldata("Database system identifier"));
    assert_eq!(timeline, 1);
    assert_eq!(stage.controldata("Data page checksum version"), "1");
    assert!(!exists(&stage.root.join("data/pgdata.new")));
    assert!(stage.pgdata().join("pg_wal").read_link().unwrap().ends_with("wal/pg_wal"));
    assert!(exists(&stage.root.join("wal/ballast")));
    assert_eq!(stage.agent.state().storage, Storage::Ok);

    let configuration = stage.configuration("first", "");
    let begun = Instant::now();
    stage.agent.done(Command::Start { configuration, until: now() + 600_000 });
    println!("start: {:?}", begun.elapsed());
    assert_eq!(stage.agent.state().postgres, Postgres::Running);
    assert_eq!(stage.agent.state().config_hash.as_deref(), Some("first"));

    let wish = establish(&stage, "first-secret");
    let begun = Instant::now();
    stage.agent.done(Command::Establish(wish.clone()));
    println!("establish: {:?}", begun.elapsed());
    stage.agent.done(Command::Establish(wish.clone()));
    let as_owner = |password: &str, sql: &str| stage.psql("shop", "shop_owner", password, sql).output().unwrap();
    text(&as_owner("first-secret", "CREATE TABLE t (x int); INSERT INTO t VALUES (1)"));
    assert!(!as_owner("another", "SELECT 1").status.success());
    let roles = stage.sql(
        "SELECT rolname, rolsuper, rolcanlogin, rolreplication, rolcreaterole, rolcreatedb, rolpassword IS NULL \
         FROM pg_authid WHERE rolname LIKE 'sampledb_%' OR rolname = 'shop_owner' ORDER BY 1",
    );
    assert_eq!(roles, "sampledb_agent|f|t|f|f|f|t\nsampledb_replication|f|t|t|f|f|t\nshop_owner|f|t|f|f|f|f");
    assert_eq!(stage.sql("SELECT datacl FROM pg_database WHERE datname = 'shop'"), "{shop_owner=CTc/shop_owner}");
    assert_eq!(
        stage.sql("SET ROLE sampledb_agent; INSERT INTO sampledb.opening (term, instance) VALUES (1, 'a') RETURNING term"),
        "1"
    );

    let changed = establish(&stage, "second-secret");
    stage.agent.done(Command::Establish(Establish { database: None, ..changed }));
    let as_owner = |password: &str| stage.psql("shop", "shop_owner", password, "SELECT x FROM t").output().unwrap();
    assert_eq!(text(&as_owner("second-secret")), "1");
    assert!(!as_owner("first-secret").status.success());
    let of_establish = stage.output().lines().filter(|l| l.contains("shop_owner") && l.contains("SCRAM")).count();
    assert_eq!(of_establish, 0, "the verifier is in no log");

    let again = stage.agent.refused(Command::Initdb(initdb()));
    assert!(again.contains("running"), "{again}");
    stage.agent.done(Command::Stop(StopMode::Fast));
    let again = stage.agent.refused(Command::Initdb(initdb()));
    assert!(again.contains("finished data directory"), "{again}");
    assert_eq!(stage.controldata("Database cluster state"), "shut down");

    let resident = stage.resident_kib();
    println!("resident: {resident} KiB");
    if !cfg!(debug_assertions) {
        assert!(resident <= 3 * 1024, "{resident} KiB");
    }
}

#[test]
fn a_configuration_that_postgres_refuses_changes_nothing() {
    let mut stage = Stage::with_database();
    let shown = |stage: &Stage| stage.sql("SHOW work_mem");
    let before = fs::read_to_string(stage.pgdata().join("postgresql.conf")).unwrap();

    let bad = stage.configuration("bad", "work_mem = 'much'");
    let error = stage.agent.refused(Command::Configure(bad));
    assert!(error.contains("invalid value for parameter \"work_mem\""), "{error}");
    assert!(!error.contains("candidate"), "{error}");
    let unknown = stage.configuration("unknown", "work_men = 1");
    let error = stage.agent.refused(Command::Configure(unknown));
    assert!(error.contains("unrecognized configuration parameter \"work_men\""), "{error}");

    let mut access = stage.configuration("access", "");
    access.files.insert("pg_hba.conf".into(), "local all postgres peer map=test\nlocal all all nonsense\n".into());
    let error = stage.agent.refused(Command::Configure(access));
    assert!(error.contains("pg_hba.conf, line 2") && error.contains("nonsense"), "{error}");

    assert_eq!(fs::read_to_string(stage.pgdata().join("postgresql.conf")).unwrap(), before);
    assert_eq!(stage.agent.state().config_hash.as_deref(), Some("first"));
    assert_eq!(shown(&stage), "4MB");

    let good = stage.configuration("good", "work_mem = 5MB");
    stage.agent.done(Command::Configure(good));
    assert_eq!(stage.agent.state().config_hash.as_deref(), Some("good"));
    stage.until("the reload", |stage| shown(stage) == "5MB");
    assert!(!exists(&stage.root.join("socket/.sampledb-candidate")));
}

#[test]
fn a_restart_with_settings_that_only_fail_at_a_start_brings_the_database_back_as_it_was() {
    let mut stage = Stage::with_database();
    let doomed = stage.configuration("doomed", "unix_socket_group = 'nobody-has-this-group'");
    stage.agent.done(Command::Configure(doomed.clone()));
    stage.agent.done(Command::Restart { until: now() + 600_000 });
    let seen = stage.agent.state();
    assert_eq!(seen.postgres, Postgres::Running);
    assert_eq!(seen.config_hash.as_deref(), Some("first"));
    let refused = seen.refused.clone().unwrap();
    assert_eq!(refused.hash, "doomed");
    assert!(refused.error.contains("nobody-has-this-group"), "{}", refused.error);
    assert_eq!(stage.sql("SHOW shared_buffers"), "16MB");
    assert_eq!(stage.agent.refused(Command::Configure(doomed)), refused.error, "not tried again and again");

    let small = stage.configuration("small", "shared_buffers = 24MB");
    stage.agent.done(Command::Configure(small));
    assert_eq!(stage.agent.state().refused, None);
    let postmaster = stage.postmaster();
    stage.agent.done(Command::Restart { until: now() + 600_000 });
    assert_ne!(stage.postmaster(), postmaster);
    assert_eq!(stage.sql("SHOW shared_buffers"), "24MB");
}

#[test]
fn a_database_whose_agent_falls_silent_is_gone_within_the_budget() {
    let mut stage = Stage::with_database();
    stage.sql("CREATE TABLE kept (x int); INSERT INTO kept VALUES (1)");
    let mut busy: Vec<_> = [
        "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$",
        "COPY (SELECT 1) TO PROGRAM 'trap \"\" QUIT TERM INT; (sleep 1000 &); cat > /dev/null; sleep 1000'",
    ]
    .iter()
    .map(|sql| stage.psql("postgres", "postgres", "", sql).stderr(Stdio::null()).spawn().unwrap())
    .collect();
    std::thread::sleep(Duration::from_millis(300));
    assert!(stage.processes().len() > 8, "{:?}", stage.processes());

    let deadline = now() + 500;
    stage.agent.extend(deadline);
    stage.until("the first process to go", |stage| !exists(&format!("/proc/{}", stage.postmaster()).as_ref()) || stage.processes().len() < 8);
    let first = now();
    stage.until("the last process to go", |stage| stage.processes().is_empty());
    let last = now();
    println!("first gone {} ms, last gone {} ms after the deadline", first - deadline, last - deadline);
    assert!(first >= deadline, "not before the deadline");
    assert!(last - deadline <= 200, "{} ms", last - deadline);
    let seen = stage.agent.until(|state| matches!(state.postgres, Postgres::Stopped { .. }));
    let Postgres::Stopped { error: Some(error) } = seen.postgres else { panic!("{seen:?}") };
    assert!(error.starts_with("fenced"), "{error}");
    busy.iter_mut().for_each(|client| drop(client.wait()));

    let configuration = stage.configuration("first", "");
    let late = stage.agent.refused(Command::Start { configuration: configuration.clone(), until: now() - 1 });
    assert!(late.contains("deadline"), "{late}");
    stage.agent.done(Command::Start { configuration, until: now() + 600_000 });
    assert_eq!(stage.sql("SELECT x FROM kept"), "1");
}

#[test]
fn a_database_that_does_not_react_is_killed_even_when_the_agent_is_gone() {
    let mut stage = Stage::with_database();
    let deadline = now() + 400;
    stage.agent.extend(deadline);
    for pid in stage.processes() {
        kill(pid, "STOP");
    }
    stage.until("the last process to go", |stage| stage.processes().is_empty());
    let late = now() as i64 - deadline as i64;
    println!("gone {late} ms after the deadline");
    assert!((0..=200).contains(&late), "{late} ms");
}

#[test]
fn a_killed_postmaster_leaves_nobody_who_could_still_commit_and_the_runner_lives() {
    let mut stage = Stage::with_database();
    let mut busy = stage.psql("postgres", "postgres", "", "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$");
    let mut busy = busy.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let killed = Instant::now();
    kill(stage.postmaster(), "KILL");
    let seen = stage.agent.until(|state| matches!(state.postgres, Postgres::Stopped { .. }));
    println!("reported {:?} after the crash", killed.elapsed());
    assert!(stage.processes().is_empty());
    let Postgres::Stopped { error: Some(error) } = seen.postgres else { panic!("{seen:?}") };
    assert!(error.contains("signal 9"), "{error}");
    busy.wait().unwrap();
    let configuration = stage.configuration("first", "");
    stage.agent.done(Command::Start { configuration, until: now() + 600_000 });
    assert_eq!(stage.sql("SELECT 1"), "1");
}

#[test]
fn the_end_of_the_container_stops_postgres_cleanly_and_lets_the_agent_remember() {
    let mut stage = Stage::with_database();
    stage.agent.done(Command::Remember(member(3, 3)));
    stage.terminate();
    let seen = stage.agent.until(|state| state.ending && matches!(state.postgres, Postgres::Stopped { .. }));
    assert_eq!(seen.postgres, Postgres::Stopped { error: None });
    stage.agent.done(Command::Remember(member(4, 3)));
    let configuration = stage.configuration("first", "");
    let refused = stage.agent.refused(Command::Start { configuration, until: now() + 600_000 });
    assert!(refused.contains("ending"), "{refused}");
    let asked = Instant::now();
    stage.agent.say(&FromAgent::Leave);
    let status = stage.runner.wait().unwrap();
    println!("left {:?} after the word", asked.elapsed());
    assert!(status.success(), "{status}");
    assert!(asked.elapsed() < Duration::from_millis(500));
    assert_eq!(stage.controldata("Database cluster state"), "shut down");
    assert!(fs::read_to_string(stage.root.join("data/member.json")).unwrap().contains("\"promised\":4"));
}

#[test]
fn an_agent_that_comes_back_is_shown_the_key_and_finds_the_database_running() {
    let mut stage = Stage::with_database();
    assert_eq!(stage.agent.key_shown, None);
    let postmaster = stage.postmaster();
    stage.reconnect();
    assert_eq!(stage.agent.key_shown.as_deref(), Some(KEY));
    assert_eq!(stage.agent.state().postgres, Postgres::Running);
    assert_eq!(stage.postmaster(), postmaster);
    stage.agent.done(Command::Stop(StopMode::Immediate));
    assert!(stage.processes().is_empty());
}

#[test]
fn a_stop_overtakes_a_start_that_is_under_way() {
    let mut stage = Stage::with_database();
    stage.agent.done(Command::Stop(StopMode::Fast));
    let configuration = stage.configuration("first", "");
    let start = stage.agent.send(Command::Start { configuration, until: now() + 600_000 });
    let stop = stage.agent.send(Command::Stop(StopMode::Immediate));
    let mut replies = vec![];
    for id in [stop, start] {
        replies.push(stage.agent.reply_to_any(&[stop, start]));
        let _ = id;
    }
    replies.sort();
    assert!(replies[0].1.is_some(), "the start is not called done: {replies:?}");
    assert_eq!(replies[1], (stop, None));
    assert!(stage.processes().is_empty());
    assert!(matches!(stage.agent.state().postgres, Postgres::Stopped { .. }));
}

#[test]
fn a_database_that_was_open_is_never_initialised_again_and_no_promise_is_forgotten() {
    let mut stage = Stage::set();
    stage.agent.done(Command::Remember(member(5, 4)));
    let refused = stage.agent.refused(Command::Initdb(initdb()));
    assert!(refused.contains("open in term 4"), "{refused}");
    let refused = stage.agent.refused(Command::Remember(member(4, 4)));
    assert!(refused.contains("promised is 5"), "{refused}");
    assert_eq!(stage.agent.state().member, Some(member(5, 4)));
}

#[test]
fn what_an_interrupted_initdb_left_is_cleared_but_a_foreign_log_is_not() {
    let mut stage = Stage::set();
    fs::create_dir_all(stage.root.join("wal/pg_wal")).unwrap();
    fs::write(stage.root.join("wal/pg_wal/000000010000000000000001"), "somebody's").unwrap();
    let refused = stage.agent.refused(Command::Initdb(initdb()));
    assert!(refused.contains("data directory is missing"), "{refused}");
    fs::remove_dir_all(stage.root.join("wal/pg_wal")).unwrap();

    let id = stage.agent.send(Command::Initdb(initdb()));
    let new = stage.root.join("data/pgdata.new/base");
    stage.until("initdb to get going", |_| exists(&new));
    for pid in stage.processes() {
        kill(pid, "KILL");
    }
    assert!(stage.agent.reply(id).is_some());
    assert_eq!(stage.agent.state().data, Data::Empty);
    stage.agent.done(Command::Initdb(initdb()));
    assert!(matches!(stage.agent.state().data, Data::Initialised { .. }));
}

#[test]
fn no_file_but_the_configuration_is_written_for_the_agent() {
    let mut stage = Stage::with_database();
    let mut foreign = stage.configuration("foreign", "");
    foreign.files.extend(files(&[("../member.json", "{}")]));
    let refused = stage.agent.refused(Command::Configure(foreign));
    assert!(refused.contains("not one of"), "{refused}");
    assert!(!exists(&stage.root.join("data/member.json")));
}

#[test]
fn renewed_certificates_are_announced_until_the_reload() {
    let mut stage = Stage::with_database();
    assert!(!stage.agent.state().certificates_changed);
    fs::write(stage.root.join("tls/tls.crt"), "renewed").unwrap();
    stage.agent.until(|state| state.certificates_changed);
    stage.agent.done(Command::Reload);
    assert!(!stage.agent.state().certificates_changed);
}

#[test]
fn an_archive_command_without_a_repository_keeps_no_log_back() {
    let mut stage = Stage::with_database();
    let command = stage.root.join("bin/sampledb-runner").display().to_string();
    let archived = format!("archive_mode = on\narchive_command = '{command} archive %p %f'");
    let configuration = stage.configuration("archiving", &archived);
    stage.agent.done(Command::Configure(configuration));
    stage.agent.done(Command::Restart { until: now() + 600_000 });
    stage.sql("SELECT pg_switch_wal()");
    stage.until("the archiver to go on", |stage| {
        stage.sql("SELECT archived_count > 0 AND failed_count = 0 FROM pg_stat_archiver") == "t"
    });
}

#[test]
#[ignore = "needs root: it mounts a small volume. cargo test -p sampledb-instance --test runner -- --ignored"]
fn a_full_volume_gives_up_its_reserve_and_the_database_starts_again() {
    let mut stage = Stage::set_with_volume(Some(220), &["--ballast-mib", "64"]);
    stage.agent.done(Command::Initdb(initdb()));
    let configuration = stage.configuration("first", "");
    stage.agent.done(Command::Start { configuration: configuration.clone(), until: now() + 600_000 });
    assert_eq!(stage.agent.state().storage, Storage::Ok);
    // Faster than the looks at the volume: PostgreSQL itself meets the end of it.
    let filler = stage.root.join("wal/filler");
    let filling = std::process::Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", &format!("of={}", filler.display())])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!filling.success(), "the volume is full");
    stage.agent.until(|state| state.storage == Storage::BallastUsed);
    let made = stage.psql("postgres", "postgres", "", "CREATE TABLE t AS SELECT generate_series(1, 100000) x");
    let _ = { made }.stderr(Stdio::null()).status().unwrap();
    if matches!(stage.agent.state().postgres, Postgres::Stopped { .. }) {
        stage.agent.done(Command::Start { configuration, until: now() + 600_000 });
    }
    assert_eq!(stage.sql("SELECT 1"), "1");
    fs::remove_file(&filler).unwrap();
    stage.sql("SELECT 1");
}

#[test]
fn a_stranger_on_the_agents_socket_is_told_nothing() {
    let root = std::env::temp_dir().join(format!("sampledb-stranger-{}", std::process::id()));
    fs::create_dir_all(root.join("data")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(root.join("runner.sock")).unwrap();
    let path = root.display().to_string();
    let mut runner = std::process::Command::new(env!("CARGO_BIN_EXE_sampledb-runner"))
        .args(["--control", &path, "--data", &format!("{path}/data"), "--agent-uid", "64999"])
        .stderr(fs::File::create(root.join("output")).unwrap())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut heard = String::new();
    std::io::Read::read_to_string(&mut stream, &mut heard).unwrap();
    assert_eq!(heard, "");
    kill(runner.id() as i32, "TERM");
    assert!(runner.wait().unwrap().success());
    let output = fs::read_to_string(root.join("output")).unwrap();
    assert!(output.contains("and not 64999"), "{output}");
    fs::remove_dir_all(root).unwrap();
}
