use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, UID};
use crate::views::{JobPhase, JobView};

fn kinds(plan: &Plan) -> Vec<String> {
    plan.apply
        .iter()
        .map(|d| format!("{}/{}", d.resource.kind, d.name()))
        .collect()
}

fn plan(db: &SampleDb, seen: &Observed) -> Plan {
    decide(db, seen, &testing::settings())
}

/// A first look, but that the roles are there.
fn with_roles() -> Observed {
    let mut seen = testing::nothing();
    for role in ["orders-instance", "orders-publisher"] {
        seen.children
            .insert(("Role".into(), role.into()), testing::found(Some(UID)));
    }
    seen
}

fn applied<'a>(plan: &'a Plan, kind: &str) -> Option<&'a Value> {
    plan.apply
        .iter()
        .find(|d| d.resource.kind == kind)
        .map(|d| &d.object)
}

#[test]
fn a_first_look_makes_everything_but_the_bindings() {
    let first = plan(&testing::db(), &testing::nothing());
    assert_eq!(
        first.requeue,
        Some(SOON),
        "for the bindings, which need their roles"
    );
    insta::assert_yaml_snapshot!(kinds(&first));
}

#[test]
fn what_is_built_is_what_a_person_reviewed() {
    let db = testing::full_db();
    for desired in plan(&db, &with_roles()).apply {
        let mut object = desired.object.clone();
        if desired.resource.kind == "Secret" {
            for (_, value) in object["data"].as_object_mut().unwrap() {
                *value = json!("[redacted]");
            }
        }
        if desired.name() == "orders-trust" {
            object["data"]["ca.crt"] = json!("[a certificate]");
        }
        let name = format!("{}-{}", desired.resource.kind, desired.name());
        insta::with_settings!({sort_maps => true}, { insta::assert_yaml_snapshot!(name, object) });
    }
}

#[test]
fn every_child_says_whose_it_is_and_only_the_claims_outlive_it() {
    for desired in plan(&testing::full_db(), &with_roles()).apply {
        let metadata = &desired.object["metadata"];
        assert_eq!(
            metadata["annotations"]["sampledb.dev/uid"],
            UID,
            "{}",
            desired.name()
        );
        assert_eq!(
            metadata["labels"]["sampledb.dev/name"],
            "orders",
            "{}",
            desired.name()
        );
        let owner = &metadata["ownerReferences"][0];
        if desired.resource.kind == "PersistentVolumeClaim" {
            assert!(owner.is_null());
        } else {
            assert_eq!(
                (owner["uid"].as_str(), owner["controller"].as_bool()),
                (Some(UID), Some(true))
            );
        }
    }
}

#[test]
fn no_field_is_null() {
    fn walk(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(items) => items.iter().all(walk),
            Value::Object(fields) => fields.values().all(walk),
            _ => true,
        }
    }
    for desired in plan(&testing::full_db(), &with_roles()).apply {
        assert!(walk(&desired.object), "{}", desired.object);
    }
}

#[test]
fn a_converged_database_costs_no_write() {
    let db = testing::open_db();
    let seen = testing::settled(&db);
    let (first, second) = (plan(&db, &seen), plan(&db, &seen));
    let hashes = |plan: &Plan| plan.apply.iter().map(Desired::hash).collect::<Vec<_>>();
    assert_eq!(hashes(&first), hashes(&second));
    assert!(
        first.apply.iter().all(|d| d.seen.is_some()),
        "all are there: the runtime compares and skips them"
    );
    assert!(first.delete.is_empty() && first.events.is_empty());
    let seconds = first.requeue.unwrap().as_secs();
    assert!((600..660).contains(&seconds));
}

#[test]
fn a_child_deleted_by_hand_comes_back() {
    let db = testing::open_db();
    let all = testing::settled(&db);
    for key in all.children.keys() {
        let mut seen = testing::settled(&db);
        seen.children.remove(key);
        if key.0 == "StatefulSet" {
            seen.stateful_set = None;
        }
        let plan = plan(&db, &seen);
        let made = plan
            .apply
            .iter()
            .any(|d| (d.resource.kind.as_str(), d.name()) == (&key.0, &key.1) && d.seen.is_none());
        assert!(made, "{key:?}");
    }
}

#[test]
fn a_child_whose_annotation_was_taken_away_is_repaired() {
    let db = testing::open_db();
    let mut seen = testing::settled(&db);
    let role = seen
        .children
        .get_mut(&("Role".to_owned(), "orders-publisher".to_owned()))
        .unwrap();
    role.seen.made_for = None;
    assert!(kinds(&plan(&db, &seen)).contains(&"Role/orders-publisher".to_owned()));
}

