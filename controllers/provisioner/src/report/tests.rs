use rstest::rstest;
use sampledb_shared::api::instances::{InstanceError, InstanceErrorReason, StorageState};
use sampledb_shared::runtime::{ErrorClass, Refusal};
use serde_json::json;

use super::*;
use crate::testing::{self, UID};
use crate::views::{JobPhase, JobView};

fn scene(change: impl FnOnce(&mut SampleDb, &mut Observed, &mut Applied)) -> (SampleDb, Report) {
    scene_of(testing::open_db(), change)
}

fn scene_of(
    mut db: SampleDb,
    change: impl FnOnce(&mut SampleDb, &mut Observed, &mut Applied),
) -> (SampleDb, Report) {
    let mut seen = testing::settled(&db);
    let mut applied = testing::applied(&crate::decide::decide(&db, &seen, &testing::settings()));
    change(&mut db, &mut seen, &mut applied);
    let report = report(&db, &seen, &testing::settings(), &applied, testing::now());
    (db, report)
}

fn status(db: &mut SampleDb) -> &mut SampleDbStatus {
    db.status.as_mut().unwrap()
}

fn condition(report: &Report, type_: &str) -> (String, String, String) {
    let conditions = report.status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|c| c["type"] == type_).unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn is(report: &Report, type_: &str, status: &str, reason: &str) {
    let found = condition(report, type_);
    assert_eq!(
        (found.0.as_str(), found.1.as_str()),
        (status, reason),
        "{type_}: {}",
        found.2
    );
}

fn refused(kind: &str, class: ErrorClass) -> Refusal {
    Refusal {
        kind: kind.into(),
        name: "x".into(),
        class,
        message: "exceeded quota: small".into(),
    }
}

#[test]
fn a_database_in_order() {
    let (_, report) = scene(|_, _, _| {});
    insta::assert_yaml_snapshot!(json!(report.status));
}

#[test]
fn a_first_look() {
    let db = testing::db();
    let seen = testing::nothing();
    let applied = testing::applied(&crate::decide::decide(&db, &seen, &testing::settings()));
    let report = report(&db, &seen, &testing::settings(), &applied, testing::now());
    is(&report, "Ready", "False", "PodsNotReady");
    is(&report, "Reconciling", "True", "PodsNotReady");
    assert_eq!(report.status["phase"], "Creating");
    assert_eq!(
        report.status["provisioning"]["volumes"][0],
        json!({"claim": "data-orders-0", "uid": "c1"})
    );
}

#[test]
fn nothing_is_written_twice() {
    let (mut db, first) = scene(|_, _, _| {});
    let status: SampleDbStatus = serde_json::from_value(json!(first.status)).unwrap();
    let before = db.status.as_mut().unwrap();
    before.conditions.extend(status.conditions);
    before.provisioning = status.provisioning;
    let (_, second) = scene_of(db, |_, _, _| {});
    assert_eq!(json!(first.status), json!(second.status));
    assert!(second.events.is_empty());
}

#[rstest]
#[case::quota("Secret", ErrorClass::Forbidden, "True", "Refused")]
#[case::immutable("StatefulSet", ErrorClass::Invalid, "True", "Refused")]
#[case::busy("Secret", ErrorClass::Transient, "False", "NotStalled")]
fn a_refusal_is_told_in_the_api_servers_words(
    #[case] kind: &str,
    #[case] class: ErrorClass,
    #[case] status: &str,
    #[case] reason: &str,
) {
    let (_, report) = scene(|_, _, applied| applied.refused.push(refused(kind, class)));
    is(&report, "Stalled", status, reason);
    assert!(condition(&report, "Ready").2.contains("exceeded quota: small"));
    assert_eq!(condition(&report, "Ready").0, "False");
}

#[test]
fn a_volume_that_cannot_grow_says_so() {
    let (_, report) = scene(|_, _, applied| {
        applied
            .refused
            .push(refused("PersistentVolumeClaim", ErrorClass::Forbidden));
    });
    is(&report, "StorageHealthy", "False", "ClaimRefused");
    assert!(
        condition(&report, "StorageHealthy")
            .2
            .contains("exceeded quota: small")
    );
    is(&report, "Available", "True", "Available");
    assert_eq!(report.status["phase"], "Degraded");
}

