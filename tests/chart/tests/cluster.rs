//! What a cluster would say to the rendered objects.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rstest::rstest;
use sampledb_chart_tests::helm::{chart, ci, helm, objects, render, render_as, render_ci, title};
use sampledb_chart_tests::{kinds, restricted};
use serde_json::Value;

const ALL: [&str; 4] = ["default", "full", "namespaced", "bare"];

fn rendered(values: &str) -> Vec<Value> {
    objects(&render_ci(values).unwrap()).unwrap()
}

fn default_objects() -> Vec<Value> {
    rendered("default")
}

fn pods(objects: &[Value]) -> Vec<(String, Value)> {
    let spec = |object: &Value| match object["kind"].as_str() {
        Some("Pod") => Some(object["spec"].clone()),
        Some("Deployment") => Some(object["spec"]["template"]["spec"].clone()),
        _ => None,
    };
    objects
        .iter()
        .filter_map(|o| Some((title(o), spec(o)?)))
        .collect()
}

#[rstest]
fn helm_lint_is_content(#[values("default", "full", "namespaced", "bare")] values: &str) {
    helm([
        "lint",
        "--strict",
        chart().to_str().unwrap(),
        "--values",
        ci(values).to_str().unwrap(),
    ])
    .unwrap();
}

#[test]
fn every_object_is_what_kubernetes_knows() {
    let problems: Vec<_> = ALL
        .iter()
        .flat_map(|values| rendered(values))
        .flat_map(|object| {
            kinds::problems(&object)
                .into_iter()
                .map(move |p| format!("{}: {p}", title(&object)))
        })
        .collect();
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn every_pod_is_let_into_a_restricted_namespace() {
    for values in ALL {
        for (title, spec) in pods(&rendered(values)) {
            assert_eq!(
                restricted::violations(&spec),
                Vec::<String>::new(),
                "{title} with {values}"
            );
        }
    }
}

#[test]
fn who_scales_with_kubectl_keeps_that_over_an_upgrade() {
    for object in default_objects().iter().filter(|o| o["kind"] == "Deployment") {
        assert!(object["spec"].get("replicas").is_none(), "{}", title(object));
    }
    let asleep = objects(&render(&["--set", "controllers.provisioner.replicas=0"]).unwrap()).unwrap();
    let provisioner = asleep
        .iter()
        .find(|o| title(o) == "Deployment sampledb-system/sampledb-provisioner")
        .unwrap();
    assert_eq!(provisioner["spec"]["replicas"], 0);
    assert!(
        !asleep
            .iter()
            .any(|o| title(o).contains("sampledb-provisioner-test")),
        "a test that could only fail"
    );
}

#[test]
fn uninstalling_takes_no_database_and_nothing_that_protects_one() {
    let mut kept: Vec<_> = default_objects()
        .iter()
        .filter(|o| o["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep")
        .map(title)
        .collect();
    kept.sort();
    let expected = [
        "CustomResourceDefinition sampledbs.sampledb.dev",
        "ValidatingAdmissionPolicy sampledb-guard",
        "ValidatingAdmissionPolicy sampledb-namespace",
        "ValidatingAdmissionPolicyBinding sampledb-guard",
        "ValidatingAdmissionPolicyBinding sampledb-namespace",
    ];
    assert_eq!(kept, expected);
}

#[test]
fn no_name_depends_on_the_name_of_the_release() {
    let names = |release| {
        let objects = objects(&render_as(release, &[]).unwrap()).unwrap();
        objects.iter().map(title).collect::<Vec<_>>()
    };
    assert_eq!(names("one"), names("another"));
    let selectors = |release| {
        let objects = objects(&render_as(release, &[]).unwrap()).unwrap();
        objects
            .iter()
            .map(|o| o["spec"]["selector"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(selectors("one"), selectors("another"), "a selector is immutable");
}

#[test]
fn every_service_and_monitor_finds_its_controller() {
    let objects = rendered("full");
    let labels = |object: &Value| {
        object["spec"]["template"]["metadata"]["labels"]
            .as_object()
            .unwrap()
            .clone()
    };
    let deployments: Vec<_> = objects
        .iter()
        .filter(|o| o["kind"] == "Deployment")
        .map(labels)
        .collect();
    let services: Vec<_> = objects.iter().filter(|o| o["kind"] == "Service").collect();
    let matches = |selector: &Value, labels: &serde_json::Map<String, Value>| {
        selector
            .as_object()
            .unwrap()
            .iter()
            .all(|(k, v)| labels.get(k) == Some(v))
    };
    for service in &services {
        let found = deployments
            .iter()
            .filter(|l| matches(&service["spec"]["selector"], l))
            .count();
        assert_eq!(found, 1, "{}", title(service));
    }
    let service_labels: Vec<_> = services
        .iter()
        .map(|s| s["metadata"]["labels"].as_object().unwrap().clone())
        .collect();
    let counted = [
        ("ServiceMonitor", &service_labels),
        ("PodMonitor", &deployments),
        ("NetworkPolicy", &deployments),
    ];
    for (kind, candidates) in counted {
        for object in objects.iter().filter(|o| o["kind"] == kind) {
            let field = if kind == "NetworkPolicy" {
                "podSelector"
            } else {
                "selector"
            };
            let selector = &object["spec"][field]["matchLabels"];
            let found = candidates.iter().filter(|l| matches(selector, l)).count();
            assert_eq!(found, 1, "{}", title(object));
        }
    }
}
