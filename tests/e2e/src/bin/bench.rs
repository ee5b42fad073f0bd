//! The figures of docs/benchmarks.md, on the cluster that is up, with the chart installed.
//!
//! It reads three clocks that exist anyway: this process's own, the API server's audit log, and the kernel's account
//! of memory. Nothing here is asserted: a figure is written down, not passed or failed.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sampledb_e2e::{Database, Namespace, RELEASE_NAMESPACE, kubectl, processes, within};
use serde_json::Value;

const CONTROLLERS: [&str; 2] = ["sampledb-provisioner", "sampledb-service-publisher"];
const CREATES: usize = 20;
const CHANGES: usize = 200;
const FLEET: usize = 200;
/// Between two creates: the end of the one before takes CPU, too.
const CALM: Duration = Duration::from_secs(5);
const SMALL: &str = ", scheduling: {resources: {requests: {cpu: 10m, memory: 64Mi}}}";

fn main() {
    let mut page = String::from("| what | p50 | p99 or most | how many |\n|---|---|---|---|\n");
    for part in [creates, changes, memory] {
        for row in part() {
            println!("{row}");
            writeln!(page, "{row}").unwrap();
        }
    }
    fs::create_dir_all("target").unwrap();
    fs::write("target/bench.md", page).unwrap();
    println!("written: target/bench.md");
}

fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 * p).ceil() as usize).saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

fn row(what: &str, unit: &str, mut values: Vec<f64>) -> String {
    let digits = usize::from(unit == "MiB");
    let (p50, p99) = (percentile(&mut values, 0.5), percentile(&mut values, 0.99));
    format!(
        "| {what} | {p50:.digits$} {unit} | {p99:.digits$} {unit} | {} |",
        values.len()
    )
}

/// The audit log from `from` on: (milliseconds since midnight UTC, entry).
fn audit(from: u64) -> Vec<(f64, Value)> {
    let log = std::env::var("SAMPLEDB_AUDIT_LOG")
        .unwrap_or_else(|_| "/var/lib/sampledb-cluster/log/audit.log".into());
    let bytes = fs::read(log).expect("the audit log of the test cluster");
    String::from_utf8_lossy(&bytes[from as usize..])
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|entry| {
            (
                milliseconds(entry["stageTimestamp"].as_str().unwrap_or_default()),
                entry,
            )
        })
        .collect()
}

fn audit_end() -> u64 {
    let log = std::env::var("SAMPLEDB_AUDIT_LOG")
        .unwrap_or_else(|_| "/var/lib/sampledb-cluster/log/audit.log".into());
    fs::metadata(log)
        .expect("the audit log of the test cluster")
        .len()
}

/// Of "2026-01-31T12:34:56.789012Z".
fn milliseconds(stamp: &str) -> f64 {
    let time = stamp.split('T').nth(1).unwrap_or_default().trim_end_matches('Z');
    let mut parts = time.split(':').map(|p| p.parse::<f64>().unwrap_or(0.0));
    let (h, m, s) = (
        parts.next().unwrap_or(0.0),
        parts.next().unwrap_or(0.0),
        parts.next().unwrap_or(0.0),
    );
    ((h * 60.0 + m) * 60.0 + s) * 1000.0
}

fn by(entry: &Value, controller: &str) -> bool {
    entry["user"]["username"]
        .as_str()
        .is_some_and(|u| u.ends_with(controller))
}

