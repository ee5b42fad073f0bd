//! Keeps the `-rw` slice leading where it should, and puts back what a stranger changes.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::sync::watch;

use super::cluster::{Cluster, ClusterError};
use super::watches::Found;

/// Where clients are led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// By this term.
    pub term: i64,
    /// To this instance; otherwise nowhere.
    pub filled: bool,
}

/// The wish and its fulfilment.
#[derive(Clone)]
pub struct Routing {
    wish: std::sync::Arc<watch::Sender<Option<Lead>>>,
    fulfilled: watch::Receiver<Option<Lead>>,
}

impl Routing {
    /// Starts to keep the slice.
    pub fn start(cluster: Cluster, slices: watch::Receiver<Found<EndpointSlice>>) -> Self {
        let (wish, wishes) = watch::channel(None);
        let (tell, fulfilled) = watch::channel(None);
        tokio::spawn(keep(cluster, slices, wishes, tell));
        Self {
            wish: std::sync::Arc::new(wish),
            fulfilled,
        }
    }

    /// From now on clients are led so. Returns at once.
    pub fn lead(&self, lead: Lead) {
        self.wish.send_if_modified(|now| {
            let changed = *now != Some(lead);
            *now = Some(lead);
            changed
        });
    }

    /// From now on the slice is left alone.
    pub fn stop(&self) {
        self.wish.send_replace(None);
    }

    /// Waits until clients are led so, at the most `patience`; whether they are.
    pub async fn led(&self, lead: Lead, patience: Duration) -> bool {
        let mut fulfilled = self.fulfilled.clone();
        let reached = fulfilled.wait_for(|now| *now == Some(lead));
        matches!(tokio::time::timeout(patience, reached).await, Ok(Ok(_)))
    }
}

async fn keep(
    cluster: Cluster,
    mut slices: watch::Receiver<Found<EndpointSlice>>,
    mut wishes: watch::Receiver<Option<Lead>>,
    tell: watch::Sender<Option<Lead>>,
) {
    let mut latest = Found::Unknown;
    let mut failures = 0_u32;
    loop {
        let wish = *wishes.borrow_and_update();
        let mut pause = None;
        if let Some(lead) = wish {
            match step(&cluster, lead, &mut latest).await {
                Ok(()) => {
                    failures = 0;
                    tell.send_replace(Some(lead));
                }
                Err(error) => {
                    failures += 1;
                    if error.is_conflict() && failures < 5 {
                        tracing::info!(%error, "the slice changed meanwhile; it is read again");
                    } else {
                        tracing::warn!(%error, failures, "clients could not be led");
                    }
                    latest = Found::Unknown;
                    pause = Some(Duration::from_millis(20 << failures.min(8)).min(Duration::from_secs(5)));
                }
            }
        }
        let retry = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() { return },
            changed = slices.changed() => {
                if changed.is_err() { return }
                latest = slices.borrow_and_update().clone();
            }
            () = retry => {}
        }
    }
}

async fn step(cluster: &Cluster, lead: Lead, latest: &mut Found<EndpointSlice>) -> Result<(), ClusterError> {
    let wanted = cluster.wanted_slice(lead.term, lead.filled);
    if *latest == Found::Unknown {
        *latest = cluster.found_slice().await?.map_or(Found::Absent, Found::Present);
    }
    let now = cluster.lead(&wanted, latest.present()).await?;
    *latest = Found::Present(now);
    Ok(())
}
