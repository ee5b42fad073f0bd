//! What the chart grants, and what its policies refuse.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sampledb_chart_tests::helm::{NAMESPACE, chart, objects, render_ci, title};
use sampledb_shared::api::ownership::CONTROLLERS;
use serde_json::Value;

fn of_kind(values: &str, kinds: &[&str]) -> Vec<Value> {
    let all = objects(&render_ci(values).unwrap()).unwrap();
    all.into_iter()
        .filter(|o| kinds.iter().any(|kind| o["kind"] == *kind))
        .collect()
}

fn rules(role: &Value) -> &[Value] {
    role["rules"].as_array().map_or(&[], Vec::as_slice)
}

fn holds(rule: &Value, field: &str, value: &str) -> bool {
    rule[field]
        .as_array()
        .is_some_and(|list| list.iter().any(|v| v == value || v == "*"))
}

#[test]
fn nobody_can_read_all_the_secrets_of_a_namespace() {
    for values in ["default", "full", "namespaced"] {
        for role in of_kind(values, &["ClusterRole", "Role"]) {
            for rule in rules(&role).iter().filter(|r| holds(r, "resources", "secrets")) {
                assert!(
                    !holds(rule, "verbs", "list") && !holds(rule, "verbs", "watch"),
                    "{}: {rule}",
                    title(&role)
                );
            }
        }
    }
}

#[test]
fn the_publisher_holds_no_right_on_secrets_but_what_each_database_gives_it() {
    for role in of_kind("default", &["ClusterRole", "Role"]) {
        let is_publishers = role["metadata"]["name"] == "sampledb-service-publisher";
        assert!(
            !is_publishers || !rules(&role).iter().any(|r| holds(r, "resources", "secrets")),
            "{}",
            title(&role)
        );
    }
}

#[test]
fn nothing_is_granted_by_a_wildcard_and_nobody_may_enter_a_pod() {
    for role in of_kind("default", &["ClusterRole", "Role"]) {
        for rule in rules(&role) {
            assert!(!rule.to_string().contains("\"*\""), "{}: {rule}", title(&role));
            for resource in [
                "pods/exec",
                "pods/attach",
                "pods/portforward",
                "pods/ephemeralcontainers",
            ] {
                assert!(!holds(rule, "resources", resource), "{}: {rule}", title(&role));
            }
        }
    }
}

#[test]
fn a_tenant_with_edit_rights_cannot_write_a_status() {
    for role in of_kind("default", &["ClusterRole"]) {
        let aggregated = role["metadata"]["labels"].to_string().contains("aggregate-to-");
        for rule in rules(&role).iter().filter(|_| aggregated) {
            let writes = ["create", "update", "patch", "delete"]
                .iter()
                .any(|verb| holds(rule, "verbs", verb));
            assert!(
                !(writes && holds(rule, "resources", "sampledbs/status")),
                "{rule}"
            );
        }
    }
}

#[test]
fn with_watched_namespaces_nothing_is_granted_outside_of_them() {
    for role in of_kind("namespaced", &["ClusterRole"]) {
        for rule in rules(&role) {
            assert_eq!(
                rule["resources"],
                serde_json::json!(["storageclasses"]),
                "{}",
                title(&role)
            );
        }
    }
    let granted = of_kind("namespaced", &["RoleBinding"]);
    for namespace in ["shop", "blog"] {
        assert_eq!(
            granted
                .iter()
                .filter(|b| b["metadata"]["namespace"] == namespace)
                .count(),
            2
        );
    }
    for binding in granted {
        assert_eq!(binding["subjects"][0]["namespace"], NAMESPACE);
    }
}

#[test]
fn every_controller_of_the_ownership_table_is_installed_and_no_other() {
    let mut deployed: Vec<_> = of_kind("default", &["Deployment"]).iter().map(title).collect();
    deployed.sort();
    let mut owners: Vec<_> = CONTROLLERS
        .iter()
        .map(|writer| format!("Deployment {NAMESPACE}/{}", writer.manager))
        .collect();
    owners.sort();
    assert_eq!(deployed, owners);
}

#[test]
fn the_guard_lets_the_controllers_of_the_ownership_table_through_and_nobody_else() {
    let policies = of_kind("default", &["ValidatingAdmissionPolicy"]);
    let guard = policies
        .iter()
        .find(|p| p["metadata"]["name"] == "sampledb-guard")
        .unwrap();
    let condition = guard["spec"]["matchConditions"][0]["expression"]
        .as_str()
        .unwrap();
    assert_eq!(
        condition.matches("system:serviceaccount:").count(),
        CONTROLLERS.len()
    );
    for writer in CONTROLLERS {
        assert!(
            condition.contains(&format!("system:serviceaccount:{NAMESPACE}:{}\"", writer.manager)),
            "{condition}"
        );
    }
}

#[test]
fn what_refuses_by_error_can_never_take_the_cluster_down() {
    for policy in of_kind("default", &["ValidatingAdmissionPolicy"]) {
        let spec = &policy["spec"];
        let by_label =
            spec["matchConstraints"]["objectSelector"]["matchExpressions"][0]["key"] == "sampledb.dev/name";
        let own_kind = spec["matchConstraints"]["resourceRules"][0]["apiGroups"][0] == "sampledb.dev";
        // A policy with a parameter is an error where that kind is not served any more, for everything it matches.
        let careful = spec["paramKind"].is_null() || spec["failurePolicy"] == "Ignore";
        assert!(careful || by_label || own_kind, "{}", title(&policy));
    }
}

#[test]
fn every_controller_has_the_same_templates_and_the_same_values() {
    let files = |folder: &str| {
        let entries = std::fs::read_dir(chart().join("templates").join(folder)).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(files("provisioner"), files("service-publisher"));
    let text = std::fs::read_to_string(chart().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let controllers = values["controllers"].as_object().unwrap();
    assert_eq!(controllers.len(), CONTROLLERS.len());
    let first = controllers.values().next().unwrap();
    assert!(
        controllers.values().all(|block| block == first),
        "a default that differs belongs into a template"
    );
}