/// create → first query by a client, and the controllers' own share: from the SampleDB's creation to the
/// StatefulSet's, both as the API server finished them.
fn creates() -> Vec<String> {
    let ns = Namespace::new("bench-create");
    let folder = std::env::temp_dir().join("sampledb-bench");
    fs::create_dir_all(&folder).unwrap();
    let ca = folder.join("ca.crt");
    let from = audit_end();
    let spent: Vec<f64> = CONTROLLERS.iter().map(|c| cpu(c)).collect();
    let mut totals = Vec::new();
    let proxy = Proxy::start();
    for n in 0..CREATES {
        let name = format!("db{n}");
        let databases = format!("/apis/sampledb.dev/v1/namespaces/{}/sampledbs", ns.0);
        let slice = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices/{name}-rw",
            ns.0
        );
        let secret = format!("/api/v1/namespaces/{}/secrets/{name}-app", ns.0);
        let began = Instant::now();
        proxy.send(
            "POST",
            &databases,
            "application/yaml",
            &Database::manifest(&name, SMALL),
        );
        let address = proxy.wait_for(&slice, |slice| {
            slice["endpoints"][0]["addresses"][0].as_str().map(str::to_owned)
        });
        let secret = proxy.wait_for(&secret, |secret| Some(secret.clone()));
        let key = |key: &str| {
            let encoded = secret["data"][key].as_str().unwrap().to_owned();
            let output = Command::new("bash")
                .args(["-c", "base64 -d <<<$0", &encoded])
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        fs::write(&ca, key("ca.crt")).unwrap();
        within(60, "the first query", || {
            let output = Command::new("psql")
                .args([&key("uri"), "-XAtqc", "select 1"])
                .env("PGSSLROOTCERT", &ca)
                .env("PGHOSTADDR", &address)
                .output()
                .unwrap();
            if output.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        });
        totals.push(began.elapsed().as_secs_f64() * 1000.0);
        ns.kubectl(&["delete", "sampledb", &name, "--wait=false"]);
        sleep(CALM);
    }
    let spent: Vec<f64> = CONTROLLERS
        .iter()
        .zip(spent)
        .map(|(controller, before)| (cpu(controller) - before) / CREATES as f64)
        .collect();
    let entries = audit(from);
    let mut created: BTreeMap<String, f64> = BTreeMap::new();
    let mut share = Vec::new();
    for (at, entry) in &entries {
        let reference = &entry["objectRef"];
        if reference["namespace"] != ns.0.as_str() || entry["responseStatus"]["code"] != 201 {
            continue;
        }
        let name = reference["name"].as_str().unwrap_or_default().to_owned();
        match reference["resource"].as_str() {
            Some("sampledbs") => {
                created.insert(name, *at);
            }
            Some("statefulsets") => share.extend(created.get(&name).map(|began| at - began)),
            _ => {}
        }
    }
    vec![
        row("create → first query by a client", "ms", totals),
        row(
            "of that the controllers: SampleDB created → StatefulSet created",
            "ms",
            share,
        ),
        format!(
            "| CPU of the provisioner and of the service-publisher for one create and delete | {:.0} + {:.0} ms | | {CREATES} |",
            spent[0], spent[1]
        ),
    ]
}

/// A change of the spec → the provisioner's first write, at 20 changes a second.
fn changes() -> Vec<String> {
    let ns = Namespace::new("bench-change");
    let db = Database::ready(&ns, "orders", SMALL);
    let from = audit_end();
    let proxy = Proxy::start();
    let path = format!("/apis/sampledb.dev/v1/namespaces/{}/sampledbs/{}", ns.0, db.name);
    let mut due = Instant::now();
    for n in 0..CHANGES {
        let body = format!(
            r#"{{"spec":{{"postgres":{{"parameters":{{"work_mem":"{}kB"}}}}}}}}"#,
            4096 + n
        );
        proxy.send("PATCH", &path, "application/merge-patch+json", &body);
        due += Duration::from_millis(50);
        sleep(due.saturating_duration_since(Instant::now()));
    }
    db.wait_ready();
    let mut waiting: Option<f64> = None;
    let mut delays = Vec::new();
    for (at, entry) in audit(from) {
        if entry["objectRef"]["namespace"] != ns.0.as_str() {
            continue;
        }
        let resource = entry["objectRef"]["resource"].as_str().unwrap_or_default();
        if resource == "sampledbs"
            && entry["objectRef"]["subresource"].is_null()
            && !by(&entry, "-provisioner")
        {
            waiting.get_or_insert(at);
        } else if by(&entry, "-provisioner") && resource == "configmaps" {
            delays.extend(waiting.take().map(|began| at - began));
        }
    }
    vec![row(
        "a change of the spec → the provisioner's first write, 20 changes a second",
        "ms",
        delays,
    )]
}

/// A way to the API server that costs the machine less than a kubectl for each change.
struct Proxy {
    kubectl: Child,
    address: String,
}

