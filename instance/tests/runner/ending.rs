//! How PostgreSQL ends: asked, unasked, and by the fence.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sampledb_instance::control::{Command, FromAgent, Postgres, StopMode};

use crate::agent::KEY;
use crate::stage::{Stage, kill, member, now};

/// Longer than the default of 200, which a machine that is busy with other tests may miss; milliseconds.
const BUDGET: u64 = 3_000;

#[test]
fn a_database_whose_agent_falls_silent_is_gone_within_the_budget() {
    let mut stage = Stage::with_database_and(&["--stop-budget-ms", &BUDGET.to_string()]);
    stage.sql("CREATE TABLE kept (x int); INSERT INTO kept VALUES (1)");
    let mut busy: Vec<_> = [
        "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$",
        "COPY (SELECT 1) TO PROGRAM 'trap \"\" QUIT TERM INT; (sleep 1000 &); cat > /dev/null; sleep 1000'",
    ]
    .iter()
    .map(|sql| {
        stage
            .psql("postgres", "postgres", "", sql)
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    })
    .collect();
    std::thread::sleep(Duration::from_millis(300));
    assert!(stage.processes().len() > 8, "{:?}", stage.processes());

    let deadline = now() + 500;
    stage.agent.extend(deadline);
    stage.until("the first process to go", |stage| stage.processes().len() < 8);
    let first = now();
    stage.until("the last process to go", |stage| stage.processes().is_empty());
    let last = now();
    println!(
        "first gone {} ms, last gone {} ms after the deadline",
        first - deadline,
        last - deadline
    );
    assert!(first >= deadline, "not before the deadline");
    assert!(last - deadline < BUDGET / 2, "{} ms", last - deadline);
    let seen = stage
        .agent
        .until(|state| matches!(state.postgres, Postgres::Stopped { .. }));
    let Postgres::Stopped { error: Some(error) } = seen.postgres else {
        panic!("{seen:?}")
    };
    assert!(error.starts_with("fenced"), "{error}");
    for client in &mut busy {
        client.wait().unwrap();
    }

    let configuration = stage.configuration("first", "");
    let late = stage.agent.refused(Command::Start {
        configuration: configuration.clone(),
        until: now() - 1,
    });
    assert!(late.contains("deadline"), "{late}");
    stage.agent.done(Command::Start {
        configuration,
        until: now() + 600_000,
    });
    assert_eq!(stage.sql("SELECT x FROM kept"), "1");
}

#[test]
fn a_database_that_does_not_react_is_killed_even_when_the_agent_is_gone() {
    let mut stage = Stage::with_database_and(&["--stop-budget-ms", &BUDGET.to_string()]);
    let deadline = now() + 400;
    stage.agent.extend(deadline);
    for pid in stage.processes() {
        kill(pid, "STOP");
    }
    stage.until("the last process to go", |stage| stage.processes().is_empty());
    let late = now() as i64 - deadline as i64;
    println!("gone {late} ms after the deadline");
    assert!((BUDGET as i64 / 2..=BUDGET as i64).contains(&late), "{late} ms");
}

#[test]
fn a_killed_postmaster_leaves_nobody_who_could_still_commit_and_the_runner_lives() {
    let mut stage = Stage::with_database();
    let mut busy = stage.psql(
        "postgres",
        "postgres",
        "",
        "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$",
    );
    let mut busy = busy.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let killed = Instant::now();
    kill(stage.postmaster(), "KILL");
    let seen = stage
        .agent
        .until(|state| matches!(state.postgres, Postgres::Stopped { .. }));
    println!("reported {:?} after the crash", killed.elapsed());
    assert!(stage.processes().is_empty());
    let Postgres::Stopped { error: Some(error) } = seen.postgres else {
        panic!("{seen:?}")
    };
    assert!(error.contains("signal 9"), "{error}");
    busy.wait().unwrap();
    let configuration = stage.configuration("first", "");
    stage.agent.done(Command::Start {
        configuration,
        until: now() + 600_000,
    });
    assert_eq!(stage.sql("SELECT 1"), "1");
}

#[test]
fn the_end_of_the_container_stops_postgres_cleanly_and_lets_the_agent_remember() {
    let mut stage = Stage::with_database();
    stage.agent.done(Command::Remember(member(3, 3)));
    stage.terminate();
    let seen = stage
        .agent
        .until(|state| state.ending && matches!(state.postgres, Postgres::Stopped { .. }));
    assert_eq!(seen.postgres, Postgres::Stopped { error: None });
    stage.agent.done(Command::Remember(member(4, 3)));
    let configuration = stage.configuration("first", "");
    let refused = stage.agent.refused(Command::Start {
        configuration,
        until: now() + 600_000,
    });
    assert!(refused.contains("ending"), "{refused}");
    let asked = Instant::now();
    stage.agent.say(&FromAgent::Leave);
    let status = stage.runner.wait().unwrap();
    println!("left {:?} after the word", asked.elapsed());
    assert!(status.success(), "{status}");
    assert!(asked.elapsed() < Duration::from_millis(500));
    assert_eq!(stage.controldata("Database cluster state"), "shut down");
    assert!(
        fs::read_to_string(stage.root.join("data/member.json"))
            .unwrap()
            .contains("\"promised\":4")
    );
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
    let start = stage.agent.send(Command::Start {
        configuration,
        until: now() + 600_000,
    });
    let stop = stage.agent.send(Command::Stop(StopMode::Immediate));
    let mut replies = vec![];
    for id in [stop, start] {
        replies.push(stage.agent.reply_to_any(&[stop, start]));
        let _ = id;
    }
    replies.sort();
    assert!(
        replies[0].1.is_some(),
        "the start is not called done: {replies:?}"
    );
    assert_eq!(replies[1], (stop, None));
    assert!(stage.processes().is_empty());
    assert!(matches!(stage.agent.state().postgres, Postgres::Stopped { .. }));
}

#[test]
fn a_stranger_on_the_agents_socket_is_told_nothing() {
    let root = std::env::temp_dir().join(format!("sampledb-stranger-{}", std::process::id()));
    fs::create_dir_all(root.join("data")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(root.join("runner.sock")).unwrap();
    let path = root.display().to_string();
    let mut runner = std::process::Command::new(env!("CARGO_BIN_EXE_sampledb-runner"))
        .args([
            "--control",
            &path,
            "--data",
            &format!("{path}/data"),
            "--agent-uid",
            "64999",
        ])
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
