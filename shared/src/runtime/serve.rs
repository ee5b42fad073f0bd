//! A controller's life: wait for the kinds, get the Lease, watch, work, and end in order.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, ApiResource};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::crds::{self, Missing};
use super::entropy::short_id;
use super::events::Recorder;
use super::freshness::Freshness;
use super::lease::{Elector, Standing};
use super::options::Options;
use super::pass::Engine;
use super::plan::Controller;
use super::presence::Presence;
use super::state::State;
use super::trigger::Known;
use super::watches::{self, FAILING, Health};
use super::workers::Workers;
use super::{client, shutdown};
use crate::api::SampleDb;
use crate::domain::names;
use crate::telemetry::http::{self, Pages, Server};
use crate::telemetry::metrics::Metrics;

/// The first passes wait for the watches, but not longer than this.
const SYNC: Duration = Duration::from_secs(3);

/// Runs a controller until it is told to end, from the arguments alone.
pub(super) async fn serve<C: Controller>(controller: C, options: Options) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new()?);
    let client = client::connect(C::WRITER.manager, metrics.requests.clone())?;
    let server = Server::listen(options.http_port).await?;
    let stop = CancellationToken::new();
    let told = {
        let stop = stop.clone();
        async move {
            match shutdown::told().await {
                Ok(signal) => tracing::info!(event = "shutdown", signal, "told to end"),
                Err(error) => tracing::error!(%error, "signals cannot be received"),
            }
            stop.cancel();
        }
    };
    tokio::spawn(told);
    Life::new(controller, client, options, metrics)
        .run(Some(server), stop)
        .await
}

/// One run of a controller against one API server.
pub(crate) struct Life<C> {
    engine: Arc<Engine<C>>,
    standing: watch::Sender<Standing>,
    missing: Arc<Missing>,
    healths: Arc<Mutex<Vec<Arc<Health>>>>,
}

impl<C: Controller> Life<C> {
    pub(crate) fn new(controller: C, client: Client, options: Options, metrics: Arc<Metrics>) -> Self {
        let writer = C::WRITER;
        let (sender, standing) = watch::channel(Standing::default());
        let kinds = controller.watched().into_iter().map(|resource| resource.kind);
        let workers = Workers::new(
            writer.manager,
            options.concurrency,
            options.reconcile_timeout,
            Arc::clone(&metrics),
        );
        let engine = Engine {
            presence: Arc::new(Presence::new(controller.depends_on())),
            events: Recorder::new(client.clone(), writer.manager, options.pod_name.clone()),
            state: State::new(writer, options.state_metrics_limit),
            workers: Arc::new(workers),
            known: Known::default(),
            freshness: Arc::new(Freshness::of(kinds)),
            memories: Mutex::default(),
            controller,
            client,
            options,
            metrics,
            standing,
        };
        Self {
            engine: Arc::new(engine),
            standing: sender,
            missing: Arc::default(),
            healths: Arc::default(),
        }
    }

    /// Runs until `stop`, or until the Lease is lost.
    pub(crate) async fn run(self, server: Option<Server>, stop: CancellationToken) -> anyhow::Result<()> {
        let end = CancellationToken::new();
        let http = server.map(|server| {
            tracing::info!(event = "listening", address = %server.address(), "serving metrics and probes");
            tokio::spawn(server.serve(self.pages(), end.clone().cancelled_owned()))
        });
        let result = self.live(stop).await;
        end.cancel();
        if let Some(http) = http {
            let _ = tokio::time::timeout(Duration::from_secs(1), http).await;
        }
        result
    }

    async fn live(self, stop: CancellationToken) -> anyhow::Result<()> {
        let engine = &self.engine;
        let writer = C::WRITER;
        let databases = ApiResource::erase::<SampleDb>(&());
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = crds::served(&engine.client, &databases, &self.missing) => {}
        }