#[rstest]
#[case::paused(|db: &mut SampleDb, _: &mut Observed| db.spec.paused = true)]
#[case::deleting(|db: &mut SampleDb, _: &mut Observed| {
    db.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(testing::now()));
})]
#[case::a_strangers_secret(|_: &mut SampleDb, seen: &mut Observed| {
    seen.children.insert(("Secret".into(), "orders-owner".into()), testing::found(None));
})]
#[case::what_an_earlier_one_left(|_: &mut SampleDb, seen: &mut Observed| {
    seen.children.insert(("StatefulSet".into(), "orders".into()), testing::found(Some("before")));
})]
fn nothing_is_touched(#[case] change: fn(&mut SampleDb, &mut Observed)) {
    let (mut db, mut seen) = (testing::db(), testing::nothing());
    change(&mut db, &mut seen);
    let plan = plan(&db, &seen);
    assert!(plan.apply.is_empty() && plan.delete.is_empty());
}

#[test]
fn kept_volumes_are_neither_taken_nor_mounted_unasked() {
    let (mut db, mut seen) = (testing::db(), testing::nothing());
    seen.claims.insert(
        "data-orders-0".into(),
        testing::claim("c0", Some("before"), "2Gi"),
    );
    let before = plan(&db, &seen);
    assert!(applied(&before, "PersistentVolumeClaim").is_none());
    assert!(applied(&before, "StatefulSet").is_none());

    testing::adopt(&mut db, "before");
    let after = plan(&db, &seen);
    let claim = applied(&after, "PersistentVolumeClaim").unwrap();
    assert_eq!(claim["metadata"]["annotations"]["sampledb.dev/uid"], UID);
    assert_eq!(
        claim["spec"]["resources"]["requests"]["storage"], "2Gi",
        "never smaller than it is"
    );
    assert!(applied(&after, "StatefulSet").is_some());
}

#[test]
fn a_lost_volume_is_not_replaced() {
    let db = testing::open_db();
    let mut seen = testing::settled(&db);
    seen.claims.clear();
    assert!(applied(&plan(&db, &seen), "PersistentVolumeClaim").is_none());
    seen.children
        .remove(&("StatefulSet".to_owned(), "orders".to_owned()));
    seen.stateful_set = None;
    assert!(
        applied(&plan(&db, &seen), "StatefulSet").is_none(),
        "nor made by the StatefulSet's controller"
    );
}

#[test]
fn a_volume_grows_first_and_the_templates_follow_without_touching_a_pod() {
    let mut db = testing::open_db();
    let mut seen = testing::settled(&db);
    db.spec.storage.data.size.0 = "3Gi".into();
    let first = plan(&db, &seen);
    assert_eq!(
        applied(&first, "PersistentVolumeClaim").unwrap()["spec"]["resources"]["requests"]["storage"],
        "3Gi"
    );
    let set = applied(&first, "StatefulSet").unwrap();
    assert_eq!(
        set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"],
        "1Gi"
    );
    assert!(first.delete.is_empty());

    seen.claims
        .insert("data-orders-0".into(), testing::claim("c1", Some(UID), "3Gi"));
    let second = plan(&db, &seen);
    assert!(applied(&second, "StatefulSet").is_none());
    assert!(
        second.delete.len() == 1
            && second.delete[0].orphan
            && second.delete[0].resource.kind == "StatefulSet"
    );

    seen.children
        .remove(&("StatefulSet".to_owned(), "orders".to_owned()));
    seen.stateful_set = None;
    let third = plan(&db, &seen);
    let set = applied(&third, "StatefulSet").unwrap();
    assert_eq!(
        set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"],
        "3Gi"
    );
}

#[test]
fn a_hibernated_database_keeps_its_claims_and_grows() {
    let mut db = testing::open_db();
    db.spec.instances = 0;
    db.spec.storage.data.size.0 = "3Gi".into();
    let plan = plan(&db, &testing::settled(&db));
    assert_eq!(applied(&plan, "StatefulSet").unwrap()["spec"]["replicas"], 0);
    assert_eq!(
        applied(&plan, "PersistentVolumeClaim").unwrap()["spec"]["resources"]["requests"]["storage"],
        "3Gi"
    );
}

#[test]
fn a_wrong_image_keeps_the_database_running() {
    let mut db = testing::open_db();
    db.spec.postgres.version = "17.1".into();
    let seen = testing::settled(&db);
    let set = plan(&db, &seen);
    let set = applied(&set, "StatefulSet").unwrap();
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"][0]["image"],
        "pg:17.12"
    );
    db.status = None;
    let fresh = plan(&db, &testing::nothing());
    assert!(applied(&fresh, "StatefulSet").is_none() && applied(&fresh, "Secret").is_some());
}

#[test]
fn a_secret_edited_in_between_is_not_overwritten() {
    let db = testing::open_db();
    let plan = plan(&db, &testing::settled(&db));
    for secret in plan.apply.iter().filter(|d| d.resource.kind == "Secret") {
        assert_eq!(
            secret.object["metadata"]["resourceVersion"],
            "5",
            "{}",
            secret.name()
        );
    }
}

fn job(phase: JobPhase) -> JobView {
    JobView {
        found: testing::found(Some(UID)),
        built: None,
        phase,
    }
}

