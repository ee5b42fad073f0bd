//! Runs helm.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The namespace of the release in these tests.
pub const NAMESPACE: &str = "sampledb-system";

/// The chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/sampledb")
}

/// A file of values of the chart's `ci` folder.
pub fn ci(name: &str) -> PathBuf {
    chart().join("ci").join(format!("{name}-values.yaml"))
}

/// What helm said: its output, or its errors.
///
/// # Errors
/// helm's error output, when it failed.
///
/// # Panics
/// When there is no helm: a test that was not run must not look like one that passed.
#[allow(clippy::panic, reason = "there is nothing to test without helm")]
pub fn helm<I, S>(arguments: I) -> Result<String, String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let program = std::env::var("HELM").unwrap_or_else(|_| "helm".into());
    // Nothing of the person's own helm is read or written.
    let home = std::env::temp_dir().join("sampledb-chart-tests");
    let output = Command::new(&program)
        .args(arguments)
        .env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_DATA_HOME", home.join("data"))
        .env_remove("KUBECONFIG")
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} could not be run ({error}): set HELM, or run eval \"$(tests/cluster/cluster env)\" first")
        });
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The text that `helm template` gives, with these further arguments.
///
/// # Errors
/// helm's error output.
pub fn render(arguments: &[&str]) -> Result<String, String> {
    render_as("sampledb", arguments)
}

/// The same for a release of this name.
///
/// # Errors
/// helm's error output.
pub fn render_as(release: &str, arguments: &[&str]) -> Result<String, String> {
    let chart = chart();
    let fixed = [
        "template",
        release,
        chart.to_str().unwrap_or_default(),
        "--namespace",
        NAMESPACE,
        "--include-crds",
    ];
    helm(fixed.iter().chain(arguments))
}

/// The text for a file of values of the chart's `ci` folder.
///
/// # Errors
/// helm's error output.
pub fn render_ci(name: &str) -> Result<String, String> {
    render(&["--values", ci(name).to_str().unwrap_or_default()])
}

/// The objects in a text of several documents.
///
/// # Errors
/// What is no YAML, with its first lines.
pub fn objects(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for document in text.split("\n---").filter(|d| !d.trim().is_empty()) {
        let parsed: Value = serde_saphyr::from_str(document).map_err(|e| {
            format!(
                "{e} in {}",
                document.lines().take(5).collect::<Vec<_>>().join(" / ")
            )
        })?;
        if !parsed.is_null() {
            objects.push(parsed);
        }
    }
    Ok(objects)
}

/// `kind namespace/name` of an object.
pub fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"]
        .as_str()
        .map(|n| format!("{n}/"))
        .unwrap_or_default();
    format!("{} {namespace}{}", text(&object["kind"]), text(&metadata["name"]))
}