impl Proxy {
    fn start() -> Self {
        let mut kubectl = Command::new("kubectl")
            .args(["proxy", "--port=0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(kubectl.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .rsplit(' ')
            .next()
            .expect("the proxy says where it listens")
            .to_owned();
        Self { kubectl, address }
    }

    /// Sends a request that has to succeed.
    fn send(&self, method: &str, path: &str, content: &str, body: &str) {
        let answer = self.ask(method, path, content, body);
        assert!(succeeded(&answer), "{answer}");
    }

    /// Looks at an object until it has what is waited for.
    fn wait_for<T>(&self, path: &str, has: impl Fn(&Value) -> Option<T>) -> T {
        within(120, path, || {
            let answer = self.ask("GET", path, "application/json", "");
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let found = serde_json::from_str(body).ok().filter(|_| succeeded(&answer));
            found.as_ref().and_then(&has).ok_or(answer)
        })
    }

    /// HTTP/1.0: an answer without chunks.
    fn ask(&self, method: &str, path: &str, content: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {content}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn succeeded(answer: &str) -> bool {
    answer.split(' ').nth(1).is_some_and(|code| code.starts_with('2'))
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

/// Milliseconds of CPU that the processes of a program took so far.
fn cpu(program: &str) -> f64 {
    // USER_HZ is 100 on every Linux that Kubernetes runs on.
    processes(program)
        .iter()
        .filter_map(|process| fs::read_to_string(process.join("stat")).ok())
        .filter_map(|stat| {
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) * 10.0)
        })
        .sum()
}

fn resident(program: &str) -> Vec<f64> {
    let resident = |folder: &PathBuf| {
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let kib = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
        Some(kib.trim().split(' ').next()?.parse::<f64>().ok()? / 1024.0)
    };
    processes(program).iter().filter_map(resident).collect()
}

/// Requests of a controller so far, by its own count.
fn requests(controller: &str) -> f64 {
    let path =
        format!("/api/v1/namespaces/{RELEASE_NAMESPACE}/services/{controller}-metrics:http/proxy/metrics");
    kubectl(&["get", "--raw", &path])
        .lines()
        .filter(|l| l.starts_with("rest_client_requests_total"))
        .filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Memory and idle requests with one database, and with a fleet of hibernated ones (all their objects, no pods).
fn memory() -> Vec<String> {
    // From a fresh start: what the parts before left in the heap is none of one SampleDB's.
    for controller in CONTROLLERS {
        let deployment = format!("deployment/{controller}");
        kubectl(&["-n", RELEASE_NAMESPACE, "rollout", "restart", &deployment]);
        kubectl(&[
            "-n",
            RELEASE_NAMESPACE,
            "rollout",
            "status",
            &deployment,
            "--timeout=120s",
        ]);
    }
    let ns = Namespace::new("bench-memory");
    let _db = Database::ready(&ns, "orders", SMALL);
    sleep(Duration::from_mins(1));
    let mut rows = Vec::new();
    let before: Vec<f64> = CONTROLLERS.iter().map(|c| requests(c)).collect();
    sleep(Duration::from_mins(1));
    for (controller, before) in CONTROLLERS.iter().zip(before) {
        rows.push(format!(
            "| requests of {controller} in an idle minute | {} | | 1 |",
            requests(controller) - before
        ));
        rows.push(row(
            &format!("memory of {controller}, 1 SampleDB"),
            "MiB",
            resident(controller),
        ));
    }
    for program in ["sampledb-agent", "sampledb-runner"] {
        rows.push(row(&format!("memory of {program}"), "MiB", resident(program)));
    }
    // Twice, because the first fleet also makes the controllers as busy as they ever get: the second one's share is that
    // of the SampleDBs alone.
    for fleet in [FLEET, 2 * FLEET] {
        let manifests: Vec<String> = (fleet - FLEET..fleet)
            .map(|n| Database::manifest(&format!("fleet{n}"), ", instances: 0"))
            .collect();
        for some in manifests.chunks(50) {
            ns.apply(&some.join("\n---\n")).unwrap();
        }
        within(900, "the fleet", || {
            let phases = ns.kubectl(&["get", "sampledbs", "-o", "jsonpath={.items[*].status.phase}"]);
            let there = phases.matches("Hibernated").count();
            if there == fleet { Ok(()) } else { Err(there) }
        });
        sleep(Duration::from_secs(30));
        for controller in CONTROLLERS {
            rows.push(row(
                &format!("memory of {controller}, {} SampleDBs", fleet + 1),
                "MiB",
                resident(controller),
            ));
        }
    }
    rows
}
