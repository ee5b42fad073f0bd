//! A swap of the register as a JSON Patch: bound to the SampleDB's UID and to the block that was decided on.

use json_patch::Patch;
use sampledb_shared::api::election::Election;
use serde_json::{Value, json};

/// The patch of `/status` that replaces `old` (or nothing) by `new`, or fails as a whole.
///
/// `term` *and* `rev` are tested: the same block can come back under a delayed request, the same `rev` cannot.
/// Never fails in practice: both blocks are plain data.
pub fn patch(uid: &str, old: Option<&Election>, new: &Election) -> Result<Patch, serde_json::Error> {
    let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
    let mut operations = vec![test("/metadata/uid", json!(uid))];
    match old {
        // A missing path equals null in a test.
        None => operations.push(test("/status/election", Value::Null)),
        Some(old) => {
            operations.push(test("/status/election/term", json!(old.term)));
            operations.push(test("/status/election/rev", json!(old.rev)));
        }
    }
    let op = if old.is_none() { "add" } else { "replace" };
    operations.push(json!({"op": op, "path": "/status/election", "value": new}));
    serde_json::from_value(Value::Array(operations))
}

#[cfg(test)]
mod tests {
    use super::super::blocks;
    use super::*;

    #[test]
    fn the_first_write_fails_when_somebody_was_first() {
        let patch = patch("u", None, &blocks::first("a-0")).unwrap();
        insta::assert_yaml_snapshot!(patch);
    }

    #[test]
    fn a_later_write_fails_when_the_register_moved_on_or_is_another_databases() {
        let old = blocks::first("a-0");
        let new = blocks::elected(&old, "a-0", &crate::control::Data::Empty);
        insta::assert_yaml_snapshot!(patch("u", Some(&old), &new).unwrap());
    }
}
