//! Which SampleDBs there are, and what of each wakes a controller: a hash of its inputs.
//!
//! A controller's own writes never wake it, and neither does another's section that it does not read. Of each
//! SampleDB only its key and two numbers are kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use kube::ResourceExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::api::{GROUP, SampleDb};

/// A SampleDB: its namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl Key {
    /// A key.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The same number for the same key in every process: for jitter.
    pub fn seed(&self) -> u64 {
        short(&format!("{}/{}", self.namespace, self.name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The hash of what wakes a controller: generation, the suite's annotations, deletion, and what the controller
/// itself reads.
pub fn trigger(db: &SampleDb, inputs: &Value) -> u64 {
    let prefix = format!("{GROUP}/");
    let annotations: Vec<_> = db
        .annotations()
        .iter()
        .filter(|(name, _)| name.starts_with(&prefix))
        .collect();
    let meta = &db.metadata;
    short(&json!([meta.generation, annotations, meta.deletion_timestamp, inputs]).to_string())
}

/// The first 64 bits of a SHA-256.
pub(crate) fn short(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The SampleDBs that were seen.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<Key, Mark>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    uid: u64,
    trigger: u64,
    listed: bool,
}

impl Known {
    fn marks(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a SampleDB; `true` when that should wake the controller: at first sight, when another of the
    /// same name took its place, and when the trigger changed.
    pub fn see(&self, key: &Key, uid: &str, trigger: u64) -> bool {
        let mark = Mark {
            uid: short(uid),
            trigger,
            listed: true,
        };
        self.marks()
            .insert(key.clone(), mark)
            .is_none_or(|before| (before.uid, before.trigger) != (mark.uid, trigger))
    }

    /// It is gone.
    pub fn forget(&self, key: &Key) {
        self.marks().remove(key);
    }

    /// A new list begins in a namespace (`None`: in all).
    pub fn list_begins(&self, namespace: Option<&str>) {
        for (key, mark) in self.marks().iter_mut() {
            mark.listed &= namespace.is_some_and(|n| n != &*key.namespace);
        }
    }

    /// The list is whole: what was not in it is gone, and returned.
    pub fn list_ends(&self, namespace: Option<&str>) -> Vec<Key> {
        let mut marks = self.marks();
        let gone: Vec<_> = marks
            .iter()
            .filter(|(key, mark)| !mark.listed && namespace.is_none_or(|n| n == &*key.namespace))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            marks.remove(key);
        }
        gone
    }

    /// Whether it was seen and is not gone.
    pub fn contains(&self, key: &Key) -> bool {
        self.marks().contains_key(key)
    }

    /// All of them.
    pub fn keys(&self) -> Vec<Key> {
        self.marks().keys().cloned().collect()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.marks().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn db(patch: Value) -> SampleDb {
        let mut base = json!({
            "apiVersion": "sampledb.dev/v1", "kind": "SampleDB",
            "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 1, "resourceVersion": "1"},
            "spec": {"postgres": {"version": "17"}, "storage": {"data": {"size": "1Gi"}}},
        });
        merge(&mut base, patch);
        serde_json::from_value(base).unwrap()
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    #[test]
    fn only_what_a_controller_reads_wakes_it() {
        let base = trigger(&db(json!({})), &json!({"a": 1}));
        let same = [
            json!({"metadata": {"resourceVersion": "2"}}),
            json!({"metadata": {"annotations": {"example.com/note": "x"}, "labels": {"a": "b"}}}),
            json!({"status": {"phase": "Running", "conditions": []}}),
        ];
        for change in same {
            assert_eq!(
                trigger(&db(change.clone()), &json!({"a": 1})),
                base,
                "woken by {change}"
            );
        }
        let different = [
            json!({"metadata": {"generation": 2}}),
            json!({"metadata": {"annotations": {"sampledb.dev/restartedAt": "now"}}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ];
        for change in different {
            assert_ne!(
                trigger(&db(change.clone()), &json!({"a": 1})),
                base,
                "not woken by {change}"
            );
        }
        assert_ne!(trigger(&db(json!({})), &json!({"a": 2})), base);
    }

    #[test]
    fn first_sight_a_new_uid_and_a_change_wake_and_nothing_else_does() {
        let known = Known::default();
        let key = Key::new("shop", "orders");
        assert!(known.see(&key, "u1", 1));
        assert!(!known.see(&key, "u1", 1));
        assert!(known.see(&key, "u1", 2));
        assert!(known.see(&key, "u2", 2), "another SampleDB of the same name");
        known.forget(&key);
        assert!(known.see(&key, "u2", 2));
    }

    #[test]
    fn what_a_new_list_does_not_show_is_gone_but_only_in_its_namespace() {
        let known = Known::default();
        for (namespace, name) in [("a", "one"), ("a", "two"), ("b", "one")] {
            known.see(&Key::new(namespace, name), "u", 1);
        }
        known.list_begins(Some("a"));
        known.see(&Key::new("a", "one"), "u", 1);
        assert_eq!(known.list_ends(Some("a")), [Key::new("a", "two")]);
        assert_eq!(known.len(), 2);
        known.list_begins(None);
        assert_eq!(known.list_ends(None).len(), 2);
    }
}
