//! What the tests begin with: a SampleDB, and looks at it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::labels;
use sampledb_shared::runtime::{Applied, Plan, Seen};
use serde_json::{Value, json};

use crate::credentials::{self, Material};
use crate::images::{Catalog, CatalogEntry};
use crate::observe::Observed;
use crate::settings::Settings;
use crate::views::{ClaimView, Found, PodView, StatefulSetView};

pub const UID: &str = "0b0c5e5a-0000-4000-8000-000000000001";
pub const CONTENT: &str = "aaaabbbbccccdddd";

pub fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub fn settings() -> Settings {
    Settings {
        cluster_domain: "cluster.local".into(),
        instance_image: "suite:1".into(),
        allowed_images: vec!["allowed/*".into()],
        image_pull_secrets: vec![],
    }
}

pub fn catalog() -> Catalog {
    BTreeMap::from([(
        "17".to_owned(),
        Ok(CatalogEntry {
            image: "pg:17.12".into(),
            version: "17.12".into(),
        }),
    )])
}

/// As a user would write it.
pub fn db() -> SampleDb {
    db_of(
        &json!({"instances": 1, "postgres": {"version": "17", "parameters": {"max_connections": "200"}}, "storage": {"data": {"size": "1Gi"}}}),
    )
}

/// With every part in use.
pub fn full_db() -> SampleDb {
    db_of(&json!({
        "instances": 1,
        "postgres": {"version": "17"},
        "bootstrap": {"new": {"init": [
            {"configMapKeyRef": {"name": "orders-init", "key": "schema.sql"}},
            {"configMapKeyRef": {"name": "orders-init", "key": "data.sql"}},
        ]}},
        "storage": {"data": {"size": "1Gi", "storageClassName": "fast"}, "wal": {"size": "512Mi"}, "accessMode": "ReadWriteOnce"},
        "services": {"rw": {"externalNames": ["orders.example.com", "192.0.2.7"]}},
        "scheduling": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "db", "operator": "Exists"}],
            "priorityClassName": "high",
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "128Mi"}},
        },
    }))
}

pub fn db_of(spec: &Value) -> SampleDb {
    serde_json::from_value(json!({
        "apiVersion": "sampledb.dev/v1", "kind": "SampleDB",
        "metadata": {"name": "orders", "namespace": "shop", "uid": UID, "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

/// One that has been open, with everything in order.
pub fn open_db() -> SampleDb {
    opened(db())
}

/// As the agents, the publisher and this controller leave it once everything is in order.
pub fn opened(mut db: SampleDb) -> SampleDb {
    let hash = crate::build::config_map::Configuration::of(&crate::build::Target::of(&db)).hash;
    db.status = serde_json::from_value(json!({
        "observedGeneration": 1,
        "phase": "Running",
        "conditions": [{"type": "Published", "status": "True", "reason": "Published", "message": "", "observedGeneration": 1,
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "provisioning": {
            "uid": UID,
            "images": {"resolvedFor": "17", "postgres": "pg:17.12", "instance": "suite:1"},
            "volumes": [{"claim": "data-orders-0", "uid": "c1", "capacity": "1Gi"}],
        },
        "election": {"rev": 3, "term": 1, "phase": "Open", "systemId": "7", "primary": "orders-0", "timeline": 1,
                     "members": ["orders-0"], "sync": {"owner": "orders-0", "standbys": [], "w": 0, "mode": "Async"}},
        "instances": [{"name": "orders-0", "uid": UID, "version": "17.12", "configHash": hash, "storage": "Ok"}],
    }))
    .unwrap();
    db
}

pub fn seen(uid: &str, made_for: Option<&str>) -> Seen {
    Seen {
        uid: uid.into(),
        resource_version: "5".into(),
        made_for: made_for.map(str::to_owned),
        deleting: false,
        fingerprint: "5".into(),
    }
}

pub fn found(made_for: Option<&str>) -> Found {
    Found {
        seen: seen("u", made_for),
        owners: made_for.map(str::to_owned).into_iter().collect(),
    }
}

pub fn claim(uid: &str, made_for: Option<&str>, size: &str) -> ClaimView {
    ClaimView {
        found: Found {
            seen: seen(uid, made_for),
            owners: vec![],
        },
        requested: Some(Quantity(size.into())),
        capacity: Some(Quantity(size.into())),
        access_modes: vec!["ReadWriteOncePod".into()],
        storage_class: Some("default".into()),
        volume_mode: Some("Filesystem".into()),
        growth_error: None,
        not_provisioned: None,
    }
}

pub fn wanted() -> credentials::Wanted {
    credentials::Wanted {
        name: "orders".into(),
        namespace: "shop".into(),
        uid: UID.into(),
        owner: "app".into(),
        cluster_domain: "cluster.local".into(),
        external_names: vec![],
    }
}

/// The same keys in every look, and none of them new.
pub fn material() -> Material {
    static MATERIAL: LazyLock<Material> =
        LazyLock::new(|| credentials::settle(&credentials::Read::default(), &wanted(), now()).unwrap());
    let mut material = MATERIAL.clone();
    material.minted.clear();
    material
}

/// A first look: nothing is there.
pub fn nothing() -> Observed {
    Observed {
        release_namespace: "sampledb-system".into(),
        publisher_seen: true,
        children: BTreeMap::new(),
        claims: BTreeMap::new(),
        stateful_set: None,
        pods: vec![],
        pod_refusal: None,
        jobs: BTreeMap::new(),
        init_errors: BTreeMap::new(),
        initial_sql: None,
        catalog: Some(catalog()),
        material: material(),
    }
}

/// A look at what a plan of ours made, with the pods ready.
pub fn settled(db: &SampleDb) -> Observed {
    let mut observed = nothing();
    observed
        .claims
        .insert("data-orders-0".into(), claim("c1", Some(UID), "1Gi"));
    for role in ["orders-instance", "orders-publisher"] {
        observed
            .children
            .insert(("Role".into(), role.into()), found(Some(UID)));
    }
    let plan = crate::decide::decide(db, &observed, &settings());
    for desired in &plan.apply {
        let key = (desired.resource.kind.clone(), desired.name().to_owned());
        if !matches!(desired.resource.kind.as_str(), "PersistentVolumeClaim" | "Job") {
            observed.children.insert(key, found(Some(UID)));
        }
        if desired.resource.kind == "StatefulSet" {
            let set = serde_json::from_value(desired.object.clone()).unwrap();
            observed.stateful_set = Some(StatefulSetView {
                revision: Some("r1".into()),
                ..StatefulSetView::of(&set)
            });
        }
    }
    observed.pods = (0..db.spec.instances)
        .map(|ordinal| PodView {
            name: format!("orders-{ordinal}"),
            ready: true,
            revision: Some("r1".into()),
            ..PodView::default()
        })
        .collect();
    observed
}

/// Everything of a plan was applied.
pub fn applied(plan: &Plan) -> Applied {
    let mut applied = Applied::default();
    for desired in &plan.apply {
        let mut object = desired.object.clone();
        object["metadata"]["uid"] = json!("c1");
        applied
            .objects
            .insert((desired.resource.kind.clone(), desired.name().to_owned()), object);
    }
    applied
}

pub fn annotate(db: &mut SampleDb, key: &str, value: &str) {
    db.metadata
        .annotations
        .get_or_insert_default()
        .insert(key.into(), value.into());
}

pub fn adopt(db: &mut SampleDb, uid: &str) {
    annotate(db, labels::ADOPT_VOLUMES, uid);
}
