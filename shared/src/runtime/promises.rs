//! The runtime's promises, each kept against an API server in memory with a clock that is moved.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fake::Fake;
use super::options::Options;
use super::sample::{Sample, database};
use super::serve::Life;
use crate::api::ownership::SERVICE_PUBLISHER;
use crate::telemetry::http::{Pages, router};
use crate::telemetry::metrics::Metrics;

#[derive(Parser)]
struct Main {
    #[command(flatten)]
    options: Options,
}

/// One process of the sample controller.
struct Process {
    passes: Arc<Mutex<Vec<(String, bool)>>>,
    pages: Pages,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    run: JoinHandle<anyhow::Result<()>>,
}

fn start_as(fake: &Arc<Fake>, pod: &str) -> Process {
    let Main { options } = Main::parse_from([
        "test",
        "--pod-name",
        pod,
        "--pod-uid",
        "1",
        "--release-namespace",
        "release",
    ]);
    let controller = Sample::default();
    let passes = Arc::clone(&controller.passes);
    let metrics = Arc::new(Metrics::new().unwrap());
    let life = Life::new(controller, fake.client(), options, Arc::clone(&metrics));
    let pages = life.pages();
    let stop = CancellationToken::new();
    let run = tokio::spawn(life.run(None, stop.clone()));
    Process {
        passes,
        pages,
        metrics,
        stop,
        run,
    }
}

fn start(fake: &Arc<Fake>) -> Process {
    start_as(fake, "pod-a")
}

impl Process {
    fn passes_of(&self, name: &str) -> usize {
        self.passes
            .lock()
            .unwrap()
            .iter()
            .filter(|(n, _)| n == name)
            .count()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        use tower::ServiceExt;
        let request = axum::http::Request::get(path)
            .body(axum::body::Body::empty())
            .unwrap();
        let response = router(self.pages.clone()).oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !so() {
        assert!(
            Instant::now() < end,
            "a minute passed and it is not so that {what}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

const DB: &str = "sampledbs/shop/orders";
const MAP: &str = "configmaps/shop/orders-config";
const LEASE: &str = "leases/release/sampledb-provisioner";

fn with_database() -> Arc<Fake> {
    let fake = Fake::new();
    fake.put(DB, database("shop", "orders"));
    publisher(&fake, 0);
    fake
}

fn publisher(fake: &Fake, beat: u32) {
    let holder = json!({"holderIdentity": "publisher-pod", "leaseTransitions": beat});
    let lease =
        json!({"metadata": {"name": SERVICE_PUBLISHER.manager, "namespace": "release"}, "spec": holder});
    fake.put("leases/release/sampledb-service-publisher", lease);
}

fn holder(fake: &Fake) -> Value {
    fake.get(LEASE).unwrap()["spec"]["holderIdentity"].clone()
}

/// The publisher's Lease, renewed for ever.
fn publisher_beats(fake: &Arc<Fake>) -> JoinHandle<()> {
    let fake = Arc::clone(fake);
    tokio::spawn(async move {
        for beat in 1.. {
            seconds(5).await;
            publisher(&fake, beat);
        }
    })
}

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
async fn of_two_replicas_one_works_and_the_other_takes_over_when_it_is_killed() {
    let fake = with_database();
    let (first, second) = (start_as(&fake, "pod-a"), start_as(&fake, "pod-b"));
    seconds(30).await;
    let (leader, standby) = if holder(&fake) == "pod-a_1" {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(standby.passes_of("orders"), 0);
    let (code, text) = standby.get("/readyz").await;
    assert!(
        code == 200 && text.contains("standby; the leader is pod-"),
        "{text}"
    );
    leader.run.abort();
    let before = Instant::now();
    until("the standby works", || standby.passes_of("orders") > 0).await;
    let took = before.elapsed();
    assert!(
        took >= Duration::from_secs(10) && took <= Duration::from_secs(21),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_told_to_end_gives_the_lease_back_and_the_other_goes_on_within_seconds() {
    let fake = with_database();
    let leader = start_as(&fake, "pod-a");
    seconds(7).await;
    let standby = start_as(&fake, "pod-b");
    seconds(7).await;
    leader.stop.cancel();
    leader.run.await.unwrap().unwrap();
    assert_eq!(holder(&fake), "");
    seconds(6).await;
    assert!(standby.passes_of("orders") > 0);
    assert_eq!(holder(&fake), "pod-b_1");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_ends_before_another_may_take_over() {
    let fake = with_database();
    let leader = start(&fake);
    seconds(7).await;
    fake.refuse(|method, path| (method == "PUT" && path.contains("/leases/")).then_some(500));
    let before = Instant::now();
    let error = leader.run.await.unwrap().unwrap_err();
    assert!(
        before.elapsed() < Duration::from_secs(15),
        "{:?}",
        before.elapsed()
    );
    assert!(error.to_string().contains("could not be renewed"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_on_a_busy_machine_does_not_give_up_while_nobody_can_have_taken_over() {
    let fake = with_database();
    let leader = start(&fake);
    seconds(7).await;
    // Renewed 2 s ago; not run for 10 s.
    tokio::time::advance(Duration::from_secs(10)).await;
    seconds(30).await;
    assert!(!leader.run.is_finished());
    tokio::time::advance(Duration::from_secs(20)).await;
    let error = leader.run.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not run in time"), "{error:#}");
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

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_ends_at_once() {
    let fake = with_database();
    let leader = start(&fake);
    seconds(7).await;
    fake.change(LEASE, |lease| lease["spec"]["holderIdentity"] = "somebody".into());
    let before = Instant::now();
    let error = leader.run.await.unwrap().unwrap_err();
    assert!(
        before.elapsed() <= Duration::from_secs(6),
        "{:?}",
        before.elapsed()
    );
    assert!(error.to_string().contains("somebody took it"), "{error:#}");
    assert_eq!(
        holder(&fake),
        "somebody",
        "and does not give back what is not its own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_of_the_api_server_costs_no_leader_and_heals_by_itself() {
    let fake = with_database();
    let process = start(&fake);
    seconds(1).await;
    fake.refuse(|_, _| Some(503));
    fake.break_watches();
    seconds(7).await;
    fake.allow();
    fake.change(DB, |db| db["spec"]["postgres"]["version"] = "18".into());
    seconds(5).await;
    assert!(!process.run.is_finished());
    assert_eq!(fake.get(MAP).unwrap()["data"]["version"], "18");
    seconds(60).await;
    assert_eq!(
        process.get("/readyz").await.1,
        "leading\n",
        "a watch that says nothing is taken for a failing one"
    );
}

#[tokio::test(start_paused = true)]
async fn the_page_says_who_leads() {
    let fake = with_database();
    let process = start(&fake);
    seconds(1).await;
    let (_, page) = process.get("/").await;
    assert!(page.contains("pod-a_1") && page.contains("configmaps"), "{page}");
    assert_eq!(process.get("/livez").await.0, 200);
}
