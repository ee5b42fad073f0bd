//! What a person writes into values, and what the chart says when it cannot work.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use clap::Parser;
use rstest::rstest;
use sampledb_chart_tests::helm::{chart, helm, objects, render, render_ci, title};
use sampledb_shared::api::SampleDb;
use sampledb_shared::runtime::Options;
use serde_json::Value;

#[rstest]
#[case::unknown_key("controllers.provisioner.replica=1", "replica")]
#[case::unknown_root("provisioner.replicas=1", "provisioner")]
#[case::negative("controllers.provisioner.replicas=-1", "controllers/provisioner/replicas")]
#[case::word_for_number("controllers.provisioner.replicas=two", "controllers/provisioner/replicas")]
#[case::policy("image.pullPolicy=Sometimes", "image/pullPolicy")]
#[case::digest("image.digest=sha256:abc", "image/digest")]
#[case::budget(
    "controllers.provisioner.podDisruptionBudget.enabled=true,controllers.provisioner.podDisruptionBudget.minAvailable=1,controllers.provisioner.podDisruptionBudget.maxUnavailable=1",
    "controllers.provisioner.podDisruptionBudget: set minAvailable or maxUnavailable"
)]
#[case::monitor_without_service(
    "monitoring.renderMode=alwaysRender,controllers.servicePublisher.metricsService.enabled=false,controllers.servicePublisher.serviceMonitor.enabled=true",
    "controllers.servicePublisher.metricsService.enabled"
)]
#[case::monitor_without_operator(
    "controllers.servicePublisher.podMonitor.enabled=true",
    "monitoring.renderMode to alwaysRender"
)]
#[case::wrong_version("postgres.catalog.17.version=15.20", "postgres.catalog.17.version")]
fn a_mistake_is_named_with_its_path(#[case] set: &str, #[case] named: &str) {
    let error = render(&["--set", set]).unwrap_err().replace('.', "/");
    assert!(error.contains(&named.replace('.', "/")), "{error}");
}

#[test]
fn a_missing_prometheus_operator_can_be_skipped() {
    let set = "monitoring.renderMode=skipIfMissing,controllers.provisioner.podMonitor.enabled=true";
    let rendered = objects(&render(&["--set", set]).unwrap()).unwrap();
    assert!(!rendered.iter().any(|o| o["kind"] == "PodMonitor"));
}

#[test]
fn it_works_as_part_of_another_chart() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
    write(
        "Chart.yaml",
        "apiVersion: v2\nname: platform\nversion: 1.0.0\ndependencies: [{name: sampledb, version: '*', condition: sampledb.enabled}]\n",
    );
    write(
        "values.yaml",
        "global: {imageRegistry: mirror.example.org, theirs: {a: 1}}\nsampledb: {enabled: true}\n",
    );
    copy(&chart(), &folder.path().join("charts/sampledb"));
    let path = folder.path().to_str().unwrap();
    let on = objects(&helm(["template", "platform", path, "--namespace", "platform"]).unwrap()).unwrap();
    assert!(
        on.iter()
            .any(|o| title(o) == "Deployment platform/sampledb-provisioner")
    );
    assert!(
        on.iter()
            .any(|o| o.to_string().contains("mirror.example.org/sampledb/controllers"))
    );
    assert!(
        helm(["template", "platform", path, "--set", "sampledb.enabled=false"])
            .unwrap()
            .trim()
            .is_empty()
    );
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[rstest]
#[case::plain(&[], "sampledb/controllers:0.1.0", "sampledb/postgres:17")]
#[case::local(&["image.registry=localhost", "image.tag=dev"], "localhost/sampledb/controllers:dev", "localhost/sampledb/postgres:17")]
#[case::mirror(&["global.imageRegistry=m:5000", "image.registry=localhost"], "m:5000/sampledb/controllers:0.1.0", "m:5000/sampledb/postgres:17")]
#[case::own_registry(&["global.imageRegistry=m", "postgres.catalog.17.image=r.example.org/pg:17"], "m/sampledb/controllers:0.1.0", "r.example.org/pg:17")]
fn one_line_turns_every_image_to_a_mirror(
    #[case] set: &[&str],
    #[case] controllers: &str,
    #[case] postgres: &str,
) {
    let arguments: Vec<_> = set.iter().flat_map(|s| ["--set-string", s]).collect();
    let rendered = objects(&render(&arguments).unwrap()).unwrap();
    let deployments: Vec<_> = rendered.iter().filter(|o| o["kind"] == "Deployment").collect();
    for deployment in &deployments {
        assert_eq!(
            deployment["spec"]["template"]["spec"]["containers"][0]["image"],
            controllers
        );
    }
    let arguments = deployments[0]["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(
        arguments.contains(&format!("--instance-image={controllers}")),
        "{arguments}"
    );
    let catalog = rendered
        .iter()
        .find(|o| title(o) == "ConfigMap sampledb-system/sampledb-catalog")
        .unwrap();
    let entry: Value = serde_json::from_str(catalog["data"]["17"].as_str().unwrap()).unwrap();
    assert_eq!(entry, serde_json::json!({"image": postgres, "version": "17.12"}));
}

