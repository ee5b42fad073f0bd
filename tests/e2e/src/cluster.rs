//! kubectl and helm, and a namespace of one's own for each test.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(program: &str, args: &[&str], input: Option<&str>) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program} does not start: {e}. `make setup` installs it."));
    if let Some(text) = input {
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> Result<String, String> {
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout))
    }
}

/// kubectl; its error text when it fails.
pub fn try_kubectl(args: &[&str]) -> Result<String, String> {
    text(&run("kubectl", args, None))
}

/// kubectl, which must succeed.
pub fn kubectl(args: &[&str]) -> String {
    try_kubectl(args).unwrap_or_else(|e| panic!("kubectl {}: {e}", args.join(" ")))
}

/// kubectl with something on its standard input; its error text when it fails.
pub fn kubectl_in(args: &[&str], input: &str) -> Result<String, String> {
    text(&run("kubectl", args, Some(input)))
}

/// helm; its error text when it fails.
pub fn helm(args: &[&str]) -> Result<String, String> {
    text(&run("helm", args, None))
}

/// A namespace that enforces the *restricted* policy, gone at the end of the test.
pub struct Namespace(pub String);

impl Namespace {
    /// A new one; `name` must be the test's own.
    pub fn new(name: &str) -> Self {
        let name = format!("e2e-{name}");
        let _ = try_kubectl(&["delete", "sampledbs", "--all", "-n", &name, "--wait=false"]);
        let _ = try_kubectl(&["delete", "namespace", &name, "--wait=true", "--timeout=120s"]);
        let manifest = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{pod-security.kubernetes.io/enforce: restricted}}}}}}"
        );
        kubectl_in(&["apply", "-f", "-"], &manifest).unwrap();
        Self(name)
    }

    /// kubectl in this namespace, which must succeed.
    pub fn kubectl(&self, args: &[&str]) -> String {
        kubectl(&[&["-n", &self.0], args].concat())
    }

    /// kubectl in this namespace; its error text when it fails.
    pub fn try_kubectl(&self, args: &[&str]) -> Result<String, String> {
        try_kubectl(&[&["-n", &self.0], args].concat())
    }

    /// Applies manifests as a user would; the API server's refusal when there is one.
    pub fn apply(&self, manifest: &str) -> Result<String, String> {
        kubectl_in(&["-n", &self.0, "apply", "-f", "-"], manifest)
    }

    /// An object as JSON; `None` when there is none.
    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let answer = self.try_kubectl(&["get", kind, name, "-o", "json"]).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// What a person would look at first; printed when a test fails.
    fn tell(&self) {
        eprintln!("--- {} ---", self.0);
        for args in [
            &[
                "get",
                "sampledbs,statefulsets,pods,pvc,jobs,services",
                "-o",
                "wide",
            ][..],
            &["get", "sampledbs", "-o", "yaml"],
            &["get", "events", "--sort-by=.lastTimestamp"],
            &[
                "logs",
                "-l",
                "app.kubernetes.io/component=database",
                "--all-containers",
                "--tail=40",
                "--prefix",
            ],
        ] {
            eprintln!(
                "$ kubectl {}\n{}",
                args.join(" "),
                self.try_kubectl(args).unwrap_or_else(|e| e)
            );
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        let _ = self.try_kubectl(&["delete", "sampledbs", "--all", "--wait=true", "--timeout=60s"]);
        let _ = try_kubectl(&["delete", "namespace", &self.0, "--wait=false"]);
    }
}
