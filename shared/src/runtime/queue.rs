//! The work queue, as plain data with the time passed in: see [`super::workers`] for what runs it.
//!
//! # Guarantees
//! - A key is handed out at most once at a time; what wakes it meanwhile is kept until it comes back.
//! - A key that was woken is handed out again, whatever happens in between.
//! - At most `most` keys are out at once.
//! - A change of a SampleDB goes before timers and retries.
//! - Failures in a row lengthen the pause, a success ends it. A failure of a pass that an event started early does
//!   not count: else frequent events would push the next retry out of sight.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff;

/// What wakes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The SampleDB, or something else that always matters.
    Changed,
    /// A child, at this resourceVersion. It does not matter when the pass that ran meanwhile wrote just that.
    Child {
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// A look without a reason: after a watch was begun anew, or when a writer came or went.
    Resync,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As it should; to be looked at again after this time, if any.
    Done(Option<Duration>),
    /// Not; `slow`: trying again soon is of no use. Looked at again after the pause, or earlier if asked for.
    Failed {
        /// The input has to change.
        slow: bool,
        /// What the plan asked for.
        again: Option<Duration>,
    },
    /// The object is gone.
    Gone,
}

/// A key that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<K> {
    /// The key.
    pub key: K,
    /// The failures in a row so far.
    pub failures: u32,
    /// How long it waited.
    pub waited: Duration,
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// Until the moment; `retry`: after a failure.
    Delayed {
        until: Instant,
        retry: bool,
    },
    Ready {
        since: Instant,
        urgent: bool,
        retry: bool,
    },
    Running {
        since: Instant,
        retry: bool,
        woken: Vec<Cause>,
    },
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    failures: u32,
    /// When the last pass ended.
    ended: Option<Instant>,
}

/// The queue. `seed` gives each key its own jitter.
#[derive(Debug)]
pub struct Queue<K> {
    entries: HashMap<K, Entry>,
    urgent: VecDeque<K>,
    other: VecDeque<K>,
    timers: BinaryHeap<Reverse<(Instant, u64, K)>>,
    timer: u64,
    most: usize,
    running: usize,
    debounce: Duration,
    spacing: Duration,
    seed: fn(&K) -> u64,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty queue. Children's events wait for `debounce`, so that several at once cause one pass, and for
    /// `spacing` after the last pass, so that a stream of them (a pod that starts tells a dozen things) causes few.
    pub fn new(most: usize, debounce: Duration, spacing: Duration, seed: fn(&K) -> u64) -> Self {
        Self {
            entries: HashMap::new(),
            urgent: VecDeque::new(),
            other: VecDeque::new(),
            timers: BinaryHeap::new(),
            timer: 0,
            most,
            running: 0,
            debounce,
            spacing,
            seed,
        }
    }

    /// Wakes a key; `true` when it was not waiting for its turn already.
    pub fn wake(&mut self, key: &K, cause: Cause, now: Instant) -> bool {
        let entry = self.entries.entry(key.clone()).or_insert(Entry {
            phase: Phase::Idle,
            failures: 0,
            ended: None,
        });
        match &mut entry.phase {
            Phase::Running { woken, .. } => {
                let new = woken.is_empty();
                if !woken.contains(&cause) {
                    woken.push(cause);
                }
                new
            }
            Phase::Ready { urgent, .. } => {
                if cause == Cause::Changed && !*urgent {
                    *urgent = true;
                    self.urgent.push_back(key.clone());
                }
                false
            }
            Phase::Idle | Phase::Delayed { .. } => match cause {
                Cause::Changed => {
                    self.ready(key, true, false, now);
                    true
                }
                Cause::Child { .. } => {
                    let spaced = entry.ended.map_or(now, |ended| ended + self.spacing);
                    self.delay(key, spaced.max(now + self.debounce), false)
                }
                Cause::Resync => {
                    self.ready(key, false, false, now);
                    true
                }
            },
        }
    }

    fn ready(&mut self, key: &K, urgent: bool, retry: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.phase = Phase::Ready {
            since: now,
            urgent,
            retry,
        };
        if urgent {
            self.urgent.push_back(key.clone());
        } else {
            self.other.push_back(key.clone());
        }
    }

