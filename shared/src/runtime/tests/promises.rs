//! The runtime's promises, each kept against an API server in memory with a clock that is moved.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::fake::Fake;
use super::process::{DB, LEASE, MAP, publisher, publisher_beats, seconds, start, until, with_database};
use super::sample::database;

#[tokio::test(start_paused = true)]
async fn a_database_is_made_at_once_and_then_an_hour_passes_without_a_write() {
    let fake = with_database();
    let beats = publisher_beats(&fake);
    let process = start(&fake);
    let before = Instant::now();
    until("it runs", || {
        fake.get(DB).unwrap()["status"]["phase"] == "Running"
    })
    .await;
    assert!(
        before.elapsed() < Duration::from_millis(100),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(fake.get(MAP).unwrap()["data"]["version"], "17");
    seconds(1).await;
    assert_eq!(
        fake.writes(),
        [format!("PATCH {MAP}"), format!("PATCH {DB}/status")]
    );
    let passes = process.passes_of("orders");
    seconds(3600).await;
    assert_eq!(fake.writes(), Vec::<String>::new());
    assert_eq!(process.passes_of("orders"), passes, "its own writes woke it");
    beats.abort();
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_controller_writes_no_status_that_is_there_already() {
    let fake = with_database();
    let first = start(&fake);
    seconds(2).await;
    first.stop.cancel();
    first.run.await.unwrap().unwrap();
    let version = fake.get(MAP).unwrap()["metadata"]["resourceVersion"].clone();
    fake.writes();
    let _second = start(&fake);
    seconds(2).await;
    assert_eq!(
        fake.writes(),
        [format!("PATCH {MAP}")],
        "applied once more, because nothing is remembered"
    );
    assert_eq!(
        fake.get(MAP).unwrap()["metadata"]["resourceVersion"],
        version,
        "which changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_edited_or_deleted_by_hand_comes_back() {
    let fake = with_database();
    let _process = start(&fake);
    seconds(1).await;
    fake.change(MAP, |map| map["data"]["version"] = "9".into());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.get(MAP).unwrap()["data"]["version"], "17");
    fake.remove(MAP);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.get(MAP).unwrap()["data"]["version"], "17");
}

#[tokio::test(start_paused = true)]
async fn a_child_deleted_while_its_watch_was_broken_comes_back_too() {
    let fake = with_database();
    let _process = start(&fake);
    seconds(1).await;
    // A watch that begins anew with a list says nothing of what is gone.
    fake.remove_silently(MAP);
    seconds(130).await;
    assert!(fake.get(MAP).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_delays_no_other() {
    let fake = with_database();
    fake.refuse(|_, path| path.contains("/statefulsets").then_some(403));
    let process = start(&fake);
    seconds(60).await;
    let (_, metrics) = process.get("/metrics").await;
    assert!(
        process
            .metrics
            .watch_errors
            .with_label_values(&["statefulsets"])
            .get()
            > 3,
        "{metrics}"
    );
    for _ in 0..20 {
        fake.remove(MAP);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(fake.get(MAP).is_some(), "an event of a healthy watch was held up");
        seconds(3).await;
    }
    let (code, text) = process.get("/readyz").await;
    assert_eq!(code, 200, "{text}");
    seconds(120).await;
    assert!(process.get("/readyz").await.1.contains("failing: statefulsets"));
    fake.allow();
    seconds(60).await;
    assert_eq!(process.get("/readyz").await.1, "leading\n");
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_does_not_blind_the_controller() {
    let fake = with_database();
    let mut bad = database("shop", "bad");
    bad["spec"]["instances"] = "many".into();
    fake.put("sampledbs/shop/bad", bad.clone());
    let process = start(&fake);
    seconds(1).await;
    assert!(fake.get(MAP).is_some());
    fake.put("sampledbs/shop/bad", bad);
    fake.put("sampledbs/shop/later", database("shop", "later"));
    seconds(1).await;
    assert!(fake.get("configmaps/shop/later-config").is_some());
    assert!(
        process
            .metrics
            .watch_invalid
            .with_label_values(&["sampledbs"])
            .get()
            >= 2
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_installed_before_the_crd_waits_and_says_so() {
    let fake = with_database();
    fake.serve("sampledb.dev/v1", "sampledbs", false);
    let process = start(&fake);
    seconds(60).await;
    let (code, text) = process.get("/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("sampledbs.sampledb.dev/v1"), "{text}");
    assert!(fake.get(LEASE).is_none());
    fake.serve("sampledb.dev/v1", "sampledbs", true);
    seconds(20).await;
    assert_eq!(process.get("/readyz").await.0, 200);
    assert!(fake.get(MAP).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_named_and_the_work_goes_on_without_it() {
    let fake = with_database();
    fake.serve("apps/v1", "statefulsets", false);
    let process = start(&fake);
    seconds(1).await;
    assert!(fake.get(MAP).is_some());
    assert!(process.get("/readyz").await.1.contains("statefulsets.apps/v1"));
    fake.serve("apps/v1", "statefulsets", true);
    seconds(20).await;
    assert_eq!(process.get("/readyz").await.1, "leading\n");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_stranger_made_between_look_and_write_is_left_as_it_is() {
    let fake = with_database();
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"theirs": "1"},
        "metadata": {"name": "orders-config", "namespace": "shop", "managedFields": [{"manager": "kubectl", "operation": "Update"}]},
    });
    let once = Mutex::new(Some(theirs));
    fake.before(move |fake, method, path| {
        if method == "PATCH"
            && path.contains("orders-config")
            && let Some(theirs) = once.lock().unwrap().take()
        {
            fake.put(MAP, theirs);
        }
    });
    let _process = start(&fake);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.get(MAP).unwrap()["data"], json!({"theirs": "1"}));
    assert_eq!(fake.get(DB).unwrap()["status"]["phase"], "Failed");
}

#[tokio::test(start_paused = true)]
async fn a_panic_for_one_database_is_counted_and_the_others_go_on() {
    let fake = with_database();
    fake.put("sampledbs/shop/panics", database("shop", "panics"));
    let process = start(&fake);
    seconds(10).await;
    assert!(fake.get(MAP).is_some());
    assert!(
        process.passes_of("panics") > 3 && process.passes_of("panics") < 15,
        "{}",
        process.passes_of("panics")
    );
    assert!(
        process
            .get("/metrics")
            .await
            .1
            .contains("controller_runtime_reconcile_panics_total{controller=\"sampledb-provisioner\"}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_database_of_an_old_name_does_not_inherit_the_old_one_s_status() {
    let fake = with_database();
    let _process = start(&fake);
    seconds(1).await;
    fake.remove(DB);
    fake.remove(MAP);
    fake.put(DB, database("shop", "orders"));
    let uid = fake.get(DB).unwrap()["metadata"]["uid"].clone();
    seconds(1).await;
    assert_eq!(
        fake.get(MAP).unwrap()["metadata"]["annotations"]["sampledb.dev/uid"],
        uid
    );
    assert_eq!(fake.get(DB).unwrap()["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_database_leaves_nothing_in_the_metrics() {
    let fake = with_database();
    let process = start(&fake);
    seconds(1).await;
    assert!(process.get("/metrics").await.1.contains("name=\"orders\""));
    fake.remove(DB);
    seconds(1).await;
    assert!(!process.get("/metrics").await.1.contains("name=\"orders\""));
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_gone_shows_and_so_does_its_return() {
    let fake = with_database();
    let _process = start(&fake);
    seconds(1).await;
    let ready = |fake: &Fake| fake.get(DB).unwrap()["status"]["conditions"][0]["status"].clone();
    assert_eq!(ready(&fake), "True");
    seconds(75).await;
    assert_eq!(ready(&fake), "Unknown", "its Lease stood still for a minute");
    publisher(&fake, 1);
    seconds(2).await;
    assert_eq!(ready(&fake), "True");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_refers_to_another_is_made_in_the_same_pass() {
    let fake = with_database();
    let refused = Mutex::new(false);
    fake.refuse(move |method, path| {
        let first = method == "PATCH"
            && path.contains("orders-config")
            && !std::mem::replace(&mut *refused.lock().unwrap(), true);
        first.then_some(404)
    });
    let process = start(&fake);
    until("it runs", || {
        fake.get(DB).unwrap()["status"]["phase"] == "Running"
    })
    .await;
    assert_eq!(process.passes_of("orders"), 1);
}
