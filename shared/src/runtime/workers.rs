//! Runs the queue: bounded concurrency, and around every pass a timeout and a panic guard.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::queue::{Cause, End, Queue, Turn};
use super::trigger::Key;
use crate::telemetry::logs::panic_text;
use crate::telemetry::metrics::Metrics;

/// Children's events wait for this long, so that several at once cause one pass.
const DEBOUNCE: Duration = Duration::from_millis(5);
/// And for this long after the last pass. A change of the SampleDB itself (its status by others included) never waits.
const SPACING: Duration = Duration::from_millis(200);
/// The loop turns at least this often: the heartbeat of `/livez`.
const BEAT: Duration = Duration::from_secs(5);
/// Without a heartbeat for this long the process is stuck.
const STUCK: Duration = Duration::from_mins(1);

/// What the workers do with a key.
pub(crate) trait Work: Send + Sync + 'static {
    /// Whether this process looks after the key. The only place where replicas could share the work.
    fn mine(&self, key: &Key) -> bool;

    /// One pass.
    fn pass(&self, turn: &Turn<Key>) -> impl Future<Output = End> + Send;

    /// Whether `cause` is nothing but the echo of what a pass over `key` wrote.
    fn is_echo(&self, key: &Key, cause: &Cause) -> bool;
}

/// The queue of one controller.
pub(crate) struct Workers {
    name: &'static str,
    queue: Mutex<Queue<Key>>,
    woken: Notify,
    metrics: Arc<Metrics>,
    timeout: Duration,
    started: Instant,
    beat: AtomicU64,
}

