//! What the suite says of itself, and that it says nothing while nothing happens.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::process::{Command, Stdio};

use sampledb_e2e::{Database, Namespace, RELEASE_NAMESPACE, kubectl, within};

fn targets() -> Vec<(String, String)> {
    let pods = kubectl(&[
        "-n",
        RELEASE_NAMESPACE,
        "get",
        "pods",
        "-l",
        "app.kubernetes.io/part-of=sampledb",
        "-o",
        "jsonpath={range .items[?(@.status.phase=='Running')]}{.metadata.name} {.status.podIP}:8080{\"\\n\"}{end}",
    ]);
    pods.lines()
        .filter_map(|l| l.split_once(' '))
        .map(|(n, a)| (n.to_owned(), a.to_owned()))
        .collect()
}

/// GET over the network of the cluster, from this machine.
fn get(address: &str, path: &str) -> Result<String, String> {
    let output = Command::new("curl")
        .args(["-sf", "--max-time", "5", &format!("http://{address}{path}")])
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{address}{path}: {output:?}"))
    }
}

fn promtool(metrics: &str) -> String {
    use std::io::Write;
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn prometheus_scrapes_every_controller_and_promtool_finds_nothing() {
    let ns = Namespace::new("metrics");
    let db = Database::ready(&ns, "orders", "");
    let mut addresses: Vec<_> = targets().into_iter().map(|t| t.1).collect();
    assert!(addresses.len() >= 2, "controllers: {addresses:?}");
    let pod = ns.kubectl(&[
        "get",
        "pod",
        &format!("{}-0", db.name),
        "-o",
        "jsonpath={.status.podIP}",
    ]);
    addresses.push(format!("{pod}:9187"));
    for address in &addresses {
        let metrics = get(address, "/metrics").unwrap();
        assert_eq!(promtool(&metrics), "", "{address}");
        get(address, "/livez").unwrap();
        get(address, "/readyz").unwrap();
    }

    let folder = std::env::temp_dir().join(format!("sampledb-prometheus-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let list = addresses
        .iter()
        .map(|a| format!("\"{a}\""))
        .collect::<Vec<_>>()
        .join(",");
    std::fs::write(folder.join("prometheus.yml"), format!("global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: sampledb\n  static_configs: [{{targets: [{list}]}}]\n")).unwrap();
    let mut prometheus = Command::new("prometheus")
        .args([
            &format!("--config.file={}", folder.join("prometheus.yml").display()),
            &format!("--storage.tsdb.path={}", folder.join("data").display()),
            "--web.listen-address=127.0.0.1:19090",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus does not start: `make setup` installs it");
    let up = || {
        let answer = get("127.0.0.1:19090", "/api/v1/query?query=count(up==1)")?;
        if answer.contains(&format!("\"{}\"]", addresses.len())) {
            Ok(())
        } else {
            Err(answer)
        }
    };
    let result = std::panic::catch_unwind(|| within(60, "every target is up", up));
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    result.unwrap();
}
