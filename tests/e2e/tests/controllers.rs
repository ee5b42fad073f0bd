//! The controllers away, killed, scaled and upgraded. One at a time: each test disturbs every database.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use sampledb_e2e::{Database, Namespace, RELEASE_NAMESPACE, eventually, helm, kubectl, try_kubectl, within};

static ALONE: Mutex<()> = Mutex::new(());
const CONTROLLERS: [&str; 2] = ["sampledb-provisioner", "sampledb-service-publisher"];

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scale(replicas: u32) {
    for controller in CONTROLLERS {
        kubectl(&[
            "-n",
            RELEASE_NAMESPACE,
            "scale",
            "deployment",
            controller,
            &format!("--replicas={replicas}"),
        ]);
    }
    eventually("the controllers' replicas", || {
        let ready = kubectl(&[
            "-n",
            RELEASE_NAMESPACE,
            "get",
            "deployments",
            "-o",
            "jsonpath={range .items[*]}{.status.readyReplicas}/{.status.replicas} {end}",
        ]);
        let there = if replicas == 0 {
            !ready.contains(char::is_numeric)
        } else {
            ready == format!("{replicas}/{replicas} ").repeat(2)
        };
        if there { Ok(()) } else { Err(ready) }
    });
}

fn holder(controller: &str) -> Option<String> {
    let holder = try_kubectl(&[
        "-n",
        RELEASE_NAMESPACE,
        "get",
        "lease",
        controller,
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ])
    .ok()?;
    (!holder.trim().is_empty()).then(|| holder.trim().to_owned())
}

fn chart() -> String {
    std::env::var("SAMPLEDB_CHART")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/sampledb").into())
}

#[test]
fn a_database_goes_on_while_every_controller_is_away_and_a_standby_takes_over() {
    let _alone = alone();
    let ns = Namespace::new("away");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    client.sql("create table t (id int)");
    scale(0);
    client.sql("insert into t values (1)");
    let _ = db.in_postgres("kill -9 $(head -1 /data/pgdata/postmaster.pid)");
    assert_eq!(client.sql("select count(*) from t"), "1");
    ns.kubectl(&["delete", "pod", "orders-0", "--wait=true"]);
    assert_eq!(
        client.sql("select count(*) from t"),
        "1",
        "a new pod is published without a controller"
    );

    scale(3);
    for controller in CONTROLLERS {
        let first = eventually("a leader", || holder(controller).ok_or("none"));
        let pod = first.split('_').next().unwrap().to_owned();
        kubectl(&[
            "-n",
            RELEASE_NAMESPACE,
            "delete",
            "pod",
            &pod,
            "--force",
            "--grace-period=0",
        ]);
        within(90, "another leader", || match holder(controller) {
            Some(next) if next != first => Ok(()),
            other => Err(other),
        });
    }
    db.patch(r#"{"spec":{"postgres":{"parameters":{"work_mem":"7MB"}}}}"#)
        .unwrap();
    db.wait_ready();
    scale(1);
}

#[test]
fn a_controller_killed_at_any_moment_of_a_create_reaches_the_same_end() {
    let _alone = alone();
    let ns = Namespace::new("killed");
    for round in 0..20_u32 {
        let controller = CONTROLLERS[round as usize % 2];
        let name = format!("db{round}");
        let db = Database::create(
            &ns,
            &name,
            ", scheduling: {resources: {requests: {cpu: 10m, memory: 64Mi}}}",
        );
        // A different moment each time, spread over the first second, which is when the objects are made.
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round) * 53));
        kubectl(&[
            "-n",
            RELEASE_NAMESPACE,
            "delete",
            "pods",
            "-l",
            &format!(
                "app.kubernetes.io/component={}",
                controller.trim_start_matches("sampledb-")
            ),
            "--force",
            "--grace-period=0",
        ]);
        db.wait_ready();
        let kinds = "secrets,configmaps,services,pvc,statefulsets,serviceaccounts,roles,rolebindings,pdb,jobs,endpointslices";
        let label = format!("sampledb.dev/name={name}");
        let mut found: Vec<_> = ns
            .kubectl(&["get", kinds, "-l", &label, "-o", "name"])
            .lines()
            .map(|l| l.replace(&name, "NAME"))
            .filter(|l| !l.contains("NAME-pods-"))
            .collect();
        found.sort();
        let wanted = [
            "configmap/NAME-config",
            "configmap/NAME-connection",
            "configmap/NAME-trust",
            "endpointslice.discovery.k8s.io/NAME-rw",
            "persistentvolumeclaim/data-NAME-0",
            "poddisruptionbudget.policy/NAME",
            "role.rbac.authorization.k8s.io/NAME-instance",
            "role.rbac.authorization.k8s.io/NAME-publisher",
            "rolebinding.rbac.authorization.k8s.io/NAME-instance",
            "rolebinding.rbac.authorization.k8s.io/NAME-publisher",
            "secret/NAME-agent",
            "secret/NAME-app",
            "secret/NAME-ca",
            "secret/NAME-owner",
            "secret/NAME-replication",
            "secret/NAME-server",
            "service/NAME-pods",
            "service/NAME-rw",
            "serviceaccount/NAME-instance",
            "statefulset.apps/NAME",
        ];
        assert_eq!(found, wanted, "after a kill {} ms into the create", round * 53);
        ns.kubectl(&["delete", "sampledb", &name, "--wait=false"]);
    }
}