#[test]
fn a_pod_that_is_refused_shows_in_stalled() {
    let (_, report) = scene(|_, seen, _| {
        seen.pods.clear();
        seen.pod_refusal = Some("pods \"orders-0\" is forbidden: exceeded quota".into());
    });
    is(&report, "Stalled", "True", "PodRefused");
    assert!(condition(&report, "Stalled").2.contains("exceeded quota"));
    assert_eq!(report.status["phase"], "Failed");
    assert!(
        report
            .events
            .iter()
            .any(|e| e.warning && e.reason == "PodRefused")
    );
}

#[test]
fn a_waiting_pod_says_for_what() {
    let (_, report) = scene(|_, seen, _| {
        seen.pods[0].ready = false;
        seen.pods[0].waits_for = Some("container postgres waits: ImagePullBackOff".into());
    });
    is(&report, "Ready", "False", "PodsNotReady");
    is(&report, "Available", "False", "PrimaryNotReady");
    is(&report, "Reconciling", "True", "PodsNotReady");
    assert!(condition(&report, "Ready").2.contains("ImagePullBackOff"));
    assert_eq!(report.status["phase"], "Degraded");
}

#[test]
fn a_value_that_postgresql_refuses_is_told_in_its_words() {
    let (_, report) = scene(|db, _, _| {
        db.spec
            .postgres
            .parameters
            .insert("work_mem".into(), "lots".into());
        let hash = crate::build::config_map::Configuration::of(&crate::build::Target::of(db)).hash;
        let instance = &mut status(db).instances[0];
        instance.rejected_hash = Some(hash);
        instance.parameter_errors = vec!["invalid value for parameter \"work_mem\"".into()];
    });
    is(&report, "Stalled", "True", "ParameterRejected");
    assert!(condition(&report, "Ready").2.contains("work_mem"));
    is(&report, "Available", "True", "Available");
}

#[test]
fn a_value_refused_at_the_first_start_is_not_said_to_leave_another_in_force() {
    let (_, report) = scene(|db, _, _| {
        let hash = crate::build::config_map::Configuration::of(&crate::build::Target::of(db)).hash;
        let instance = &mut status(db).instances[0];
        instance.config_hash = None;
        instance.rejected_hash = Some(hash);
        instance.parameter_errors = vec!["unrecognized configuration parameter \"foo\"".into()];
    });
    is(&report, "Stalled", "True", "ParameterRejected");
    let message = condition(&report, "Stalled").2;
    assert!(
        message.contains("correct spec.postgres.parameters") && !message.contains("in force"),
        "{message}"
    );
}

#[rstest]
#[case::a_moment_after_the_renewal(5, "True", "Valid")]
#[case::long_after(15, "False", "NotLoaded")]
fn a_renewed_certificate_that_the_server_does_not_show_is_said(
    #[case] minutes: i64,
    #[case] is: &str,
    #[case] reason: &str,
) {
    let (_, report) = scene(|db, seen, _| {
        status(db).instances[0].cert_serial = Some("0a".into());
        let age = jiff::SignedDuration::from_mins(minutes);
        seen.material.server_facts.not_before =
            testing::now() - age - crate::credentials::certificate::BACKDATED;
    });
    self::is(&report, "CertificatesValid", is, reason);
}

#[test]
fn a_volume_that_is_not_made_is_told_before_the_pod_that_waits_for_it() {
    let (_, report) = scene(|_, seen, _| {
        seen.pods[0].ready = false;
        let claim = seen.claims.get_mut("data-orders-0").unwrap();
        claim.capacity = None;
        claim.storage_class = Some("nope".into());
        claim.not_provisioned = Some("storageclass.storage.k8s.io \"nope\" not found".into());
    });
    is(&report, "Ready", "False", "NotProvisioned");
    let message = condition(&report, "StorageHealthy").2;
    assert!(
        message.contains("data-orders-0 (StorageClass nope)") && message.contains("not found"),
        "{message}"
    );
}

#[rstest]
#[case::a_name_that_is_taken("NameCollision", "True")]
#[case::an_object_that_was_refused("Refused", "True")]
#[case::what_passes_by_itself("WaitingForProvisioner", "False")]
fn what_the_publisher_cannot_do_without_a_person_is_told_where_people_look(
    #[case] reason: &str,
    #[case] stalled: &str,
) {
    let (_, report) = scene(|db, _, _| {
        let published = status(db).conditions.iter_mut().find(|c| c.type_ == "Published");
        let published = published.unwrap();
        published.status = "False".into();
        published.reason = reason.into();
        published.message = "the Secret orders-app is another's".into();
    });
    assert_eq!(condition(&report, "Stalled").0, stalled);
    assert_eq!(condition(&report, "Ready").0, "False");
    if stalled == "True" {
        is(&report, "Ready", "False", reason);
        assert!(condition(&report, "Stalled").2.contains("orders-app"));
    }
}

