//! One SampleDB each: what its user does with it. These tests run beside each other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use sampledb_e2e::{Database, Namespace, condition, eventually, try_kubectl, within};

#[test]
fn an_application_connects_with_its_secret_alone_and_tls_is_verified() {
    let ns = Namespace::new("create");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    client.sql("create table t (id int primary key)");
    client.sql("insert into t values (1)");
    assert_eq!(client.sql("select count(*) from t"), "1");
    assert_eq!(
        client.sql("select ssl from pg_stat_ssl where pid = pg_backend_pid()"),
        "t"
    );
    assert_eq!(
        client.sql("select rolsuper from pg_roles where rolname = current_user"),
        "f"
    );
    assert!(
        client
            .shell("cat /etc/db/uri")
            .unwrap()
            .contains("sslmode=verify-full")
    );
    let plain = client
        .shell(r#"psql "$(sed s/sslmode=verify-full/sslmode=disable/ /etc/db/uri)" -c 'select 1' 2>&1"#);
    assert!(plain.is_err(), "a connection without TLS was let in: {plain:?}");

    let object = db.object();
    for (type_, status) in [
        ("Ready", "True"),
        ("Available", "True"),
        ("Reconciling", "False"),
        ("Stalled", "False"),
        ("Initialized", "True"),
        ("StorageHealthy", "True"),
        ("CertificatesValid", "True"),
        ("Published", "True"),
        ("PrimaryElected", "True"),
    ] {
        assert_eq!(
            condition(&object, type_).map(|c| c.0).as_deref(),
            Some(status),
            "{type_} of {object:#}"
        );
    }
    assert_eq!(object["status"]["phase"], "Running");
    assert_eq!(object["status"]["election"]["phase"], "Open");
    assert_eq!(object["status"]["election"]["primary"], "orders-0");
    assert_eq!(object["status"]["binding"]["name"], "orders-app");
    let columns = ns.kubectl(&["get", "sampledb", "orders"]);
    assert!(
        columns.contains("Running") && columns.contains("orders-0"),
        "{columns}"
    );
}

#[test]
fn initial_sql_is_there_before_initialized_is_true() {
    let ns = Namespace::new("init");
    ns.kubectl(&[
        "create",
        "configmap",
        "schema",
        "--from-literal=a.sql=create table items (id int); insert into items values (7);",
    ]);
    let db = Database::ready(
        &ns,
        "shop",
        ", bootstrap: {new: {init: [{configMapKeyRef: {name: schema, key: a.sql}}]}}",
    );
    db.wait_for("Initialized", "True");
    assert_eq!(db.client().sql("select id from items"), "7");
}

#[test]
fn broken_initial_sql_shows_postgres_error_and_never_loops() {
    let ns = Namespace::new("initbad");
    ns.kubectl(&[
        "create",
        "configmap",
        "schema",
        "--from-literal=a.sql=create table x (id int); selec 1;",
    ]);
    let db = Database::create(
        &ns,
        "shop",
        ", bootstrap: {new: {init: [{configMapKeyRef: {name: schema, key: a.sql}}]}}",
    );
    let message = db.wait_for_reason("Initialized", "False", "InitFailed");
    assert!(message.contains("syntax error"), "{message}");
    let pods = ns.kubectl(&[
        "get",
        "pods",
        "-l",
        "app.kubernetes.io/component=init",
        "-o",
        "jsonpath={.items[*].status.containerStatuses[*].restartCount}",
    ]);
    assert!(
        pods.split_whitespace().all(|n| n == "0"),
        "the init pod restarts: {pods}"
    );

    ns.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: schema}, data: {a.sql: 'create table x (id int);'}}").unwrap();
    db.wait_for("Initialized", "True");
    assert_eq!(
        db.client().sql("select count(*) from x"),
        "0",
        "the failed attempt left something behind"
    );
}

