//! The agent away while its database runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::fs;
use std::process::Command;

use sampledb_e2e::{Database, Namespace, condition, eventually, processes};

/// The process of the agent in a pod.
fn agent(pod_uid: &str) -> String {
    let agents = processes("sampledb-agent");
    let is_in_pod = |cgroup: String| cgroup.contains(pod_uid);
    let mut of_pod = agents
        .iter()
        .filter(|folder| fs::read_to_string(folder.join("cgroup")).is_ok_and(is_in_pod));
    let folder = of_pod.next().expect("an agent runs in the pod");
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn an_agent_that_is_killed_comes_back_and_postgres_goes_on_meanwhile() {
    let ns = Namespace::new("agent");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    client.sql("create table t (id int)");
    let started = client.sql("select pg_postmaster_start_time()");
    let pod = db.uid("pod", "orders-0").unwrap();
    let restarts = || {
        ns.kubectl(&[
            "get",
            "pod",
            "orders-0",
            "-o",
            "jsonpath={.status.initContainerStatuses[?(@.name=='agent')].restartCount}",
        ])
    };
    for (signal, after) in [("KILL", "1"), ("TERM", "2")] {
        let killed = Command::new("kill").args(["-s", signal, &agent(&pod)]).status();
        assert!(killed.unwrap().success());
        eventually("the agent is there again", || {
            let now = restarts();
            if now == after { Ok(()) } else { Err(now) }
        });
        client.sql("insert into t values (1)");
        eventually("PrimaryElected", || {
            match condition(&db.object(), "PrimaryElected") {
                Some((status, reason, _)) if status == "True" && reason == "Open" => Ok(()),
                other => Err(other),
            }
        });
        db.wait_ready();
        let now = client.sql("select pg_postmaster_start_time()");
        if signal == "KILL" {
            assert_eq!(now, started, "PostgreSQL was restarted");
        }
        assert_eq!(db.object()["status"]["election"]["primary"], "orders-0");
    }
    assert_eq!(client.sql("select count(*) from t"), "2");
}
