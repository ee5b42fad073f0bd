//! Nothing is written while nothing happens.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::time::Duration;

use sampledb_e2e::{Database, Namespace};
use serde_json::Value;

#[test]
fn three_idle_minutes_of_ten_databases_write_nothing_but_the_leases() {
    let log = std::env::var("SAMPLEDB_AUDIT_LOG")
        .unwrap_or_else(|_| "/var/lib/sampledb-cluster/log/audit.log".into());
    let ns = Namespace::new("quiet");
    let databases: Vec<_> = (0..10)
        .map(|n| {
            Database::create(
                &ns,
                &format!("db{n}"),
                ", scheduling: {resources: {requests: {cpu: 10m, memory: 64Mi}}}",
            )
        })
        .collect();
    for db in &databases {
        db.wait_ready();
    }
    // The last events of the creates are still being counted together.
    std::thread::sleep(Duration::from_secs(30));
    let from = std::fs::metadata(&log).unwrap().len();
    std::thread::sleep(Duration::from_mins(3));
    let text = std::fs::read(&log).unwrap();
    let text = String::from_utf8_lossy(&text[from as usize..]).into_owned();
    let ours: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|e| {
            let user = e["user"]["username"].as_str().unwrap_or_default();
            let ours = user.starts_with("system:serviceaccount:sampledb-system:")
                || (user.starts_with("system:serviceaccount:") && user.ends_with("-instance"));
            ours && ["create", "update", "patch", "delete"].contains(&e["verb"].as_str().unwrap_or_default())
                && e["objectRef"]["resource"] != "leases"
        })
        .map(|e| {
            format!(
                "{} {} {}/{} by {}",
                e["verb"],
                e["objectRef"]["resource"],
                e["objectRef"]["namespace"],
                e["objectRef"]["name"],
                e["user"]["username"]
            )
        })
        .collect();
    assert_eq!(ours, Vec::<String>::new());
}