#[test]
fn a_live_parameter_is_there_at_once_and_a_bad_one_changes_nothing() {
    let ns = Namespace::new("edit");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    let started = client.sql("select pg_postmaster_start_time()");

    db.patch(r#"{"spec":{"postgres":{"parameters":{"work_mem":"5MB"}}}}"#)
        .unwrap();
    within(120, "work_mem", || match client.try_sql("show work_mem") {
        Ok(v) if v == "5MB" => Ok(()),
        other => Err(other),
    });
    db.wait_ready();

    for (name, says) in [
        ("fsync", "postgres.parameters"),
        ("Bad-Name", "postgres.parameters"),
        ("archive_command", "postgres.parameters"),
    ] {
        let refused = db
            .patch(&format!(
                r#"{{"spec":{{"postgres":{{"parameters":{{"{name}":"off"}}}}}}}}"#
            ))
            .unwrap_err();
        assert!(
            refused.contains(says) && refused.contains(name),
            "{name}: {refused}"
        );
    }
    let refused = db
        .patch(r#"{"spec":{"storage":{"data":{"size":"300Mi"}}}}"#)
        .unwrap_err();
    assert!(refused.contains("can only grow"), "{refused}");
    let refused = db.patch(r#"{"spec":{"instances":3}}"#).unwrap_err();
    assert!(refused.contains("instances must be 0 or 1"), "{refused}");
    let refused = db.patch(r#"{"spec":{"postgres":{"version":"18"}}}"#).unwrap_err();
    assert!(refused.contains("major"), "{refused}");

    db.patch(r#"{"spec":{"postgres":{"parameters":{"work_mem":"many"}}}}"#)
        .unwrap();
    let message = db.wait_for_reason("Stalled", "True", "ParameterRejected");
    assert!(message.contains("work_mem"), "{message}");
    assert_eq!(client.sql("show work_mem"), "5MB");

    db.patch(r#"{"spec":{"postgres":{"parameters":{"work_mem":"6MB"}}}}"#)
        .unwrap();
    db.wait_ready();
    assert_eq!(client.sql("show work_mem"), "6MB");
    assert_eq!(
        client.sql("select pg_postmaster_start_time()"),
        started,
        "PostgreSQL was restarted"
    );
}

#[test]
fn a_parameter_that_needs_a_restart_waits_for_the_users_word() {
    let ns = Namespace::new("restart");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    let pod = db.uid("pod", "orders-0");
    db.patch(r#"{"spec":{"postgres":{"parameters":{"max_connections":"77"}}}}"#)
        .unwrap();
    eventually("pendingRestart", || {
        let object = db.object();
        if object["status"]["instances"][0]["pendingRestart"] == serde_json::json!(["max_connections"]) {
            Ok(())
        } else {
            Err(object["status"]["instances"].clone())
        }
    });
    assert_eq!(client.sql("show max_connections"), "100");
    // Longer than what the status has room for.
    let wish = format!("sampledb.dev/restartedAt={}", "now ".repeat(75));
    ns.kubectl(&["annotate", "sampledb", "orders", &wish]);
    within(120, "max_connections", || {
        match client.try_sql("show max_connections") {
            Ok(v) if v == "77" => Ok(()),
            other => Err(other),
        }
    });
    db.wait_ready();
    assert_eq!(db.uid("pod", "orders-0"), pod, "the pod was replaced");
}

#[test]
fn a_volume_grows_online() {
    let ns = Namespace::new("grow");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    let started = client.sql("select pg_postmaster_start_time()");
    db.patch(r#"{"spec":{"storage":{"data":{"size":"768Mi"}}}}"#)
        .unwrap();
    eventually("the file system grows", || {
        let free = db.in_postgres("df --output=size -m /data | tail -1")?;
        if free.trim().parse::<u64>().unwrap_or(0) > 700 {
            Ok(())
        } else {
            Err(free)
        }
    });
    db.wait_ready();
    eventually("the capacity in status", || {
        let volumes = db.object()["status"]["provisioning"]["volumes"].clone();
        if volumes[0]["capacity"] == "768Mi" {
            Ok(())
        } else {
            Err(volumes)
        }
    });
    assert_eq!(
        client.sql("select pg_postmaster_start_time()"),
        started,
        "PostgreSQL was restarted"
    );
    eventually("the StatefulSet's template matches", || {
        let size = ns.try_kubectl(&[
            "get",
            "statefulset",
            "orders",
            "-o",
            "jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}",
        ])?;
        if size == "768Mi" { Ok(()) } else { Err(size) }
    });
}

#[test]
fn a_full_volume_is_said_and_grows_while_it_is_full() {
    let ns = Namespace::new("full");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    client.sql("create table kept (id int); ");
    client.sql("insert into kept values (42)");
    // Whatever is written, a byte at the end: nothing is left on the volume, the reserve excepted.
    let _ = db.in_postgres("dd if=/dev/zero of=/data/filler bs=1M 2>/dev/null; dd if=/dev/zero of=/data/filler2 bs=4k 2>/dev/null; true");
    let message = eventually("StorageHealthy=False", || {
        match condition(&db.object(), "StorageHealthy") {
            Some((status, _, message)) if status == "False" => Ok(message),
            other => Err(other),
        }
    });
    assert!(
        message.contains("storage") || message.contains("volume"),
        "{message}"
    );
    db.patch(r#"{"spec":{"storage":{"data":{"size":"1Gi"}}}}"#)
        .unwrap();
    within(300, "rows can be written again", || {
        client.try_sql("insert into kept values (43)")
    });
    assert_eq!(client.sql("select count(*) from kept where id = 42"), "1");
    db.in_postgres("rm -f /data/filler /data/filler2").unwrap();
    db.wait_for("StorageHealthy", "True");
}

#[test]
fn a_paused_database_is_left_alone_and_goes_on() {
    let ns = Namespace::new("pause");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    db.patch(r#"{"spec":{"paused":true}}"#).unwrap();
    db.wait_for_reason("Reconciling", "False", "Paused");
    ns.kubectl(&["delete", "pdb", "orders"]);
    db.patch(r#"{"spec":{"postgres":{"parameters":{"work_mem":"5MB"}}}}"#)
        .unwrap();
    let message = db.wait_for_reason("Ready", "False", "Paused");
    assert!(message.contains("spec.paused"), "{message}");
    assert_eq!(client.sql("show work_mem"), "4MB");
    assert!(ns.get("pdb", "orders").is_none(), "it was put back");

    db.patch(r#"{"spec":{"paused":false}}"#).unwrap();
    db.wait_ready();
    assert_eq!(client.sql("show work_mem"), "5MB");
    assert!(ns.get("pdb", "orders").is_some());
}

#[test]
fn a_hibernated_database_wakes_with_its_data() {
    let ns = Namespace::new("sleep");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    client.sql("create table t (id int)");
    client.sql("insert into t values (1)");
    ns.kubectl(&["scale", "sampledb", "orders", "--replicas=0"]);
    eventually("Hibernated", || {
        let object = db.object();
        let gone = ns.get("pod", "orders-0").is_none();
        if object["status"]["phase"] == "Hibernated" && gone {
            Ok(())
        } else {
            Err(object["status"]["phase"].clone())
        }
    });
    assert_eq!(condition(&db.object(), "Available").unwrap().0, "False");
    assert!(ns.get("pvc", "data-orders-0").is_some());
    ns.kubectl(&["scale", "sampledb", "orders", "--replicas=1"]);
    db.wait_ready();
    assert_eq!(client.sql("select count(*) from t"), "1");
    assert_eq!(db.object()["status"]["election"]["timeline"], 1);
}

#[test]
fn a_deleted_pod_and_a_killed_postgres_lose_nothing() {
    let ns = Namespace::new("crash");
    let db = Database::ready(&ns, "orders", "");
    let client = db.client();
    client.sql("create table t (id int)");
    client.sql("insert into t values (1)");
    ns.kubectl(&["delete", "pod", "orders-0", "--wait=true"]);
    assert_eq!(client.sql("select count(*) from t"), "1");
    db.wait_ready();

    client.sql("insert into t values (2)");
    let restarts = |ns: &Namespace| {
        ns.kubectl(&[
            "get",
            "pod",
            "orders-0",
            "-o",
            "jsonpath={.status.containerStatuses[0].restartCount}",
        ])
    };
    let before = restarts(&ns);
    let _ = db.in_postgres("kill -9 $(head -1 /data/pgdata/postmaster.pid)");
    assert_eq!(client.sql("select count(*) from t"), "2");
    assert_eq!(
        restarts(&ns),
        before,
        "the container was restarted, which costs its back-off"
    );
    db.wait_ready();
    let pod_ip = ns.kubectl(&["get", "pod", "orders-0", "-o", "jsonpath={.status.podIP}"]);
    let slice = ns.kubectl(&[
        "get",
        "endpointslice",
        "orders-rw",
        "-o",
        "jsonpath={.endpoints[*].addresses[*]}",
    ]);
    assert_eq!(slice.trim(), pod_ip.trim());
}

#[test]
fn what_holds_data_cannot_be_deleted_and_the_rest_comes_back() {
    let ns = Namespace::new("guard");
    let db = Database::ready(&ns, "orders", "");
    for (kind, name) in [
        ("pvc", "data-orders-0"),
        ("secret", "orders-owner"),
        ("secret", "orders-ca"),
        ("statefulset", "orders"),
        ("configmap", "orders-config"),
        ("serviceaccount", "orders-instance"),
    ] {
        let refused = ns
            .try_kubectl(&["delete", kind, name, "--wait=false"])
            .unwrap_err();
        assert!(
            refused.contains("belongs to the SampleDB orders"),
            "{kind}/{name}: {refused}"
        );
    }
    let refused = ns
        .try_kubectl(&["label", "pvc", "data-orders-0", "sampledb.dev/name-"])
        .unwrap_err();
    assert!(refused.contains("belongs to the SampleDB orders"), "{refused}");
    let refused = try_kubectl(&["delete", "namespace", &ns.0, "--wait=false"]).unwrap_err();
    assert!(refused.contains("holds the SampleDB orders"), "{refused}");

    for (kind, name) in [
        ("service", "orders-rw"),
        ("service", "orders-pods"),
        ("pdb", "orders"),
        ("role", "orders-instance"),
        ("rolebinding", "orders-instance"),
        ("endpointslice", "orders-rw"),
    ] {
        let before = db.uid(kind, name).unwrap_or_else(|| panic!("no {kind}/{name}"));
        ns.kubectl(&["delete", kind, name, "--wait=true"]);
        eventually(&format!("{kind}/{name} comes back"), || {
            match db.uid(kind, name) {
                Some(uid) if uid != before => Ok(()),
                other => Err(other),
            }
        });
    }
    ns.kubectl(&[
        "patch",
        "service",
        "orders-pods",
        "--type=merge",
        "-p",
        r#"{"spec":{"publishNotReadyAddresses":false}}"#,
    ]);
    // Whoever may edit ConfigMaps would be a superuser for good after a moment with another pg_hba.conf.
    for (name, patch) in [
        (
            "orders-config",
            r#"{"data":{"pg_hba.conf":"local all all trust"}}"#,
        ),
        (
            "orders-config",
            r#"{"metadata":{"annotations":{"sampledb.dev/config-hash":"cafe1"}}}"#,
        ),
        ("orders-config", r#"{"binaryData":{"other":"AAAA"}}"#),
        ("orders-trust", r#"{"data":{"ca.crt":"another"}}"#),
    ] {
        let refused = ns
            .try_kubectl(&["patch", "configmap", name, "--type=merge", "-p", patch])
            .unwrap_err();
        assert!(
            refused.contains("is made from the SampleDB orders"),
            "{name}: {refused}"
        );
    }
    ns.kubectl(&[
        "patch",
        "configmap",
        "orders-connection",
        "--type=merge",
        "-p",
        r#"{"data":{"host":"elsewhere"}}"#,
    ]);
    eventually("the edits are undone", || {
        let service = ns.get("service", "orders-pods").ok_or("no service")?;
        let connection = ns.get("configmap", "orders-connection").ok_or("no configmap")?;
        if service["spec"]["publishNotReadyAddresses"] == true && connection["data"]["host"] != "elsewhere" {
            Ok(())
        } else {
            Err("still edited")
        }
    });
    db.wait_ready();
    assert_eq!(db.client().sql("select 1"), "1");
}

#[test]
fn a_lost_volume_is_said_and_never_initialised_again() {
    let ns = Namespace::new("lost");
    let db = Database::ready(&ns, "orders", "");
    db.client().sql("create table t (id int)");
    // What a mighty user could do: as the provisioner, whom the guard lets through, with a right that it has not.
    let provisioner = "--as=system:serviceaccount:sampledb-system:sampledb-provisioner";
    ns.kubectl(&[
        "create",
        "role",
        "mighty",
        "--verb=delete",
        "--resource=persistentvolumeclaims",
    ]);
    ns.kubectl(&[
        "create",
        "rolebinding",
        "mighty",
        "--role=mighty",
        "--serviceaccount=sampledb-system:sampledb-provisioner",
    ]);
    ns.kubectl(&["delete", "pvc", "data-orders-0", "--wait=false", provisioner]);
    ns.kubectl(&["delete", "pod", "orders-0", "--wait=true"]);
    db.wait_for_reason("Stalled", "True", "VolumeLost");
    assert!(condition(&db.object(), "Ready").unwrap().0 != "True");
    let files = db
        .in_postgres("ls /data/pgdata 2>/dev/null | wc -l")
        .unwrap_or_else(|_| "0".into());
    assert_eq!(files.trim(), "0", "a database was initialised on an empty volume");
}

#[test]
fn deleting_a_sampledb_keeps_its_volume_and_its_name_can_adopt_it() {
    let ns = Namespace::new("delete");
    let db = Database::ready(&ns, "orders", "");
    let old = db.uid("sampledb", "orders").unwrap();
    let client = db.client();
    client.sql("create table t (id int)");
    client.sql("insert into t values (5)");
    ns.kubectl(&["delete", "sampledb", "orders", "--wait=true"]);
    eventually("the children go", || {
        match (
            ns.get("statefulset", "orders"),
            ns.get("secret", "orders-owner"),
            ns.get("pod", "orders-0"),
        ) {
            (None, None, None) => Ok(()),
            _ => Err("still there"),
        }
    });
    assert!(ns.get("pvc", "data-orders-0").is_some(), "the volume is gone");

    let db = Database::create(&ns, "orders", "");
    let message = db.wait_for_reason("Stalled", "True", "NameCollision");
    assert!(
        message.contains("adopt-volumes") && message.contains(&old),
        "{message}"
    );
    ns.kubectl(&[
        "annotate",
        "sampledb",
        "orders",
        &format!("sampledb.dev/adopt-volumes={old}"),
    ]);
    db.wait_ready();
    ns.kubectl(&["delete", "pod", "client-orders", "--wait=true"]);
    assert_eq!(db.client().sql("select id from t"), "5");
}

#[test]
fn a_protected_database_is_not_deleted_by_mistake() {
    let ns = Namespace::new("protect");
    let db = Database::create(&ns, "orders", ", deletion: {policy: Protect}");
    let refused = ns
        .try_kubectl(&["delete", "sampledb", "orders", "--wait=false"])
        .unwrap_err();
    assert!(refused.contains("confirm-delete"), "{refused}");
    let uid = db.uid("sampledb", "orders").unwrap();
    ns.kubectl(&[
        "annotate",
        "sampledb",
        "orders",
        &format!("sampledb.dev/confirm-delete={uid}"),
    ]);
    ns.kubectl(&["delete", "sampledb", "orders", "--wait=true"]);
}

#[test]
fn a_quota_that_refuses_the_pod_is_shown_in_its_own_words() {
    let ns = Namespace::new("quota");
    ns.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {requests.memory: 16Mi}}}").unwrap();
    let db = Database::create(&ns, "orders", "");
    let message = eventually("Stalled by the quota", || {
        match condition(&db.object(), "Stalled") {
            Some((status, _, message)) if status == "True" => Ok(message),
            other => Err(other),
        }
    });
    assert!(message.contains("exceeded quota"), "{message}");
    ns.kubectl(&["delete", "resourcequota", "small"]);
    db.wait_ready();
}

#[test]
fn ten_databases_at_once_and_one_name_in_several_namespaces() {
    let spaces: Vec<_> = ["fleet-a", "fleet-b"].into_iter().map(Namespace::new).collect();
    let databases: Vec<_> = spaces
        .iter()
        .flat_map(|ns| {
            (0..5).map(move |n| {
                Database::create(
                    ns,
                    &format!("db{n}"),
                    ", scheduling: {resources: {requests: {cpu: 10m, memory: 64Mi}}}",
                )
            })
        })
        .collect();
    for db in &databases {
        db.wait_ready();
    }
    databases[0].client().sql("create table only_here (id int)");
    let elsewhere = databases[5]
        .client()
        .try_sql("select * from only_here")
        .unwrap_err();
    assert!(elsewhere.contains("does not exist"), "{elsewhere}");
}