#[test]
fn an_old_refusal_says_nothing_of_a_corrected_value() {
    let (_, report) = scene(|db, _, _| status(db).instances[0].rejected_hash = Some("another".into()));
    is(&report, "Stalled", "False", "NotStalled");
}

#[test]
fn ready_waits_until_the_configuration_is_in_force() {
    let (_, report) = scene(|db, _, _| {
        db.spec
            .postgres
            .parameters
            .insert("work_mem".into(), "8MB".into());
    });
    is(&report, "Ready", "False", "Configuring");
    is(&report, "Available", "True", "Available");
    assert_eq!(report.status["phase"], "Running");
}

#[test]
fn a_setting_that_needs_a_restart_is_shown_with_the_way_to_have_it() {
    let (_, report) =
        scene(|db, _, _| status(db).instances[0].pending_restart = vec!["max_connections".into()]);
    is(&report, "Ready", "True", "Ready");
    let message = condition(&report, "Ready").2;
    assert!(
        message.contains("max_connections") && message.contains("sampledb.dev/restartedAt"),
        "{message}"
    );
    let (_, report) = scene(|db, _, _| testing::annotate(db, labels::RESTARTED_AT, "now"));
    is(&report, "Ready", "False", "Restarting");
}

#[test]
fn what_another_database_of_the_same_name_said_does_not_count() {
    let (_, report) = scene(|db, _, _| status(db).instances[0].uid = "before".into());
    is(&report, "Ready", "False", "Configuring");
    let (_, report) = scene(|db, _, _| status(db).provisioning.as_mut().unwrap().uid = "before".into());
    is(&report, "Ready", "True", "Ready");
}

#[test]
fn without_the_publisher_nothing_is_known() {
    let (_, report) = scene(|_, seen, _| seen.publisher_seen = false);
    is(&report, "Ready", "Unknown", "WriterNotSeen");
}

#[test]
fn ready_waits_for_the_publisher_to_take_up_a_change() {
    let (_, report) = scene(|db, _, _| db.metadata.generation = Some(2));
    is(&report, "Ready", "False", "Publishing");
    assert_eq!(report.status["observedGeneration"], 2);
}

#[test]
fn hibernation_is_ready_and_not_available() {
    let (_, going) = scene(|db, _, _| db.spec.instances = 0);
    is(&going, "Ready", "False", "Hibernating");
    let (_, gone) = scene(|db, seen, _| {
        db.spec.instances = 0;
        seen.pods.clear();
    });
    is(&gone, "Ready", "True", "Hibernated");
    is(&gone, "Available", "False", "Hibernated");
    assert_eq!(
        (&gone.status["phase"], &gone.status["replicas"]),
        (&json!("Hibernated"), &json!(0))
    );
}

#[test]
fn a_pause_is_said_and_the_rest_is_told_still() {
    let (_, report) = scene(|db, _, _| db.spec.paused = true);
    is(&report, "Reconciling", "False", "Paused");
    is(&report, "Ready", "True", "Ready");
    is(&report, "Stalled", "False", "NotStalled");
    // What would be wrong otherwise is not put right, and that is why.
    let (_, report) = scene(|db, _, _| {
        db.spec.paused = true;
        db.metadata.generation = Some(2);
    });
    is(&report, "Ready", "False", "Paused");
}

#[test]
fn a_delete_is_said() {
    let (_, report) = scene(|db, _, _| {
        db.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            testing::now(),
        ));
    });
    is(&report, "Ready", "False", "Deleting");
    assert_eq!(report.status["phase"], "Deleting");
}

#[test]
fn kept_volumes_are_told_with_both_ways_on() {
    let (_, report) = scene_of(testing::db(), |_, seen, _| {
        seen.claims.insert(
            "data-orders-0".into(),
            testing::claim("c0", Some("before"), "1Gi"),
        );
    });
    is(&report, "Stalled", "True", "NameCollision");
    let message = condition(&report, "Stalled").2;
    assert!(
        message.contains("adopt-volumes=before") && message.contains("delete the claims"),
        "{message}"
    );
    assert!(report.status["provisioning"].get("volumes").is_none());
}