#[test]
fn the_initial_sql_is_run_once_and_again_only_when_corrected() {
    let mut db = testing::opened(testing::full_db());
    db.status
        .as_mut()
        .unwrap()
        .provisioning
        .as_mut()
        .unwrap()
        .volumes
        .clear();
    let mut seen = testing::nothing();
    seen.initial_sql = Some(Err("missing".into()));
    assert!(applied(&plan(&db, &seen), "Job").is_none());
    seen.initial_sql = Some(Ok(testing::CONTENT.into()));
    assert_eq!(
        applied(&plan(&db, &seen), "Job").unwrap()["metadata"]["name"],
        "orders-init-aaaabbbb"
    );

    seen.jobs
        .insert("orders-init-aaaabbbb".into(), job(JobPhase::Active));
    assert!(
        applied(&plan(&db, &seen), "Job").is_none(),
        "a Job cannot be changed"
    );
    seen.initial_sql = Some(Ok("1111222233334444".into()));
    assert!(
        applied(&plan(&db, &seen), "Job").is_none(),
        "two do not run side by side"
    );
    seen.jobs.insert(
        "orders-init-aaaabbbb".into(),
        job(JobPhase::Failed("BackoffLimitExceeded".into())),
    );
    assert_eq!(
        applied(&plan(&db, &seen), "Job").unwrap()["metadata"]["name"],
        "orders-init-11112222"
    );
    seen.jobs
        .insert("orders-init-aaaabbbb".into(), job(JobPhase::Complete));
    assert!(applied(&plan(&db, &seen), "Job").is_none());
}

#[test]
fn a_long_name_still_has_a_job() {
    let mut db = testing::full_db();
    db.metadata.name = Some("a".repeat(50));
    let name = job::name(&crate::build::Target::of(&db), testing::CONTENT);
    assert_eq!(name.len(), 63);
}

/// What a look may find, in numbers and names.
type Look = (
    Option<(&'static str, Option<&'static str>, bool)>,
    (bool, bool, bool, bool, i32),
    &'static str,
    Vec<(prop::sample::Index, Option<&'static str>)>,
);

fn any_look() -> impl Strategy<Value = Look> {
    let owner = prop_oneof![Just(None), Just(Some(UID)), Just(Some("before"))];
    let claim = prop::option::of((prop_oneof![Just("c1"), Just("c2")], owner.clone(), any::<bool>()));
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..2_i32,
    );
    let strangers = prop::collection::vec((any::<prop::sample::Index>(), owner), 0..3);
    (claim, flags, prop_oneof![Just("1Gi"), Just("3Gi")], strangers)
}

fn look((claim, (open, settled, paused, adopt, instances), size, strangers): Look) -> (SampleDb, Observed) {
    let mut db = if open { testing::open_db() } else { testing::db() };
    let mut seen = if settled {
        testing::settled(&db)
    } else {
        testing::nothing()
    };
    db.spec.paused = paused;
    db.spec.instances = instances;
    db.spec.storage.data.size.0 = size.into();
    if adopt {
        testing::adopt(&mut db, "before");
    }
    seen.claims.clear();
    if let Some((uid, made_for, deleting)) = claim {
        let mut view = testing::claim(uid, made_for, "2Gi");
        view.found.seen.deleting = deleting;
        seen.claims.insert("data-orders-0".into(), view);
    }
    let keys: Vec<_> = seen.children.keys().cloned().collect();
    for (index, owner) in strangers {
        if !keys.is_empty() {
            seen.children
                .insert(index.get(&keys).clone(), testing::found(owner));
        }
    }
    (db, seen)
}

proptest! {
    #[test]
    fn whatever_is_seen_no_data_is_at_risk(found in any_look()) {
            let (db, seen) = look(found);
        let first = plan(&db, &seen);
        let again = plan(&db, &seen);
        prop_assert_eq!(first.apply.iter().map(Desired::hash).collect::<Vec<_>>(), again.apply.iter().map(Desired::hash).collect::<Vec<_>>());
        prop_assert_eq!(first.requeue, again.requeue);
        prop_assert!(first.delete.iter().all(|d| d.resource.kind == "StatefulSet" && d.orphan));
        let recorded = crate::volumes::volumes(&db, UID);
        let open = crate::volumes::was_open(&db);
        for desired in first.apply.iter().filter(|d| d.resource.kind == "PersistentVolumeClaim") {
            let before = recorded.iter().find(|v| v.claim == desired.name());
            if let (Some(before), true) = (before, open) {
                prop_assert_eq!(desired.seen.as_ref().map(|s| s.uid.as_str()), Some(before.uid.as_str()), "made a second time");
            }
            let asked = k8s_openapi::apimachinery::pkg::api::resource::Quantity(
                desired.object["spec"]["resources"]["requests"]["storage"].as_str().unwrap_or_default().into());
            if let Some(there) = seen.claims.get(desired.name()) {
                prop_assert!(quantity::at_least(&asked, there.requested.as_ref().unwrap()), "shrinks");
                prop_assert!(!there.found.seen.deleting);
            }
        }
    }
}