        let release = CancellationToken::new();
        let leading_gauge = engine.metrics.leader.with_label_values(&[writer.manager]);
        leading_gauge.set(0);
        let mut election = Task(tokio::spawn(self.election(release.clone())));
        let mut standing = self.engine.standing.clone();
        let leads = tokio::select! {
            () = stop.cancelled() => false,
            leads = standing.wait_for(|s| s.leading) => leads.is_ok(),
        };
        let mut lost = None;
        if leads {
            leading_gauge.set(1);
            // Ends with the last of its tasks: dropping it stops the watches.
            let watching = self.watch();
            let work = CancellationToken::new();
            let sync = self.sync();
            let (workers, engine) = (Arc::clone(&engine.workers), Arc::clone(engine));
            let drain = engine.options.drain_timeout;
            let running = {
                let work = work.clone();
                async move {
                    sync.await;
                    workers.run(engine, work, drain).await;
                }
            };
            let mut running = Task(tokio::spawn(running));
            tokio::select! {
                () = stop.cancelled() => {
                    work.cancel();
                    drop(watching);
                    let _ = (&mut running.0).await;
                }
                ended = &mut election.0 => {
                    // Another may be working now: nothing more is written, not even what was begun.
                    drop(running);
                    drop(watching);
                    lost = Some(ended);
                }
            }
            leading_gauge.set(0);
        }
        release.cancel();
        match lost {
            Some(ended) => ended.context("the election ended")?.map_err(Into::into),
            None => (&mut election.0)
                .await
                .context("the election ended")?
                .map_err(Into::into),
        }
    }

    fn election(
        &self,
        release: CancellationToken,
    ) -> impl Future<Output = Result<(), super::lease::Lost>> + Send + 'static + use<C> {
        let Options {
            pod_name,
            pod_uid,
            leader_election,
            ..
        } = &self.engine.options;
        let uid = if pod_uid.is_empty() {
            short_id()
        } else {
            pod_uid.clone()
        };
        let me = format!("{pod_name}_{uid}");
        let elector = Elector::new(self.leases(), C::WRITER.manager, me.clone(), &self.engine.options);
        let standing = self.standing.clone();
        let wanted = *leader_election;
        async move {
            if wanted {
                return elector.run(&standing, release).await;
            }
            standing.send_replace(Standing {
                leading: true,
                holder: me,
            });
            release.cancelled().await;
            Ok(())
        }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.engine.client.clone(), &self.engine.options.release_namespace)
    }

    fn health(&self, kind: &str) -> Arc<Health> {
        let health = Health::new(kind, Arc::clone(&self.engine.metrics));
        lock(&self.healths).push(Arc::clone(&health));
        health
    }

    /// Starts every watch, each as its own task.
    fn watch(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let engine = &self.engine;
        let client = &engine.client;
        for namespace in engine.options.namespaces() {
            let namespace = namespace.map(ToOwned::to_owned);
            let to = Arc::clone(engine);
            tasks.spawn(watches::databases(
                client.clone(),
                namespace.clone(),
                self.health("sampledbs"),
                to,
            ));
            for resource in engine.controller.watched() {
                let health = self.health(&resource.plural);
                let (missing, to) = (Arc::clone(&self.missing), Arc::clone(engine));
                tasks.spawn(watches::children(
                    client.clone(),
                    namespace.clone(),
                    resource,
                    missing,
                    health,
                    to,
                ));
            }
        }
        for manager in engine.controller.depends_on() {
            let (presence, to) = (Arc::clone(&engine.presence), Arc::clone(engine));
            tasks.spawn(presence.follow(self.leases(), manager, move || to.wake_all()));
        }
        tasks
    }

    /// Ends when every watch was whole once, or failed once, and everybody was looked for; or when that took too long.
    fn sync(&self) -> impl Future<Output = ()> + Send + 'static + use<C> {
        let (healths, presence, leases) = (
            Arc::clone(&self.healths),
            Arc::clone(&self.engine.presence),
            self.leases(),
        );
        async move {
            let all = async {
                presence.look_once(&leases).await;
                while !lock(&healths).iter().all(|h| h.tried()) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(SYNC, all).await;
        }
    }

    pub(crate) fn pages(&self) -> Pages {
        let (engine, healths, missing) = (
            Arc::clone(&self.engine),
            Arc::clone(&self.healths),
            Arc::clone(&self.missing),
        );
        let metrics = {
            let (engine, healths) = (Arc::clone(&engine), Arc::clone(&healths));
            move || {
                engine.workers.measure();
                lock(&healths).iter().for_each(|h| h.measure());
                let mut text = engine.metrics.encode();
                engine.state.encode(&mut text);
                text
            }
        };
        let live = {
            let engine = Arc::clone(&engine);
            move || match engine.workers.alive() {
                // A standby has no loop yet: it is alive while it answers.
                Err(silent) if engine.standing.borrow().leading => {
                    Err(format!("the work loop has not turned for {silent:?}"))
                }
                _ => Ok("alive".to_owned()),
            }
        };
        let ready = {
            let (engine, healths, missing) =
                (Arc::clone(&engine), Arc::clone(&healths), Arc::clone(&missing));
            move || readiness(&engine.standing.borrow(), &missing.list(), &lock(&healths))
        };
        let index = move || page(&engine, &lock(&healths), &missing.list());
        Pages {
            metrics: Arc::new(metrics),
            live: Arc::new(live),
            ready: Arc::new(ready),
            startup: None,
            index: Arc::new(index),
        }
    }
}