impl Workers {
    pub(crate) fn new(name: &'static str, most: usize, timeout: Duration, metrics: Arc<Metrics>) -> Self {
        metrics.max_active.with_label_values(&[name]).set(most as i64);
        metrics.panics.with_label_values(&[name]).inc_by(0);
        metrics.timeouts.with_label_values(&[name]).inc_by(0);
        metrics.errors.with_label_values(&[name]).inc_by(0);
        Self {
            name,
            queue: Mutex::new(Queue::new(most, DEBOUNCE, SPACING, Key::seed)),
            woken: Notify::new(),
            metrics,
            timeout,
            started: Instant::now(),
            beat: AtomicU64::new(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<Key>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a key.
    pub(crate) fn wake(&self, key: &Key, cause: Cause) {
        if self.queue().wake(key, cause, Instant::now()) {
            self.metrics.adds.with_label_values(&[self.name]).inc();
        }
        self.woken.notify_one();
    }

    /// Whether the loop turns.
    pub(crate) fn alive(&self) -> Result<(), Duration> {
        let beat = self.started + Duration::from_millis(self.beat.load(Ordering::Relaxed));
        let silent = Instant::now().saturating_duration_since(beat);
        if silent < STUCK { Ok(()) } else { Err(silent) }
    }

    /// How many keys wait, and how many failed last time.
    pub(crate) fn numbers(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.waiting(), queue.failing())
    }

    /// Brings the gauges up to date, before they are read.
    pub(crate) fn measure(&self) {
        let queue = self.queue();
        let label = &[self.name];
        self.metrics
            .depth
            .with_label_values(label)
            .set(queue.waiting() as i64);
        let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
        for time in queue.running(Instant::now()) {
            sum += time;
            longest = longest.max(time);
        }
        self.metrics
            .unfinished
            .with_label_values(label)
            .set(sum.as_secs_f64());
        self.metrics
            .longest
            .with_label_values(label)
            .set(longest.as_secs_f64());
    }

    /// Hands keys to `work` until `stop`; then lets the running passes finish, for `drain` at most.
    pub(crate) async fn run<W: Work>(
        self: Arc<Self>,
        work: Arc<W>,
        stop: CancellationToken,
        drain: Duration,
    ) {
        let mut running: JoinSet<()> = JoinSet::new();
        while !stop.is_cancelled() {
            self.beat
                .store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
            while let Some(turn) = { self.queue().next(Instant::now()) } {
                let (workers, work) = (Arc::clone(&self), Arc::clone(&work));
                running.spawn(async move { workers.one(&*work, turn).await });
            }
            let beat = Instant::now() + BEAT;
            let due = self.queue().due().map_or(beat, |due| due.min(beat));
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.woken.notified() => {}
                () = tokio::time::sleep_until(due) => {}
                Some(_) = running.join_next(), if !running.is_empty() => {}
            }
        }
        if running.is_empty() {
            return;
        }
        tracing::info!(
            event = "draining",
            passes = running.len(),
            "waiting for the running passes"
        );
        let finished =
            tokio::time::timeout(drain, async { while running.join_next().await.is_some() {} }).await;
        if finished.is_err() {
            tracing::warn!(
                event = "drain_timeout",
                passes = running.len(),
                "these passes did not finish in time"
            );
        }
    }

    async fn one<W: Work>(&self, work: &W, turn: Turn<Key>) {
        let label = &[self.name];
        let metrics = &self.metrics;
        metrics
            .queue_time
            .with_label_values(label)
            .observe(turn.waited.as_secs_f64());
        if turn.failures > 0 {
            metrics.retries.with_label_values(label).inc();
        }
        let end = if work.mine(&turn.key) {
            metrics.active.with_label_values(label).inc();
            let started = Instant::now();
            let end = self.guarded(work, &turn).await;
            let took = started.elapsed().as_secs_f64();
            metrics.active.with_label_values(label).dec();
            metrics.reconcile_time.with_label_values(label).observe(took);
            metrics.work_time.with_label_values(label).observe(took);
            let result = match end {
                End::Failed { .. } => "error",
                End::Done(Some(_)) => "requeue_after",
                End::Done(None) | End::Gone => "success",
            };
            metrics.reconciles.with_label_values(&[self.name, result]).inc();
            if result == "error" {
                metrics.errors.with_label_values(label).inc();
            }
            end
        } else {
            End::Done(None)
        };
        self.queue().finish(&turn.key, end, Instant::now(), |cause| {
            !work.is_echo(&turn.key, cause)
        });
        self.woken.notify_one();
    }

    async fn guarded<W: Work>(&self, work: &W, turn: &Turn<Key>) -> End {
        let failed = End::Failed {
            slow: false,
            again: None,
        };
        let Key { namespace, name } = &turn.key;
        match tokio::time::timeout(self.timeout, AssertUnwindSafe(work.pass(turn)).catch_unwind()).await {
            Ok(Ok(end)) => end,
            Ok(Err(panic)) => {
                self.metrics.panics.with_label_values(&[self.name]).inc();
                tracing::error!(
                    event = "pass_panicked",
                    object.namespace = &**namespace,
                    object.name = &**name,
                    "a pass panicked, which is a bug; it is tried again later: {}",
                    panic_text(&*panic)
                );
                failed
            }
            Err(_) => {
                self.metrics.timeouts.with_label_values(&[self.name]).inc();
                tracing::warn!(
                    event = "pass_timeout",
                    object.namespace = &**namespace,
                    object.name = &**name,
                    "a pass took longer than {:?} and was ended; it is tried again later",
                    self.timeout
                );
                failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Fake {
        passes: Mutex<Vec<String>>,
        active: AtomicUsize,
        most: AtomicUsize,
    }

    impl Work for Fake {
        fn mine(&self, key: &Key) -> bool {
            &*key.namespace != "foreign"
        }

        async fn pass(&self, turn: &Turn<Key>) -> End {
            self.passes.lock().unwrap().push(turn.key.name.to_string());
            match &*turn.key.name {
                "panics" => panic!("on purpose"),
                "hangs" => std::future::pending().await,
                _ => {}
            }
            let active = self.active.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(active, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.active.fetch_sub(1, Ordering::SeqCst);
            End::Done(None)
        }

        fn is_echo(&self, _: &Key, _: &Cause) -> bool {
            false
        }
    }

    fn start(
        most: usize,
    ) -> (
        Arc<Workers>,
        Arc<Fake>,
        CancellationToken,
        tokio::task::JoinHandle<()>,
    ) {
        let metrics = Arc::new(Metrics::new().unwrap());
        let workers = Arc::new(Workers::new("test", most, Duration::from_secs(30), metrics));
        let (work, stop) = (Arc::new(Fake::default()), CancellationToken::new());
        let run = Arc::clone(&workers).run(Arc::clone(&work), stop.clone(), Duration::from_secs(20));
        (workers, work, stop, tokio::spawn(run))
    }

    fn key(name: &str) -> Key {
        Key::new("shop", name)
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_that_panics_and_one_that_hangs_do_not_stop_the_others() {
        let (workers, work, ..) = start(2);
        for name in ["panics", "hangs", "fine"] {
            workers.wake(&key(name), Cause::Changed);
        }
        tokio::time::sleep(Duration::from_secs(35)).await;
        let passes = work.passes.lock().unwrap().clone();
        assert!(passes.contains(&"fine".to_owned()), "{passes:?}");
        assert!(
            passes.iter().filter(|p| *p == "panics").count() > 3,
            "tried again: {passes:?}"
        );
        assert!(workers.metrics.panics.with_label_values(&["test"]).get() > 3);
        assert_eq!(workers.metrics.timeouts.with_label_values(&["test"]).get(), 1);
        assert_eq!(workers.alive(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_objects_at_once_are_not_a_hundred_passes_at_once() {
        let (workers, work, ..) = start(4);
        for n in 0..100 {
            workers.wake(&key(&format!("db{n}")), Cause::Changed);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(work.passes.lock().unwrap().len(), 100);
        assert_eq!(work.most.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_replica_looks_after_is_left_alone() {
        let (workers, work, ..) = start(4);
        workers.wake(&Key::new("foreign", "db"), Cause::Changed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(work.passes.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_finishes_what_runs_and_begins_nothing_new() {
        let (workers, work, stop, run) = start(1);
        workers.wake(&key("one"), Cause::Changed);
        workers.wake(&key("two"), Cause::Changed);
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
        run.await.unwrap();
        assert_eq!(*work.passes.lock().unwrap(), ["one"]);
        assert_eq!(work.active.load(Ordering::SeqCst), 0, "it was finished");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_does_not_wait_for_ever() {
        let (workers, _, stop, run) = start(1);
        workers.wake(&key("hangs"), Cause::Changed);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = Instant::now();
        stop.cancel();
        run.await.unwrap();
        assert!(before.elapsed() <= Duration::from_secs(21));
    }
}