#[test]
fn a_lost_volume_stays_recorded_as_it_was() {
    let (_, report) = scene(|_, seen, _| {
        seen.claims
            .insert("data-orders-0".into(), testing::claim("c2", Some(UID), "1Gi"));
    });
    is(&report, "Stalled", "True", "VolumeLost");
    is(&report, "StorageHealthy", "False", "VolumeLost");
    assert_eq!(report.status["provisioning"]["volumes"][0]["uid"], "c1");
}

#[test]
fn a_version_that_is_not_there_is_said() {
    let (_, report) = scene(|db, _, _| db.spec.postgres.version = "17.1".into());
    is(&report, "Stalled", "True", "ImageNotFound");
    assert!(condition(&report, "Stalled").2.contains("17 (17.12)"));
    assert_eq!(report.status["provisioning"]["images"]["resolvedFor"], "17");
}

#[test]
fn broken_initial_sql_ends_with_postgresqls_words() {
    let mut db = testing::opened(testing::full_db());
    status(&mut db).provisioning.as_mut().unwrap().volumes.clear();
    let (_, report) = scene_of(db, |_, seen, _| {
        seen.initial_sql = Some(Ok(testing::CONTENT.into()));
        let phase = JobPhase::Failed("PodFailurePolicy".into());
        seen.jobs.insert(
            "orders-init-aaaabbbb".into(),
            JobView {
                found: testing::found(Some(UID)),
                built: None,
                phase,
            },
        );
        seen.init_errors.insert(
            "orders-init-aaaabbbb".into(),
            "schema.sql: syntax error at or near \"CREAT\"".into(),
        );
    });
    is(&report, "Initialized", "False", "InitFailed");
    is(&report, "Stalled", "True", "InitFailed");
    assert!(condition(&report, "Initialized").2.contains("CREAT"));
    assert_eq!(report.status["provisioning"]["init"]["phase"], "Failed");
}

#[test]
fn initial_sql_that_was_run_never_runs_again() {
    let mut db = testing::opened(testing::full_db());
    let provisioning = status(&mut db).provisioning.as_mut().unwrap();
    provisioning.init = Some(sampledb_shared::api::provisioning::InitStatus {
        phase: sampledb_shared::api::provisioning::InitPhase::Succeeded,
        job: Some("orders-init-aaaabbbb".into()),
        error: None,
    });
    let (_, report) = scene_of(db, |_, seen, _| seen.initial_sql = Some(Ok("other".into())));
    is(&report, "Initialized", "True", "Initialized");
    assert_eq!(
        report.status["provisioning"]["init"]["job"],
        "orders-init-aaaabbbb"
    );
}

#[test]
fn a_full_volume_and_a_growing_one_are_told_apart() {
    let (_, report) = scene(|db, _, _| {
        status(db).instances[0].storage = StorageState::Full;
    });
    is(&report, "StorageHealthy", "False", "Full");
    is(&report, "Stalled", "False", "NotStalled");
    let (_, report) = scene(|db, _, _| {
        let instance = &mut status(db).instances[0];
        instance.storage = StorageState::Full;
        instance.last_error = Some(InstanceError {
            reason: InstanceErrorReason::StartFailed,
            message: "could not write lock file".into(),
        });
    });
    is(&report, "Stalled", "True", "VolumeFull");
    let (_, _, message) = condition(&report, "Stalled");
    assert!(message.contains("grow spec.storage"), "{message}");
    let (_, report) = scene(|db, _, _| db.spec.storage.data.size.0 = "3Gi".into());
    is(&report, "StorageHealthy", "True", "Growing");
    is(&report, "Ready", "False", "VolumesGrowing");
}

#[test]
fn certificates_that_are_not_written_are_not_valid() {
    let (_, report) = scene(|_, seen, applied| {
        let secret = "orders-server".to_owned();
        applied.objects.remove(&("Secret".to_owned(), secret.clone()));
        seen.material.minted.push(crate::credentials::Minted {
            secret,
            why: crate::credentials::settle::Why::Due,
        });
    });
    is(&report, "CertificatesValid", "False", "NotIssued");
    assert!(report.status["provisioning"].get("certificates").is_none());
    let (_, report) = scene(|_, seen, _| seen.material.first_not_after = testing::now());
    is(&report, "CertificatesValid", "False", "Expired");
}
