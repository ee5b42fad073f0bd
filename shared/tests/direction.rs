//! The direction of dependencies: `api ← domain ← runtime ← controllers`; nobody imports a controller.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
}

/// The files under `folder` that name one of `forbidden`.
fn offenders(folder: &str, forbidden: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    sources(&root().join(folder), &mut files);
    assert!(!files.is_empty(), "{folder} has no sources");
    files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            let lines: Vec<String> = text
                .lines()
                .filter(|line| {
                    !line.trim_start().starts_with("//") && forbidden.iter().any(|f| line.contains(f))
                })
                .map(|line| format!("{}: {}", file.display(), line.trim()))
                .collect();
            lines
        })
        .collect()
}

#[test]
fn the_kinds_depend_on_nothing_of_the_suite() {
    assert_eq!(
        offenders(
            "shared/src/api",
            &[
                "crate::domain",
                "crate::runtime",
                "crate::telemetry",
                "kube::Client",
                "tokio"
            ]
        ),
        Vec::<String>::new()
    );
}

#[test]
fn the_rules_know_only_the_kinds() {
    assert_eq!(
        offenders(
            "shared/src/domain",
            &["crate::runtime", "crate::telemetry", "kube::Client", "tokio"]
        ),
        Vec::<String>::new()
    );
}

#[test]
fn a_controller_is_a_stranger_to_another() {
    let controllers: Vec<String> = fs::read_dir(root().join("controllers"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(controllers.len() >= 2, "{controllers:?}");
    for controller in &controllers {
        let manifest =
            fs::read_to_string(root().join("controllers").join(controller).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
        for other in controllers.iter().filter(|other| *other != controller) {
            assert!(
                !dependencies.contains(&format!("sampledb-{other}")),
                "{controller} depends on {other}"
            );
        }
        assert!(
            !dependencies.contains("sampledb-instance"),
            "{controller} depends on the instance"
        );
    }
}

#[test]
fn the_instance_takes_from_the_runtime_only_the_client() {
    let found: Vec<String> = offenders("instance/src", &["sampledb_shared::runtime"])
        .into_iter()
        .filter(|line| !line.contains("sampledb_shared::runtime::client"))
        .collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_decision_reads_no_clock_and_no_cluster() {
    for controller in ["provisioner", "service-publisher"] {
        for part in ["decide", "report", "build"] {
            let folder = format!("controllers/{controller}/src");
            let found: Vec<String> =
                offenders(&folder, &["Timestamp::now", "Instant::now", "Reader", ".await"])
                    .into_iter()
                    .filter(|line| line.contains(&format!("/src/{part}")))
                    .collect();
            assert_eq!(found, Vec::<String>::new());
        }
    }
}
