//! What is remembered of one SampleDB between passes: numbers, never content.
//!
//! Losing it costs a few writes that change nothing; it never makes a decision.

use std::fmt::Write;

use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::plan::{Desired, Seen};
use super::queue::Cause;
use super::trigger::short;

/// What this process did for one SampleDB.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    uid: String,
    children: Vec<Child>,
}

/// A child as this process last applied it; each number is a hash ([`short`]).
#[derive(Debug)]
struct Child {
    key: u64,
    wanted: u64,
    fingerprint: u64,
    uid: u64,
    version: u64,
}

impl Memory {
    /// The memory for this UID: what was remembered of another of the same name is dropped.
    pub(crate) fn of(self, uid: &str) -> Self {
        if self.uid == uid {
            self
        } else {
            Self {
                uid: uid.to_owned(),
                ..Self::default()
            }
        }
    }

    /// The metadata that was seen, when exactly this was applied and nothing was changed since.
    pub(crate) fn unchanged(&self, desired: &Desired, namespace: &str) -> Option<Value> {
        let seen = desired.seen.as_ref()?;
        let key = key(desired);
        let child = self.children.iter().find(|child| child.key == key)?;
        let same = child.wanted == wanted(desired)
            && child.fingerprint == short(&seen.fingerprint)
            && child.uid == short(&seen.uid);
        same.then(|| {
            json!({
                "apiVersion": desired.resource.api_version, "kind": desired.resource.kind,
                "metadata": {
                    "name": desired.name(), "namespace": namespace,
                    "uid": seen.uid, "resourceVersion": seen.resource_version,
                },
            })
        })
    }

    /// `desired` was applied, and `meta` is what the API server has since.
    pub(crate) fn applied(&mut self, desired: &Desired, meta: &ObjectMeta) {
        let child = Child {
            key: key(desired),
            wanted: wanted(desired),
            fingerprint: short(&Seen::of_meta(meta).fingerprint),
            uid: short(meta.uid.as_deref().unwrap_or_default()),
            version: short(meta.resource_version.as_deref().unwrap_or_default()),
        };
        self.children.retain(|before| before.key != child.key);
        self.children.push(child);
    }

    /// Only what is still wanted is remembered.
    pub(crate) fn keep(&mut self, wanted: &[Desired]) {
        let wanted: Vec<u64> = wanted.iter().map(key).collect();
        self.children.retain(|child| wanted.contains(&child.key));
    }

    /// Whether a child's event says no more than what this process wrote.
    pub(crate) fn is_echo(&self, cause: &Cause) -> bool {
        let Cause::Child {
            uid,
            resource_version,
        } = cause
        else {
            return false;
        };
        let (uid, version) = (short(uid), short(resource_version));
        self.children
            .iter()
            .any(|child| child.uid == uid && child.version == version)
    }
}

/// What is wanted. The resourceVersion that a Secret is only written over is none of it.
fn wanted(desired: &Desired) -> u64 {
    let object = desired.object.as_object().into_iter().flatten();
    let object = object.filter(|(field, _)| *field != "metadata");
    let meta = desired.object["metadata"].as_object().into_iter().flatten();
    let meta = meta.filter(|(field, _)| *field != "resourceVersion");
    let mut text = String::new();
    for (field, value) in object.chain(meta) {
        let _ = writeln!(text, "{field}:{value}");
    }
    short(&text)
}

fn key(desired: &Desired) -> u64 {
    short(&format!("{}/{}", desired.resource.kind, desired.name()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Resource;

    use super::*;

    fn map(version: &str, value: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("orders-config".into()),
                uid: Some("c1".into()),
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            data: Some([("key".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        }
    }

    fn desired(value: &str, seen: Option<&ConfigMap>) -> Desired {
        let mut wanted = map("", value);
        wanted.metadata = ObjectMeta {
            name: Some("orders-config".into()),
            ..ObjectMeta::default()
        };
        Desired::new(&wanted, seen.map(Seen::of)).unwrap()
    }

    #[test]
    fn what_is_there_as_wanted_is_not_written_again() {
        let mut memory = Memory::default().of("u1");
        let there = map("7", "a");
        assert!(
            memory.unchanged(&desired("a", Some(&there)), "shop").is_none(),
            "after a restart: once"
        );
        memory.applied(&desired("a", None), there.meta());
        let kept = memory.unchanged(&desired("a", Some(&there)), "shop").unwrap();
        assert_eq!(kept["metadata"]["resourceVersion"], "7");
        let mut only_over = desired("a", Some(&there));
        only_over.object["metadata"]["resourceVersion"] = "7".into();
        assert!(
            memory.unchanged(&only_over, "shop").is_some(),
            "a precondition is no wish"
        );
        assert!(
            memory.unchanged(&desired("b", Some(&there)), "shop").is_none(),
            "another wish"
        );
        assert!(
            memory
                .unchanged(&desired("a", Some(&map("8", "edited"))), "shop")
                .is_none(),
            "edited by hand"
        );
        assert!(memory.unchanged(&desired("a", None), "shop").is_none(), "deleted");
    }

    #[test]
    fn a_new_database_of_the_same_name_starts_with_an_empty_memory() {
        let mut memory = Memory::default().of("u1");
        let there = map("7", "a");
        memory.applied(&desired("a", None), there.meta());
        let memory = memory.of("u2");
        assert!(memory.unchanged(&desired("a", Some(&there)), "shop").is_none());
    }

    #[test]
    fn only_the_echo_of_an_own_write_is_passed_over() {
        let mut memory = Memory::default().of("u1");
        memory.applied(&desired("a", None), map("7", "a").meta());
        let event = |version: &str| Cause::Child {
            uid: "c1".into(),
            resource_version: version.into(),
        };
        assert!(memory.is_echo(&event("7")));
        assert!(!memory.is_echo(&event("8")));
        assert!(!memory.is_echo(&Cause::Changed));
        memory.keep(&[]);
        assert!(!memory.is_echo(&event("7")));
    }

    #[test]
    fn a_secret_s_content_is_never_remembered() {
        let mut memory = Memory::default().of("u1");
        memory.applied(&desired("hunter2", None), map("7", "hunter2").meta());
        assert!(!format!("{memory:?}").contains("hunter2"));
    }
}
