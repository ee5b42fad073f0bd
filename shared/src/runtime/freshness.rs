//! How new a read has to be.
//!
//! A read that names no resourceVersion is answered by etcd. One that names the version `N` is answered by the API
//! server's own cache, as soon as that is at least as new as `N`: two to three times cheaper (`docs/benchmarks.md`). `N` is here
//! the newest version of the kind that this process knows of: a change that a watch told, or the answer to a write of its
//! own. So a read shows what woke the pass, and the process's own last write. A list does not count: it does not tell
//! what went before it. What changed later is told by the watch, which wakes another pass; and every write is bound to
//! what was read (UID, for a delete the version too).
//!
//! Versions of one kind are numbers that grow: they always were, and Kubernetes promises it since 1.35 (KEP-5504). One that
//! is none is not kept, and a kind that nothing is known of is read live.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The newest version known of each kind that is watched.
#[derive(Debug, Default)]
pub struct Freshness(BTreeMap<String, AtomicU64>);

impl Freshness {
    /// Nothing is known yet of these kinds. Others are never known: what is not watched is read live.
    pub fn of(kinds: impl IntoIterator<Item = String>) -> Self {
        Self(kinds.into_iter().map(|kind| (kind, AtomicU64::new(0))).collect())
    }

    /// An object of the kind is known to have, or to have had, this version.
    pub fn note(&self, kind: &str, version: &str) {
        if let (Some(newest), Ok(version)) = (self.0.get(kind), version.parse()) {
            newest.fetch_max(version, Ordering::Relaxed);
        }
    }

    /// Nothing is known of the kind any more.
    pub fn forget(&self, kind: &str) {
        if let Some(newest) = self.0.get(kind) {
            newest.store(0, Ordering::Relaxed);
        }
    }

    /// What a read of the kind must not be older than; `None`: it is to be live.
    pub fn at_least(&self, kind: &str) -> Option<String> {
        let newest = self.0.get(kind)?.load(Ordering::Relaxed);
        (newest > 0).then(|| newest.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_in_whatever_order_it_is_told() {
        let known = Freshness::of(["Pod".to_owned()]);
        assert_eq!(known.at_least("Pod"), None, "nothing is known yet");
        for version in ["9", "10", "8"] {
            known.note("Pod", version);
        }
        assert_eq!(known.at_least("Pod").as_deref(), Some("10"));
        known.forget("Pod");
        assert_eq!(known.at_least("Pod"), None);
    }

    #[test]
    fn what_is_not_watched_or_no_number_is_read_live() {
        let known = Freshness::of(["Pod".to_owned()]);
        known.note("Secret", "7");
        known.note("Pod", "opaque");
        assert_eq!(known.at_least("Secret"), None);
        assert_eq!(known.at_least("Pod"), None);
    }
}
