//! The state of the SampleDBs as metrics: written by the leader of the controller that owns what is shown.
//!
//! Of each SampleDB a few bytes are kept, and the text is made when it is asked for: gauges of a metrics library would
//! cost about twenty times as much. The labels are the namespace and the name; past a limit nothing more is shown, and
//! how much is left out is said.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::trigger::Key;
use crate::api::SampleDb;
use crate::api::conditions::ConditionType;
use crate::api::ownership::Writer;

/// What is shown of one SampleDB.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    conditions: Box<[(ConditionType, Tri)]>,
    spec: Option<Spec>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Spec {
    generation: i64,
    observed: i64,
    instances: i32,
    ready: i32,
    version: Box<str>,
    phase: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tri {
    True,
    False,
    Unknown,
}

const TRI: [(Tri, &str); 3] = [
    (Tri::True, "True"),
    (Tri::False, "False"),
    (Tri::Unknown, "Unknown"),
];

type Gauge = (&'static str, &'static str, fn(&Spec) -> i64);

const GAUGES: [Gauge; 4] = [
    ("sampledb_spec_instances", "Instances wanted.", |s| {
        s.instances.into()
    }),
    (
        "sampledb_status_ready_instances",
        "Instances that are ready.",
        |s| s.ready.into(),
    ),
    (
        "sampledb_metadata_generation",
        "The generation of the spec.",
        |s| s.generation,
    ),
    (
        "sampledb_status_observed_generation",
        "The generation that Ready speaks of.",
        |s| s.observed,
    ),
];

/// The SampleDBs' state.
pub(crate) struct State {
    writer: &'static Writer,
    limit: usize,
    rows: Mutex<(BTreeMap<Key, Row>, usize)>,
}

impl State {
    pub(crate) fn new(writer: &'static Writer, limit: usize) -> Self {
        Self {
            writer,
            limit,
            rows: Mutex::default(),
        }
    }

    fn rows(&self) -> MutexGuard<'_, (BTreeMap<Key, Row>, usize)> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a pass said of a SampleDB.
    pub(crate) fn note(&self, key: &Key, db: &SampleDb, report: &Map<String, Value>) {
        if self.limit == 0 {
            return;
        }
        let row = self.row(db, report);
        let mut rows = self.rows();
        if rows.0.len() < self.limit || rows.0.contains_key(key) {
            rows.0.insert(key.clone(), row);
        }
    }

    /// How many SampleDBs there are in all.
    pub(crate) fn known(&self, all: usize) {
        self.rows().1 = all;
    }

    /// It is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.rows().0.remove(key);
    }

    fn row(&self, db: &SampleDb, report: &Map<String, Value>) -> Row {
        let said = report.get("conditions").and_then(Value::as_array);
        let conditions = said
            .into_iter()
            .flatten()
            .filter_map(|c| {
                let type_ = self
                    .writer
                    .conditions
                    .iter()
                    .find(|own| c["type"] == own.as_str())?;
                Some((*type_, TRI.iter().find(|(_, text)| c["status"] == *text)?.0))
            })
            .collect();
        let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or_default();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().into();
        let section = report.get("provisioning");
        let spec = self
            .writer
            .sections
            .contains(&"observedGeneration")
            .then(|| Spec {
                generation: db.metadata.generation.unwrap_or_default(),
                observed: number(report.get("observedGeneration")),
                instances: db.spec.instances,
                ready: number(section.and_then(|s| s.get("readyInstances"))) as i32,
                version: text(section.and_then(|s| s.get("version"))),
                phase: text(report.get("phase")),
            });
        Row { conditions, spec }
    }

    /// Appends the state in Prometheus' text format.
    pub(crate) fn encode(&self, out: &mut String) {
        let rows = self.rows();
        let (rows, known) = (&rows.0, rows.1);
        if rows.is_empty() {
            return;
        }
        gauge(
            out,
            "sampledb_status_condition",
            "1 for the status a condition of a SampleDB has, else 0.",
        );
        for (key, row) in rows {
            for (type_, is) in &row.conditions {
                for (tri, text) in TRI {
                    let value = u8::from(tri == *is);
                    line(
                        out,
                        "sampledb_status_condition",
                        key,
                        &[("condition", type_.as_str()), ("status", text)],
                        value.into(),
                    );
                }
            }
        }
        gauge(
            out,
            "sampledb_state_omitted_objects",
            "SampleDBs whose state is not shown, because there are more than the limit.",
        );
        let _ = writeln!(
            out,
            "sampledb_state_omitted_objects {}",
            known.saturating_sub(rows.len())
        );
        if rows.values().all(|row| row.spec.is_none()) {
            return;
        }
        let specs = || {
            rows.iter()
                .filter_map(|(key, row)| Some((key, row.spec.as_ref()?)))
        };
        gauge(out, "sampledb_info", "1; what a SampleDB is, in the labels.");
        for (key, spec) in specs() {
            line(
                out,
                "sampledb_info",
                key,
                &[("version", &spec.version), ("phase", &spec.phase)],
                1,
            );
        }
        for (name, help, get) in GAUGES {
            gauge(out, name, help);
            for (key, spec) in specs() {
                line(out, name, key, &[], get(spec));
            }
        }
    }
}

