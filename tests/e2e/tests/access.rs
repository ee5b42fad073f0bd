//! What a tenant, and a stranger, cannot do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use sampledb_e2e::{Database, Namespace, kubectl_in, try_kubectl};

const TENANT: &str = "--as=system:serviceaccount:e2e-tenant:tenant";

fn tenant(ns: &Namespace, cluster_role: &str) {
    let name = &ns.0;
    kubectl_in(
        &["apply", "-f", "-"],
        &format!(
            "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: tenant, namespace: {name}}}}}\n---\n\
             {{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: tenant, namespace: {name}}}, \
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {cluster_role}}}, \
             subjects: [{{kind: ServiceAccount, name: tenant, namespace: {name}}}]}}"
        ),
    )
    .unwrap();
}

#[test]
fn a_tenant_with_edit_on_sampledbs_reaches_no_other_namespace_no_token_and_no_status() {
    let ns = Namespace::new("tenant");
    let other = Namespace::new("tenant-other");
    kubectl_in(
        &["apply", "-f", "-"],
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: e2e-sampledb-editor}, \
         rules: [{apiGroups: [sampledb.dev], resources: [sampledbs], verbs: ['*']}]}",
    )
    .unwrap();
    tenant(&ns, "e2e-sampledb-editor");
    kubectl_in(
        &["apply", "-n", &ns.0, TENANT, "-f", "-"],
        &Database::manifest("mine", ""),
    )
    .unwrap();
    let db = Database {
        namespace: &ns,
        name: "mine".into(),
    };
    db.wait_ready();

    let status = r#"{"status":{"phase":"Failed"}}"#;
    let refused = ns
        .try_kubectl(&[
            "patch",
            "sampledb",
            "mine",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
            TENANT,
        ])
        .unwrap_err();
    assert!(refused.contains("forbidden"), "{refused}");
    for args in [
        &["get", "secrets", "-n", &ns.0][..],
        &["get", "sampledbs", "-n", &other.0],
        &["get", "secrets", "-n", "sampledb-system"],
        &["create", "token", "mine-instance", "-n", &ns.0],
        &["create", "token", "sampledb-provisioner", "-n", "sampledb-system"],
    ] {
        let refused = try_kubectl(&[args, &[TENANT]].concat()).unwrap_err();
        assert!(refused.contains("orbidden"), "{args:?}: {refused}");
    }
    // Nothing in the kind takes a namespace, a pod template or an account.
    for field in [
        "podTemplate: {}",
        "serviceAccountName: default",
        "namespace: kube-system",
    ] {
        let manifest = Database::manifest("evil", &format!(", {field}"));
        let refused = kubectl_in(
            &["apply", "-n", &ns.0, TENANT, "--validate=strict", "-f", "-"],
            &manifest,
        )
        .unwrap_err();
        assert!(refused.contains("unknown field"), "{field}: {refused}");
    }
    let image = Database::manifest("evil", "").replace(
        "version: \"17\"",
        "version: \"17\", image: \"docker.io/evil/postgres:17\"",
    );
    kubectl_in(&["apply", "-n", &ns.0, TENANT, "-f", "-"], &image).unwrap();
    let evil = Database {
        namespace: &ns,
        name: "evil".into(),
    };
    evil.wait_for_reason("Stalled", "True", "ImageNotAllowed");
    assert!(ns.get("statefulset", "evil").is_none());

    // The container that runs the user's SQL has no token.
    let found = db
        .in_postgres("ls /var/run/secrets/kubernetes.io 2>&1; true")
        .unwrap();
    assert!(found.contains("No such file"), "{found}");
}

#[test]
fn a_stranger_with_patch_on_status_changes_no_section() {
    let ns = Namespace::new("stranger");
    let db = Database::ready(&ns, "orders", "");
    kubectl_in(
        &["apply", "-f", "-"],
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: e2e-status-patcher}, \
         rules: [{apiGroups: [sampledb.dev], resources: [sampledbs, sampledbs/status], verbs: [get, patch, update]}]}",
    )
    .unwrap();
    tenant(&ns, "e2e-status-patcher");
    let who = format!("--as=system:serviceaccount:{}:tenant", ns.0);
    for patch in [
        r#"{"status":{"phase":"Failed"}}"#,
        r#"{"status":{"election":{"rev":99,"term":9}}}"#,
        r#"{"status":{"endpoints":null}}"#,
        r#"{"status":{"binding":{"name":"other"}}}"#,
        r#"{"status":{"conditions":[]}}"#,
    ] {
        let refused = ns
            .try_kubectl(&[
                "patch",
                "sampledb",
                "orders",
                "--subresource=status",
                "--type=merge",
                "-p",
                patch,
                &who,
            ])
            .unwrap_err();
        assert!(
            refused.contains("may not change")
                || refused.contains("never removed")
                || refused.contains("rev"),
            "{patch}: {refused}"
        );
    }
    // Not even one of ours may write another's. (`get` is what kubectl itself needs before it patches.)
    kubectl_in(
        &["apply", "-f", "-"],
        &format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: publisher, namespace: {}}}, \
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-status-patcher}}, \
             subjects: [{{kind: ServiceAccount, name: sampledb-service-publisher, namespace: sampledb-system}}]}}",
            ns.0
        ),
    )
    .unwrap();
    let publisher = "--as=system:serviceaccount:sampledb-system:sampledb-service-publisher";
    let refused = ns
        .try_kubectl(&[
            "patch",
            "sampledb",
            "orders",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Failed"}}"#,
            publisher,
        ])
        .unwrap_err();
    assert!(refused.contains("may not change status.phase"), "{refused}");
    db.wait_ready();
}