#[test]
fn an_upgrade_keeps_the_scale_and_restarts_no_database() {
    let _alone = alone();
    let ns = Namespace::new("upgrade");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    let started = client.sql("select pg_postmaster_start_time()");
    let pod = db.uid("pod", "orders-0");
    scale(2);
    helm(&[
        "upgrade",
        "sampledb",
        &chart(),
        "-n",
        RELEASE_NAMESPACE,
        "--reuse-values",
        "--set",
        "controllers.provisioner.podAnnotations.upgraded=yes",
        "--wait",
        "--timeout=180s",
    ])
    .unwrap();
    let replicas = kubectl(&[
        "-n",
        RELEASE_NAMESPACE,
        "get",
        "deployments",
        "-o",
        "jsonpath={.items[*].spec.replicas}",
    ]);
    assert_eq!(replicas.trim(), "2 2");
    db.wait_ready();
    assert_eq!(client.sql("select pg_postmaster_start_time()"), started);
    assert_eq!(db.uid("pod", "orders-0"), pod);
    scale(1);
}

#[test]
fn an_uninstall_keeps_the_kinds_the_databases_and_the_guard() {
    let _alone = alone();
    let ns = Namespace::new("uninstall");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    let values = helm(&["get", "values", "sampledb", "-n", RELEASE_NAMESPACE, "-o", "json"]).unwrap();
    helm(&["uninstall", "sampledb", "-n", RELEASE_NAMESPACE, "--wait"]).unwrap();
    kubectl(&["get", "crd", "sampledbs.sampledb.dev"]);
    assert_eq!(client.sql("select 1"), "1");
    let refused = ns
        .try_kubectl(&["delete", "pvc", "data-orders-0", "--wait=false"])
        .unwrap_err();
    assert!(refused.contains("belongs to the SampleDB"), "{refused}");
    let file = std::env::temp_dir().join("sampledb-e2e-values.json");
    std::fs::write(&file, values).unwrap();
    helm(&[
        "install",
        "sampledb",
        &chart(),
        "-n",
        RELEASE_NAMESPACE,
        "--take-ownership",
        "-f",
        file.to_str().unwrap(),
        "--wait",
        "--timeout=180s",
    ])
    .unwrap();
    db.patch(r#"{"spec":{"postgres":{"parameters":{"work_mem":"8MB"}}}}"#)
        .unwrap();
    db.wait_ready();
    assert_eq!(client.sql("show work_mem"), "8MB");
}