fn gauge(out: &mut String, name: &str, help: &str) {
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n");
}

fn line(out: &mut String, name: &str, key: &Key, labels: &[(&str, &str)], value: i64) {
    let _ = write!(
        out,
        "{name}{{namespace=\"{}\",name=\"{}\"",
        key.namespace, key.name
    );
    for (label, text) in labels {
        let _ = write!(
            out,
            ",{label}=\"{}\"",
            text.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        );
    }
    let _ = writeln!(out, "}} {value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ownership::{PROVISIONER, SERVICE_PUBLISHER};

    fn db() -> SampleDb {
        serde_json::from_value(json!({
            "apiVersion": "sampledb.dev/v1", "kind": "SampleDB",
            "metadata": {"name": "orders", "namespace": "shop", "generation": 3},
            "spec": {"instances": 1, "postgres": {"version": "17"}, "storage": {"data": {"size": "1Gi"}}},
        }))
        .unwrap()
    }

    fn report(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_alert_on_a_condition_finds_its_series() {
        let state = State::new(&PROVISIONER, 10);
        let said = report(json!({
            "observedGeneration": 2, "phase": "Running", "provisioning": {"readyInstances": 1, "version": "17.6"},
            "conditions": [{"type": "Ready", "status": "False"}],
        }));
        state.note(&Key::new("shop", "orders"), &db(), &said);
        state.known(1);
        let mut text = String::new();
        state.encode(&mut text);
        insta::assert_snapshot!(text);
        state.forget(&Key::new("shop", "orders"));
        let mut text = String::new();
        state.encode(&mut text);
        assert_eq!(text, "", "a deleted SampleDB leaves no series");
    }

    #[test]
    fn a_controller_shows_only_what_it_owns() {
        let state = State::new(&SERVICE_PUBLISHER, 10);
        let said = report(
            json!({"conditions": [{"type": "Published", "status": "True"}, {"type": "Ready", "status": "True"}]}),
        );
        state.note(&Key::new("shop", "orders"), &db(), &said);
        let mut text = String::new();
        state.encode(&mut text);
        assert!(
            text.contains("condition=\"Published\"")
                && !text.contains("Ready")
                && !text.contains("sampledb_info")
        );
    }

    #[test]
    fn ten_thousand_databases_do_not_drown_prometheus() {
        let state = State::new(&PROVISIONER, 1);
        for name in ["a", "b"] {
            state.note(
                &Key::new("shop", name),
                &db(),
                &report(json!({"phase": "Running"})),
            );
        }
        state.known(2);
        let mut text = String::new();
        state.encode(&mut text);
        assert!(text.contains("sampledb_state_omitted_objects 1"), "{text}");
        assert!(!text.contains("name=\"b\""));
    }
}
