//! How a database is made, and what is never made again.

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use sampledb_instance::control::{Command, Data, Establish, Postgres, StopMode, Storage};

use crate::stage::{Stage, exists, initdb, kill, member, now, text};

fn establish(stage: &Stage, password: &str) -> Establish {
    let verifier = stage.sql(&format!(
        "DROP ROLE IF EXISTS maker; CREATE ROLE maker PASSWORD '{password}'; \
         SELECT rolpassword FROM pg_authid WHERE rolname = 'maker'"
    ));
    Establish {
        database: Some("shop".into()),
        owner: "shop_owner".into(),
        verifier,
    }
}

#[test]
fn a_new_database_answers_its_owner_and_nobody_else() {
    let mut stage = Stage::set();
    assert_eq!(stage.agent.state().data, Data::Empty);
    stage.agent.done(Command::Remember(member(1, 0)));
    let begun = Instant::now();
    stage.agent.done(Command::Initdb(initdb()));
    println!("initdb: {:?}", begun.elapsed());
    let Data::Initialised {
        system_id, timeline, ..
    } = stage.agent.state().data.clone()
    else {
        panic!("{:?}", stage.agent.state())
    };
    assert_eq!(system_id, stage.controldata("Database system identifier"));
    assert_eq!(timeline, 1);
    assert_eq!(stage.controldata("Data page checksum version"), "1");
    assert!(!exists(&stage.root.join("data/pgdata.new")));
    assert!(
        stage
            .pgdata()
            .join("pg_wal")
            .read_link()
            .unwrap()
            .ends_with("wal/pg_wal")
    );
    assert!(exists(&stage.root.join("wal/ballast")));
    assert_eq!(stage.agent.state().storage, Storage::Ok);

    let configuration = stage.configuration("first", "");
    let begun = Instant::now();
    stage.agent.done(Command::Start {
        configuration,
        until: now() + 600_000,
    });
    println!("start: {:?}", begun.elapsed());
    assert_eq!(stage.agent.state().postgres, Postgres::Running);
    assert_eq!(stage.agent.state().config_hash.as_deref(), Some("first"));

    let wish = establish(&stage, "first-secret");
    let begun = Instant::now();
    stage.agent.done(Command::Establish(wish.clone()));
    println!("establish: {:?}", begun.elapsed());
    stage.agent.done(Command::Establish(wish.clone()));
    let as_owner =
        |password: &str, sql: &str| stage.psql("shop", "shop_owner", password, sql).output().unwrap();
    text(&as_owner(
        "first-secret",
        "CREATE TABLE t (x int); INSERT INTO t VALUES (1)",
    ));
    assert!(!as_owner("another", "SELECT 1").status.success());
    let roles = stage.sql(
        "SELECT rolname, rolsuper, rolcanlogin, rolreplication, rolcreaterole, rolcreatedb, rolpassword IS NULL \
         FROM pg_authid WHERE rolname LIKE 'sampledb_%' OR rolname = 'shop_owner' ORDER BY 1",
    );
    assert_eq!(
        roles,
        "sampledb_agent|f|t|f|f|f|t\nsampledb_replication|f|t|t|f|f|t\nshop_owner|f|t|f|f|f|f"
    );
    assert_eq!(
        stage.sql("SELECT datacl FROM pg_database WHERE datname = 'shop'"),
        "{shop_owner=CTc/shop_owner}"
    );
    assert_eq!(
        stage.sql("SET ROLE sampledb_agent; INSERT INTO sampledb.opening (term, instance) VALUES (1, 'a') RETURNING term"),
        "1"
    );

    let changed = establish(&stage, "second-secret");
    stage.agent.done(Command::Establish(Establish {
        database: None,
        ..changed
    }));
    let as_owner = |password: &str| {
        stage
            .psql("shop", "shop_owner", password, "SELECT x FROM t")
            .output()
            .unwrap()
    };
    assert_eq!(text(&as_owner("second-secret")), "1");
    assert!(!as_owner("first-secret").status.success());
    let of_establish = stage
        .output()
        .lines()
        .filter(|l| l.contains("shop_owner") && l.contains("SCRAM"))
        .count();
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
    fs::write(
        stage.root.join("wal/pg_wal/000000010000000000000001"),
        "somebody's",
    )
    .unwrap();
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
fn an_archive_command_without_a_repository_keeps_no_log_back() {
    let mut stage = Stage::with_database();
    let command = stage.root.join("bin/sampledb-runner").display().to_string();
    let archived = format!("archive_mode = on\narchive_command = '{command} archive %p %f'");
    let configuration = stage.configuration("archiving", &archived);
    stage.agent.done(Command::Configure(configuration));
    stage.agent.done(Command::Restart {
        until: now() + 600_000,
    });
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
    stage.agent.done(Command::Start {
        configuration: configuration.clone(),
        until: now() + 600_000,
    });
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
    let made = stage.psql(
        "postgres",
        "postgres",
        "",
        "CREATE TABLE t AS SELECT generate_series(1, 100000) x",
    );
    let _ = { made }.stderr(Stdio::null()).status().unwrap();
    if matches!(stage.agent.state().postgres, Postgres::Stopped { .. }) {
        stage.agent.done(Command::Start {
            configuration,
            until: now() + 600_000,
        });
    }
    assert_eq!(stage.sql("SELECT 1"), "1");
    fs::remove_file(&filler).unwrap();
    stage.sql("SELECT 1");
}