/// A task that ends with whoever holds it.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Ready: the kind is served, somebody is known to lead, and when it is this process, its watches began and not all of
/// them have been failing for long. Nothing is called ready that stops being so a moment later: `helm --wait` ends with
/// an error when that happens.
fn readiness(standing: &Standing, missing: &[String], healths: &[Arc<Health>]) -> http::Health {
    let ours = format!("sampledbs.{}/{}", crate::api::GROUP, crate::api::VERSION);
    if missing.contains(&ours) {
        return Err(format!(
            "waiting for the kind {ours}, which the API server does not serve: are the chart's CRDs installed?"
        ));
    }
    if !standing.leading {
        return match standing.holder.as_str() {
            "" => Err("nobody is known to lead yet".to_owned()),
            holder => Ok(format!("standby; the leader is {holder}")),
        };
    }
    if healths.is_empty() {
        return Err("the watches are about to begin".to_owned());
    }
    let failing = |h: &&Arc<Health>| h.failing().is_some_and(|time| time > FAILING);
    if healths.iter().all(|h| failing(&h)) {
        return Err("every watch has been failing for two minutes".to_owned());
    }
    let unsynced: Vec<_> = healths
        .iter()
        .filter(|h| !h.tried())
        .map(|h| h.kind.as_str())
        .collect();
    if !unsynced.is_empty() {
        return Err(format!("waiting for the first list of {}", unsynced.join(", ")));
    }
    let mut text = "leading".to_owned();
    if !missing.is_empty() {
        let _ = write!(text, "; not served, and waited for: {}", missing.join(", "));
    }
    let failing: Vec<_> = healths.iter().filter(failing).map(|h| h.kind.as_str()).collect();
    if !failing.is_empty() {
        let _ = write!(text, "; failing: {}", failing.join(", "));
    }
    Ok(text)
}

fn page<C: Controller>(engine: &Engine<C>, healths: &[Arc<Health>], missing: &[String]) -> String {
    let name = C::WRITER.manager;
    let standing = engine.standing.borrow().clone();
    let (waiting, failing) = engine.workers.numbers();
    let mut rows = String::new();
    for health in healths {
        let says = match (health.failing(), health.synced()) {
            (Some(time), _) => format!("failing for {} s", time.as_secs()),
            (None, true) => "ok".to_owned(),
            (None, false) => "starting".to_owned(),
        };
        let _ = write!(
            rows,
            "<tr><td>{}<td>{}",
            http::escaped(&health.kind),
            http::escaped(&says)
        );
    }
    for kind in missing {
        let _ = write!(rows, "<tr><td>{}<td>not served", http::escaped(kind));
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title>\
         <style>body{{font:16px system-ui;margin:2rem;max-width:40rem}}td{{padding:.1rem 1rem .1rem 0}}</style>\
         <h1>{name}</h1><table><tr><td>suite<td>{} {}<tr><td>this pod<td>{}<tr><td>role<td>{}<tr><td>leader<td>{}\
         <tr><td>SampleDBs<td>{}<tr><td>waiting<td>{waiting}<tr><td>failing<td>{failing}</table>\
         <h2>Watches</h2><table>{rows}</table>\
         <p><a href=/metrics>metrics</a> · <a href=/readyz>readyz</a> · <a href=/livez>livez</a>",
        names::SUITE,
        env!("CARGO_PKG_VERSION"),
        http::escaped(&engine.options.pod_name),
        if standing.leading { "leader" } else { "standby" },
        http::escaped(&standing.holder),
        engine.known.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(leading: bool, holder: &str) -> Standing {
        Standing {
            leading,
            holder: holder.to_owned(),
        }
    }

    fn health() -> anyhow::Result<Arc<Health>> {
        Ok(Health::new("sampledbs", Arc::new(Metrics::new()?)))
    }

    #[test]
    fn the_first_replica_is_not_ready_before_it_knows_who_leads() {
        assert!(readiness(&standing(false, ""), &[], &[]).is_err());
        assert!(readiness(&standing(false, "another"), &[], &[]).is_ok());
    }

    #[test]
    fn a_leader_is_ready_when_its_watches_began() -> anyhow::Result<()> {
        let health = health()?;
        let leads = standing(true, "me");
        let before = readiness(&leads, &[], &[]);
        assert!(
            before.is_err_and(|text| text.contains("about to begin")),
            "before the watches are there"
        );
        assert!(readiness(&leads, &[], &[Arc::clone(&health)]).is_err());
        health.whole();
        assert!(readiness(&leads, &[], &[health]).is_ok());
        Ok(())
    }

    #[test]
    fn nobody_is_ready_while_the_kind_is_not_served() {
        let ours = format!("sampledbs.{}/{}", crate::api::GROUP, crate::api::VERSION);
        let said = readiness(&standing(false, "another"), &[ours], &[]);
        assert!(said.is_err_and(|text| text.contains("CRDs")));
    }
}
