//! Writes the sections of the status that a controller owns, when they say something new.

use std::collections::BTreeMap;

use http::Request;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::request::Request as ApiRequest;
use kube::{Client, Resource};
use serde_json::{Map, Value, json};

use super::client;
use crate::api::SampleDb;
use crate::api::ownership::Writer;

/// A write is tried again so often when others write at the same time.
const TRIES: u32 = 4;

/// The field of conditions.
const CONDITIONS: &str = "conditions";

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was written.
    Yes,
    /// The object says it already.
    Unchanged,
    /// The SampleDB is gone, or another took its name.
    Gone,
}

/// What cannot be written: a field of another writer would be taken over.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{manager} reports status.{field}, which is not its own")]
pub struct Foreign {
    manager: &'static str,
    field: String,
}

/// `status` without nulls, when all of it belongs to `writer`.
pub(crate) fn checked(
    mut status: Map<String, Value>,
    writer: &Writer,
) -> Result<Map<String, Value>, Foreign> {
    let foreign = |field: String| Foreign {
        manager: writer.manager,
        field,
    };
    status.retain(|_, value| !value.is_null());
    status.values_mut().for_each(without_nulls);
    for (field, value) in &status {
        if field != CONDITIONS && !writer.sections.contains(&field.as_str()) {
            return Err(foreign(field.clone()));
        }
        if field == CONDITIONS {
            let own = |type_: &str| writer.conditions.iter().any(|c| c.as_str() == type_);
            if let Some(other) = types(value).find(|type_| !own(type_)) {
                return Err(foreign(format!("{CONDITIONS}[{other}]")));
            }
        }
    }
    Ok(status)
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn types(conditions: &Value) -> impl Iterator<Item = &str> {
    conditions
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["type"].as_str())
}

/// Whether the live object says exactly what the report does, of what `writer` owns.
pub(crate) fn says(live: &Value, report: &Map<String, Value>, writer: &Writer) -> bool {
    let sections_equal = writer
        .sections
        .iter()
        .all(|section| live.get(*section) == report.get(*section));
    sections_equal
        && own_conditions(live.get(CONDITIONS), writer) == own_conditions(report.get(CONDITIONS), writer)
}

fn own_conditions<'a>(conditions: Option<&'a Value>, writer: &Writer) -> BTreeMap<&'a str, &'a Value> {
    conditions
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|c| c["type"].as_str().map(|type_| (type_, c)))
        .filter(|(type_, _)| writer.conditions.iter().any(|own| own.as_str() == *type_))
        .collect()
}

/// The status of one SampleDB.
pub(crate) struct Target<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) writer: &'static Writer,
    pub(crate) force: bool,
}

impl Target<'_> {
    fn path(&self) -> ApiRequest {
        ApiRequest::new(SampleDb::url_path(&(), Some(self.namespace)))
    }

    /// Writes `report` unless `live`, the object as it was read at the start of the pass, says it already. Every write
    /// is bound to a version that was read with this UID: a status apply is not bound to a UID, and would else land on
    /// another SampleDB that took the name meanwhile. The agents and the other controllers write the same object, so a
    /// conflict is looked at and tried again.
    pub(crate) async fn write(
        &self,
        report: &Map<String, Value>,
        live: &Value,
    ) -> Result<Written, kube::Error> {
        if says(&live["status"], report, self.writer) {
            return Ok(Written::Unchanged);
        }
        let mut version = live["metadata"]["resourceVersion"]
            .as_str()
            .map(ToOwned::to_owned);
        for attempt in 1.. {
            let result = client::send::<Value>(self.client, self.apply(report, version.as_deref())).await;
            match result {
                Ok(_) => return Ok(Written::Yes),
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Written::Gone),
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < TRIES => {}
                Err(error) => return Err(error),
            }
            let get = self.path().get(self.name, &GetParams::default());
            let now: Value = match client::send(self.client, get).await {
                Ok((_, now)) => now,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Written::Gone),
                Err(error) => return Err(error),
            };
            if now["metadata"]["uid"] != self.uid {
                return Ok(Written::Gone);
            }
            version = now["metadata"]["resourceVersion"].as_str().map(ToOwned::to_owned);
        }
        Ok(Written::Gone)
    }

    fn apply(
        &self,
        report: &Map<String, Value>,
        version: Option<&str>,
    ) -> Result<Request<Vec<u8>>, kube::core::request::Error> {
        let mut body = json!({
            "apiVersion": SampleDb::api_version(&()), "kind": SampleDb::kind(&()),
            "metadata": {"name": self.name, "namespace": self.namespace},
            "status": report,
        });
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = version.into();
        }
        let mut params = PatchParams::apply(self.writer.manager);
        params.force = self.force;
        self.path()
            .patch_subresource("status", self.name, &params, &Patch::Apply(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ownership::{PROVISIONER, SERVICE_PUBLISHER};

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn ready(status: &str) -> Value {
        json!({"type": "Ready", "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_status_that_is_there_already_costs_no_write_even_after_a_restart() {
        let report = map(json!({"phase": "Running", "conditions": [ready("True")]}));
        let mut live = json!({
            "phase": "Running", "election": {"rev": 7},
            "conditions": [{"type": "Published", "status": "False"}, ready("True")],
        });
        assert!(says(&live, &report, &PROVISIONER));
        live["phase"] = "Degraded".into();
        assert!(!says(&live, &report, &PROVISIONER), "edited by another");
        assert!(!says(&json!({}), &report, &PROVISIONER), "removed by another");
    }

    #[test]
    fn a_section_that_is_no_longer_reported_is_a_change() {
        let live = json!({"endpoints": {"uid": "u"}, "binding": {"name": "x"}});
        assert!(!says(
            &live,
            &map(json!({"endpoints": {"uid": "u"}})),
            &SERVICE_PUBLISHER
        ));
    }

    #[test]
    fn another_writer_s_field_is_never_taken_over() {
        let error = checked(map(json!({"election": {}})), &PROVISIONER).unwrap_err();
        assert!(error.to_string().contains("status.election"), "{error}");
        let published = json!({"conditions": [{"type": "Published"}]});
        assert!(checked(map(published.clone()), &PROVISIONER).is_err());
        assert!(checked(map(published), &SERVICE_PUBLISHER).is_ok());
    }

    #[test]
    fn a_null_is_never_sent() {
        let status = json!({"phase": null, "provisioning": {"uid": "u", "init": null, "volumes": [{"claim": "c", "uid": null}]}});
        let sent = checked(map(status), &PROVISIONER).unwrap();
        assert_eq!(
            Value::Object(sent),
            json!({"provisioning": {"uid": "u", "volumes": [{"claim": "c"}]}})
        );
    }
}
