//! The metrics of a controller, under the names of Kubernetes' controller-runtime, so that existing dashboards work.
//!
//! No label carries an object's name or an error's text.

use prometheus::core::Collector;
use prometheus::{
    CounterVec, Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// The content type of [`encode`]'s text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics could not be registered: two have one name.
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// Everything in a registry, in Prometheus' text format.
pub fn encode(registry: &Registry) -> String {
    let mut text = Vec::with_capacity(8 << 10);
    if let Err(error) = TextEncoder::new().encode(&registry.gather(), &mut text) {
        tracing::error!(%error, "metrics could not be written");
    }
    String::from_utf8(text).unwrap_or_default()
}

/// A registry with the metrics of the process itself (`process_*`).
pub fn registry() -> Result<Registry, MetricsError> {
    let registry = Registry::new();
    registry.register(Box::new(
        prometheus::process_collector::ProcessCollector::for_self(),
    ))?;
    Ok(registry)
}

/// Adds a metric to a registry and gives it back.
pub fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, MetricsError> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// A counter with labels, registered.
pub fn counter(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, MetricsError> {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

/// A gauge of whole numbers with labels, registered.
pub fn gauge(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, MetricsError> {
    register(registry, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

/// A gauge with labels, registered.
pub fn gauge_f64(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<GaugeVec, MetricsError> {
    register(registry, GaugeVec::new(Opts::new(name, help), labels)?)
}

/// A histogram of seconds with labels, registered.
pub fn seconds(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    buckets: &[f64],
) -> Result<HistogramVec, MetricsError> {
    let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    register(registry, HistogramVec::new(opts, labels)?)
}

/// From 1 ms to a minute.
const BUCKETS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0,
];

/// The requests to the API server.
#[derive(Clone)]
pub struct Requests {
    /// By status code (`<error>` where there was none) and method.
    pub total: IntCounterVec,
    /// Until the head of the answer, by method.
    pub duration: HistogramVec,
}

impl Requests {
    /// Registers them.
    pub fn new(registry: &Registry) -> Result<Self, MetricsError> {
        Ok(Self {
            total: counter(
                registry,
                "rest_client_requests_total",
                "Requests to the API server, by status code and method.",
                &["code", "method"],
            )?,
            duration: seconds(
                registry,
                "rest_client_request_duration_seconds",
                "Time until the head of the API server's answer, by method.",
                &["verb"],
                &[0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0],
            )?,
        })
    }
}

/// What a controller counts.
pub struct Metrics {
    /// Where they are registered.
    pub registry: Registry,
    /// The requests to the API server.
    pub requests: Requests,
    /// Passes, by result: success, requeue, requeue_after, error.
    pub reconciles: IntCounterVec,
    /// Passes that ended in an error.
    pub errors: IntCounterVec,
    /// Passes that panicked.
    pub panics: IntCounterVec,
    /// Passes that took too long.
    pub timeouts: IntCounterVec,
    /// How long passes took.
    pub reconcile_time: HistogramVec,
    /// Passes that run now.
    pub active: IntGaugeVec,
    /// How many may run.
    pub max_active: IntGaugeVec,
    /// Objects that wait for a pass.
    pub depth: IntGaugeVec,
    /// Objects added to the queue.
    pub adds: IntCounterVec,
    /// Passes that are repeated because one failed.
    pub retries: IntCounterVec,
    /// How long objects waited.
    pub queue_time: HistogramVec,
    /// How long passes took, as the queue sees it.
    pub work_time: HistogramVec,
    /// The sum of the running passes' time.
    pub unfinished: GaugeVec,
    /// The longest running pass's time.
    pub longest: GaugeVec,
    /// Whether this process leads.
    pub leader: IntGaugeVec,
    /// What the watches said, by kind.
    pub watch_events: IntCounterVec,
    /// How often the watches failed, by kind.
    pub watch_errors: IntCounterVec,
    /// Objects that could not be read, by kind.
    pub watch_invalid: IntCounterVec,
    /// How long ago a watch said something, by kind.
    pub watch_age: GaugeVec,
    /// Children applied, by kind and result: applied, unchanged, refused.
    pub applies: IntCounterVec,
    /// Writes of the status, by result: written, unchanged, refused.
    pub status_writes: IntCounterVec,
    /// Seconds of CPU by the runtime, spent in `decide` and `report`.
    pub decide_seconds: CounterVec,
}

impl Metrics {
    /// Registers them.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = registry()?;
        let r = &registry;
        let by = &["controller"];
        let queue = &["name"];
        let kind = &["kind"];
        Ok(Self {
            requests: Requests::new(r)?,
            reconciles: counter(
                r,
                "controller_runtime_reconcile_total",
                "Passes, by result.",
                &["controller", "result"],
            )?,
            errors: counter(
                r,
                "controller_runtime_reconcile_errors_total",
                "Passes that ended in an error.",
                by,
            )?,
            panics: counter(
                r,
                "controller_runtime_reconcile_panics_total",
                "Passes that panicked.",
                by,
            )?,
            timeouts: counter(
                r,
                "controller_runtime_reconcile_timeouts_total",
                "Passes that took too long and were ended.",
                by,
            )?,
            reconcile_time: seconds(
                r,
                "controller_runtime_reconcile_time_seconds",
                "How long passes took.",
                by,
                BUCKETS,
            )?,
            active: gauge(r, "controller_runtime_active_workers", "Passes that run now.", by)?,
            max_active: gauge(
                r,
                "controller_runtime_max_concurrent_reconciles",
                "How many passes may run at once.",
                by,
            )?,
            depth: gauge(r, "workqueue_depth", "Objects that wait for a pass.", queue)?,
            adds: counter(r, "workqueue_adds_total", "Objects added to the queue.", queue)?,
            retries: counter(
                r,
                "workqueue_retries_total",
                "Passes that are repeated because one failed.",
                queue,
            )?,
            queue_time: seconds(
                r,
                "workqueue_queue_duration_seconds",
                "How long objects waited for their pass.",
                queue,
                BUCKETS,
            )?,
            work_time: seconds(
                r,
                "workqueue_work_duration_seconds",
                "How long a pass took, from the queue and back.",
                queue,
                BUCKETS,
            )?,
            unfinished: gauge_f64(
                r,
                "workqueue_unfinished_work_seconds",
                "The sum of the time that the running passes have taken.",
                queue,
            )?,
            longest: gauge_f64(
                r,
                "workqueue_longest_running_processor_seconds",
                "The time that the longest running pass has taken.",
                queue,
            )?,
            leader: gauge(
                r,
                "leader_election_master_status",
                "1 where this process leads, else 0.",
                queue,
            )?,
            watch_events: counter(
                r,
                "sampledb_watch_events_total",
                "What the watches said, by kind.",
                kind,
            )?,
            watch_errors: counter(
                r,
                "sampledb_watch_errors_total",
                "How often the watches failed, by kind.",
                kind,
            )?,
            watch_invalid: counter(
                r,
                "sampledb_watch_invalid_objects_total",
                "Objects that a watch could not read and passed over, by kind.",
                kind,
            )?,
            watch_age: gauge_f64(
                r,
                "sampledb_watch_last_event_age_seconds",
                "How long ago a watch said something, by kind.",
                kind,
            )?,
            applies: counter(
                r,
                "sampledb_apply_total",
                "Children applied, by kind and result.",
                &["kind", "result"],
            )?,
            status_writes: counter(
                r,
                "sampledb_status_writes_total",
                "Writes of the status, by result.",
                &["result"],
            )?,
            decide_seconds: register(
                r,
                CounterVec::new(
                    Opts::new(
                        "sampledb_decide_seconds_total",
                        "Time spent in the policy itself, by step.",
                    ),
                    &["step"],
                )?,
            )?,
            registry,
        })
    }

    /// Everything, as text.
    pub fn encode(&self) -> String {
        encode(&self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_help_and_counters_say_so() {
        let metrics = Metrics::new().unwrap();
        metrics.reconciles.with_label_values(&["c", "success"]).inc();
        metrics.depth.with_label_values(&["c"]).set(1);
        let text = metrics.encode();
        assert!(
            text.contains("# HELP controller_runtime_reconcile_total "),
            "{text}"
        );
        assert!(text.contains("process_resident_memory_bytes"), "{text}");
        for family in metrics.registry.gather() {
            let counter = family.get_field_type() == prometheus::proto::MetricType::COUNTER;
            assert_eq!(counter, family.name().ends_with("_total"), "{}", family.name());
            assert!(!family.help().is_empty());
        }
    }
}