    /// Sets a key's timer, unless it goes off earlier already; `true` when it was set.
    fn delay(&mut self, key: &K, until: Instant, retry: bool) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        if let Phase::Delayed { until: earlier, .. } = entry.phase
            && earlier <= until
        {
            return false;
        }
        entry.phase = Phase::Delayed { until, retry };
        self.timer += 1;
        self.timers.push(Reverse((until, self.timer, key.clone())));
        if self.timers.len() > 64 + 4 * self.entries.len() {
            let entries = &self.entries;
            self.timers.retain(|Reverse((at, _, key))| {
                matches!(entries.get(key), Some(Entry { phase: Phase::Delayed { until, .. }, .. }) if until == at)
            });
        }
        true
    }

    /// Hands out the next key, if one is due and fewer than `most` are out.
    pub fn next(&mut self, now: Instant) -> Option<Turn<K>> {
        self.expire(now);
        if self.running >= self.most {
            return None;
        }
        loop {
            let key = self.urgent.pop_front().or_else(|| self.other.pop_front())?;
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            // A key that became urgent stands in both lists: the second time it is no longer ready.
            if let Phase::Ready { since, retry, .. } = entry.phase {
                entry.phase = Phase::Running {
                    since: now,
                    retry: retry || entry.failures == 0,
                    woken: Vec::new(),
                };
                self.running += 1;
                return Some(Turn {
                    key,
                    failures: entry.failures,
                    waited: now.saturating_duration_since(since),
                });
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(Reverse((at, _, _))) = self.timers.peek()
            && *at <= now
        {
            let Some(Reverse((at, _, key))) = self.timers.pop() else {
                return;
            };
            // A timer that was replaced by an earlier wake is stale.
            if let Some(Entry {
                phase: Phase::Delayed { until, retry },
                ..
            }) = self.entries.get(&key)
                && *until == at
            {
                let retry = *retry;
                self.ready(&key, false, retry, at);
            }
        }
    }

    /// When the next timer goes off.
    pub fn due(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes a key back. Of what woke it meanwhile only what `matters` wakes it again.
    pub fn finish(&mut self, key: &K, end: End, now: Instant, matters: impl Fn(&Cause) -> bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Phase::Running { retry, woken, .. } = std::mem::replace(&mut entry.phase, Phase::Idle) else {
            return;
        };
        self.running -= 1;
        entry.ended = Some(now);
        let seed = (self.seed)(key);
        match end {
            End::Gone => entry.failures = 0,
            End::Done(again) => {
                entry.failures = 0;
                if let Some(again) = again {
                    self.delay(key, now + backoff::spread(again, 0.1, seed), false);
                }
            }
            End::Failed { slow, again } => {
                if retry {
                    entry.failures = entry.failures.saturating_add(1);
                }
                let pause = if slow {
                    backoff::spread(backoff::CEILING, 0.25, seed)
                } else {
                    backoff::pause(entry.failures.max(1), backoff::FIRST, backoff::CEILING, seed)
                };
                self.delay(key, now + pause, true);
                if let Some(again) = again {
                    self.delay(key, now + again, true);
                }
            }
        }
        let strongest = woken
            .iter()
            .filter(|cause| matters(cause))
            .max_by_key(|cause| match cause {
                Cause::Changed => 2,
                Cause::Resync => 1,
                Cause::Child { .. } => 0,
            });
        if let Some(cause) = strongest {
            self.wake(key, cause.clone(), now);
        }
        if let Some(Entry {
            phase: Phase::Idle,
            failures: 0,
            ..
        }) = self.entries.get(key)
        {
            self.entries.remove(key);
        }
    }

    /// How many wait for their turn.
    pub fn waiting(&self) -> usize {
        self.entries
            .values()
            .filter(|e| matches!(e.phase, Phase::Ready { .. }))
            .count()
    }

    /// How many wait for the end of a pause after a failure.
    pub fn failing(&self) -> usize {
        self.entries.values().filter(|e| e.failures > 0).count()
    }

    /// How long the keys that are out have been out.
    pub fn running(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.entries.values().filter_map(move |e| match e.phase {
            Phase::Running { since, .. } => Some(now.saturating_duration_since(since)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
