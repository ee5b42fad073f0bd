//! What a user or a neighbour gets wrong, or tries: it is refused, said, or put right. These tests run beside each
//! other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use sampledb_e2e::{Database, Namespace, eventually, within};

#[test]
fn a_mistake_that_the_schema_can_know_is_refused_with_its_place() {
    let ns = Namespace::new("refused");
    for (spec, place) in [
        (
            ", scheduling: {priorityClassName: system-node-critical}",
            "spec.scheduling.priorityClassName",
        ),
        (
            ", scheduling: {tolerations: [{operator: Exists}]}",
            "spec.scheduling.tolerations",
        ),
        (
            ", scheduling: {tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]}",
            "spec.scheduling.tolerations",
        ),
        (
            ", scheduling: {resources: {requests: {cpu: abc}}}",
            "spec.scheduling.resources.requests.cpu",
        ),
        (
            ", scheduling: {resources: {limits: {memory: \"-1Gi\"}}}",
            "spec.scheduling.resources.limits.memory",
        ),
        (
            ", bootstrap: {new: {encoding: FOO}}",
            "spec.bootstrap.new.encoding",
        ),
        (
            ", services: {rw: {annotations: {\"a b\": c}}}",
            "spec.services.rw.annotations",
        ),
    ] {
        let refused = ns.apply(&Database::manifest("orders", spec)).unwrap_err();
        assert!(refused.contains(place), "{spec}: {refused}");
    }
    for parameter in [
        "pre_auth_delay",
        "post_auth_delay",
        "oauth_validator_libraries",
        "archive_command",
    ] {
        let refused = ns
            .apply(
                &Database::manifest("orders", "")
                    .replace("\"17\"", &format!("\"17\", parameters: {{{parameter}: \"60\"}}")),
            )
            .unwrap_err();
        assert!(
            refused.contains("spec.postgres.parameters"),
            "{parameter}: {refused}"
        );
    }
    let well = ", scheduling: {tolerations: [{key: db, operator: Exists}], resources: {requests: {cpu: \"0.1\", memory: 100M}}}";
    let manifest = Database::manifest("orders", well);
    ns.apply(&manifest).unwrap();
}

#[test]
fn a_value_refused_at_the_first_start_is_said_once_and_can_be_corrected() {
    let ns = Namespace::new("firststart");
    let manifest = |value: &str| {
        Database::manifest("orders", "").replace("\"17\"", &format!("\"17\", parameters: {value}"))
    };
    ns.apply(&manifest("{work_mem: lots}")).unwrap();
    let db = Database {
        namespace: &ns,
        name: "orders".into(),
    };
    let message = db.wait_for_reason("Stalled", "True", "ParameterRejected");
    assert!(
        message.contains("work_mem") && !message.contains("LOG:") && !message.contains("in force"),
        "{message}"
    );
    let version = || db.object()["metadata"]["resourceVersion"].clone();
    let before = version();
    // The agent tries again meanwhile: the same failure is no news.
    let tries = || {
        let log = ns
            .try_kubectl(&["logs", "orders-0", "-c", "agent"])
            .unwrap_or_default();
        log.matches("PostgreSQL refused the configuration").count()
    };
    let begun = tries();
    within(120, "two more tries", || match tries() {
        now if now >= begun + 2 => Ok(()),
        now => Err(now),
    });
    assert_eq!(version(), before, "the status is written at every try");

    ns.apply(&manifest("{work_mem: 5MB}")).unwrap();
    db.wait_ready();
    assert_eq!(db.client().sql("show work_mem"), "5MB");
}

#[test]
fn a_setting_that_forbids_writes_keeps_nobody_from_opening_the_database() {
    let ns = Namespace::new("readonly");
    let manifest = Database::manifest("orders", "").replace(
        "\"17\"",
        "\"17\", parameters: {default_transaction_read_only: \"on\"}",
    );
    ns.apply(&manifest).unwrap();
    let db = Database {
        namespace: &ns,
        name: "orders".into(),
    };
    db.wait_ready();
    let client = db.client();
    assert!(client.try_sql("create table t (id int)").is_err());
    ns.kubectl(&["delete", "pod", "orders-0", "--wait=true"]);
    db.wait_ready();
    db.patch(r#"{"spec":{"postgres":{"parameters":null}}}"#).unwrap();
    db.wait_ready();
    client.sql("create table t (id int)");
}

#[test]
fn what_is_added_to_a_child_by_hand_is_taken_away() {
    let ns = Namespace::new("added");
    let db = Database::ready(&ns, "orders", "");
    ns.apply(
        r"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
            metadata: {name: elsewhere, labels: {kubernetes.io/service-name: orders-rw, sampledb.dev/name: orders}},
            ports: [{name: postgresql, port: 5432}], endpoints: [{addresses: [10.244.9.9]}]}",
    )
    .unwrap();
    ns.kubectl(&[
        "patch", "service", "orders-rw", "--type=merge", "-p",
        r#"{"spec":{"selector":{"app":"elsewhere"},"externalIPs":["192.0.2.7"],"sessionAffinity":"ClientIP"}}"#,
    ]);
    ns.kubectl(&[
        "patch",
        "service",
        "orders-rw",
        "-p",
        r#"{"spec":{"ports":[{"name":"other","port":5433,"targetPort":1}]}}"#,
    ]);
    ns.kubectl(&[
        "patch",
        "statefulset",
        "orders",
        "--type=strategic",
        "-p",
        r#"{"spec":{"template":{"spec":{"containers":[
            {"name":"side","image":"example.invalid/side:1"},
            {"name":"postgres","env":[{"name":"LD_PRELOAD","value":"/data/x.so"}]}]}}}}"#,
    ]);
    eventually("the additions are gone", || {
        let service = ns.get("service", "orders-rw").ok_or("no service")?["spec"].clone();
        let set = ns
            .get("statefulset", "orders")
            .ok_or("no statefulset")?
            .to_string();
        let slices = ns.try_kubectl(&[
            "get",
            "endpointslices",
            "-l",
            "kubernetes.io/service-name=orders-rw",
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ])?;
        let is_whole = service["selector"].is_null()
            && service["externalIPs"].is_null()
            && service["sessionAffinity"] == "None"
            && service["ports"].as_array().is_some_and(|p| p.len() == 1)
            && !set.contains("LD_PRELOAD")
            && !set.contains("example.invalid")
            && slices == "orders-rw";
        if is_whole {
            Ok(())
        } else {
            Err(format!("{service} {slices}"))
        }
    });
    db.wait_ready();
    assert_eq!(db.client().sql("select 1"), "1");
}

#[test]
fn a_name_that_is_taken_is_said_where_people_look() {
    let ns = Namespace::new("taken");
    ns.kubectl(&[
        "create",
        "secret",
        "generic",
        "orders-app",
        "--from-literal=mine=1",
    ]);
    let db = Database::create(&ns, "orders", "");
    let message = db.wait_for_reason("Stalled", "True", "NameCollision");
    assert!(message.contains("Secret orders-app"), "{message}");
    let secret = ns.get("secret", "orders-app").unwrap();
    assert!(secret["data"]["uri"].is_null(), "a stranger's Secret was written");
    ns.kubectl(&["delete", "secret", "orders-app"]);
    db.wait_ready();
}
