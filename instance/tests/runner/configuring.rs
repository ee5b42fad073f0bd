//! What becomes of a configuration.

use std::fs;

use sampledb_instance::control::{Command, Postgres, StopMode};

use crate::stage::{Stage, exists, files, now};

#[test]
fn a_configuration_that_postgres_refuses_changes_nothing() {
    let mut stage = Stage::with_database();
    let shown = |stage: &Stage| stage.sql("SHOW work_mem");
    let before = fs::read_to_string(stage.pgdata().join("postgresql.conf")).unwrap();

    let bad = stage.configuration("bad", "work_mem = 'much'");
    let error = stage.agent.refused(Command::Configure(bad));
    assert!(
        error.contains("invalid value for parameter \"work_mem\""),
        "{error}"
    );
    assert!(!error.contains("candidate"), "{error}");
    let unknown = stage.configuration("unknown", "work_men = 1");
    let error = stage.agent.refused(Command::Configure(unknown));
    assert!(
        error.contains("unrecognized configuration parameter \"work_men\""),
        "{error}"
    );

    let mut access = stage.configuration("access", "");
    access.files.insert(
        "pg_hba.conf".into(),
        "local all postgres peer map=test\nlocal all all nonsense\n".into(),
    );
    let error = stage.agent.refused(Command::Configure(access));
    assert!(
        error.contains("pg_hba.conf, line 2") && error.contains("nonsense"),
        "{error}"
    );

    assert_eq!(
        fs::read_to_string(stage.pgdata().join("postgresql.conf")).unwrap(),
        before
    );
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
    stage.agent.done(Command::Restart {
        until: now() + 600_000,
    });
    let seen = stage.agent.state();
    assert_eq!(seen.postgres, Postgres::Running);
    assert_eq!(seen.config_hash.as_deref(), Some("first"));
    let refused = seen.refused.clone().unwrap();
    assert_eq!(refused.hash, "doomed");
    assert!(
        refused.error.contains("nobody-has-this-group"),
        "{}",
        refused.error
    );
    assert_eq!(stage.sql("SHOW shared_buffers"), "16MB");
    assert_eq!(
        stage.agent.refused(Command::Configure(doomed)),
        refused.error,
        "not tried again and again"
    );

    let small = stage.configuration("small", "shared_buffers = 24MB");
    stage.agent.done(Command::Configure(small));
    assert_eq!(stage.agent.state().refused, None);
    let postmaster = stage.postmaster();
    stage.agent.done(Command::Restart {
        until: now() + 600_000,
    });
    assert_ne!(stage.postmaster(), postmaster);
    assert_eq!(stage.sql("SHOW shared_buffers"), "24MB");
}

#[test]
fn a_configuration_is_not_blamed_when_postgres_starts_with_none() {
    let mut stage = Stage::with_database();
    let doomed = stage.configuration("doomed", "unix_socket_group = 'nobody-has-this-group'");
    stage.agent.done(Command::Configure(doomed.clone()));
    stage.agent.done(Command::Stop(StopMode::Fast));
    let start = Command::Start {
        configuration: doomed,
        until: now() + 600_000,
    };
    let (needed, away) = (stage.pgdata().join("pg_notify"), stage.pgdata().join("away"));
    fs::rename(&needed, &away).unwrap();
    let error = stage.agent.refused(start.clone());
    assert!(error.contains("pg_notify"), "{error}");
    assert_eq!(stage.agent.state().refused, None);
    assert_eq!(stage.agent.state().config_hash.as_deref(), Some("doomed"));
    fs::rename(&away, &needed).unwrap();
    stage.agent.done(start);
    assert_eq!(stage.agent.state().config_hash.as_deref(), Some("first"));
    assert_eq!(stage.agent.state().refused.as_ref().unwrap().hash, "doomed");
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