#[derive(Parser)]
struct Provisioner {
    #[command(flatten)]
    _settings: sampledb_provisioner::settings::Settings,
    #[command(flatten)]
    options: Options,
}

#[derive(Parser)]
struct ServicePublisher {
    #[command(flatten)]
    _settings: sampledb_service_publisher::settings::Settings,
    #[command(flatten)]
    options: Options,
}

#[rstest]
fn every_controller_takes_the_arguments_that_it_is_given(
    #[values("default", "full", "namespaced", "bare")] values: &str,
) {
    for deployment in objects(&render_ci(values).unwrap())
        .unwrap()
        .iter()
        .filter(|o| o["kind"] == "Deployment")
    {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let list = |field: &str| -> Vec<String> { serde_json::from_value(container[field].clone()).unwrap() };
        let line: Vec<_> = list("command").into_iter().chain(list("args")).collect();
        let options = match line[0].as_str() {
            "sampledb-provisioner" => Provisioner::try_parse_from(&line).map(|p| p.options),
            "sampledb-service-publisher" => ServicePublisher::try_parse_from(&line).map(|p| p.options),
            other => panic!("{other} is not a program of the suite"),
        };
        let options = options.unwrap_or_else(|error| panic!("{}: {error}", title(deployment)));
        options.check().unwrap();
        if values == "namespaced" {
            assert_eq!(options.namespaces(), [Some("shop"), Some("blog")]);
        }
        let grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap();
        assert!(
            grace > options.drain_timeout.as_secs() + 5,
            "the kubelet would kill it while it drains"
        );
    }
}

#[test]
fn the_notes_give_a_database_that_can_be_pasted() {
    let path = chart();
    let text = helm([
        "install",
        "sampledb",
        path.to_str().unwrap(),
        "--namespace",
        "a",
        "--dry-run=client",
    ])
    .unwrap();
    let notes = text.split("NOTES:").nth(1).unwrap();
    let pasted = notes
        .split("<<EOF\n")
        .nth(1)
        .unwrap()
        .split("EOF")
        .next()
        .unwrap();
    let db: SampleDb = serde_saphyr::from_str(pasted).unwrap();
    assert_eq!(db.spec.postgres.version, "17");
    assert!(notes.contains("kubectl wait sampledb/orders"));
    assert!(!notes.contains("WARNING"), "{notes}");
}

#[test]
fn the_notes_warn_of_what_a_person_would_not_expect() {
    let notes = |set: &str| {
        let path = chart();
        helm([
            "install",
            "sampledb",
            path.to_str().unwrap(),
            "--namespace",
            "a",
            "--dry-run=client",
            "--set",
            set,
        ])
        .unwrap()
    };
    assert!(
        notes("controllers.provisioner.replicas=0").contains("WARNING: sampledb-provisioner is scaled to 0")
    );
    assert!(notes("policies.guard.enabled=false").contains("WARNING: policies.guard"));
    assert!(notes("crds.enabled=false").contains("WARNING: crds.enabled is false"));
}
