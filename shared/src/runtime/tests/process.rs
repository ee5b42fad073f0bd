//! A process of the sample controller, and what the tests do with it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fake::Fake;
use super::sample::{Sample, database};
use crate::api::ownership::SERVICE_PUBLISHER;
use crate::runtime::options::Options;
use crate::runtime::serve::Life;
use crate::telemetry::http::{Pages, router};
use crate::telemetry::metrics::Metrics;

#[derive(Parser)]
struct Main {
    #[command(flatten)]
    options: Options,
}

/// One process of the sample controller.
pub(super) struct Process {
    pub(super) passes: Arc<Mutex<Vec<(String, bool)>>>,
    pub(super) pages: Pages,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stop: CancellationToken,
    pub(super) run: JoinHandle<anyhow::Result<()>>,
}

pub(super) fn start_as(fake: &Arc<Fake>, pod: &str) -> Process {
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

pub(super) fn start(fake: &Arc<Fake>) -> Process {
    start_as(fake, "pod-a")
}

impl Process {
    pub(super) fn passes_of(&self, name: &str) -> usize {
        self.passes
            .lock()
            .unwrap()
            .iter()
            .filter(|(n, _)| n == name)
            .count()
    }

    pub(super) async fn get(&self, path: &str) -> (u16, String) {
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

pub(super) async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

pub(super) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !so() {
        assert!(
            Instant::now() < end,
            "a minute passed and it is not so that {what}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) const DB: &str = "sampledbs/shop/orders";
pub(super) const MAP: &str = "configmaps/shop/orders-config";
pub(super) const LEASE: &str = "leases/release/sampledb-provisioner";

pub(super) fn with_database() -> Arc<Fake> {
    let fake = Fake::new();
    fake.put(DB, database("shop", "orders"));
    publisher(&fake, 0);
    fake
}

pub(super) fn publisher(fake: &Fake, beat: u32) {
    let holder = json!({"holderIdentity": "publisher-pod", "leaseTransitions": beat});
    let lease =
        json!({"metadata": {"name": SERVICE_PUBLISHER.manager, "namespace": "release"}, "spec": holder});
    fake.put("leases/release/sampledb-service-publisher", lease);
}

pub(super) fn holder(fake: &Fake) -> Value {
    fake.get(LEASE).unwrap()["spec"]["holderIdentity"].clone()
}

/// The publisher's Lease, renewed for ever.
pub(super) fn publisher_beats(fake: &Arc<Fake>) -> JoinHandle<()> {
    let fake = Arc::clone(fake);
    tokio::spawn(async move {
        for beat in 1.. {
            seconds(5).await;
            publisher(&fake, beat);
        }
    })
}
