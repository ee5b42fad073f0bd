//! Makes the children as a plan wants them, by server-side apply, and removes what it wants removed.
//!
//! # Guarantees
//! - What was not seen is only ever *created*: an object that a stranger made meanwhile is refused, and given back
//!   unchanged.
//! - What was seen is changed only while it still has the UID that was seen.
//! - What this process applied before and nobody changed since is not written again.
//! - What somebody added to the `spec` of a kind that is wholly the suite's is taken away; see [`additions`].
//! - A delete removes exactly what was seen (UID and resourceVersion), and only after everything was applied.

use std::sync::Arc;

use futures::StreamExt;
use http::{Request, StatusCode};
use kube::Client;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::core::Status;
use kube::core::params::PropagationPolicy;
use serde::Deserialize;
use serde_json::{Value, json};

use super::freshness::Freshness;
use super::memory::Memory;
use super::plan::{Applied, Desired, Doomed, ErrorClass, Refusal, class_of};
use super::{additions, client};
use crate::domain::labels;
use crate::telemetry::metrics::Metrics;

/// So many children of one SampleDB are written at once, the first of the plan first. More would not be done sooner
/// (the API server works on as many as it has cores), but then the StatefulSet waits for what nobody waits for.
const AT_ONCE: usize = 6;

/// Where and as whom children are written.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) client: Client,
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) namespace: String,
    pub(crate) manager: &'static str,
    /// The UID of the SampleDB.
    pub(crate) uid: String,
}

impl Target {
    /// Sends a write. The version it is answered with is known from then on, whatever becomes of the rest.
    async fn send(
        &self,
        kind: &str,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<(StatusCode, Value), kube::Error> {
        let (code, answer): (_, Value) = client::send(&self.client, request).await?;
        if let Some(version) = answer["metadata"]["resourceVersion"].as_str() {
            self.freshness.note(kind, version);
        }
        Ok((code, answer))
    }
}

/// Applies everything, [`AT_ONCE`] at the same time, in the order of the plan.
pub(crate) async fn apply(
    target: &Target,
    wanted: Vec<Desired>,
    memory: &mut Memory,
    metrics: &Metrics,
) -> Applied {
    memory.keep(&wanted);
    let mut applied = Applied::default();
    let mut todo = Vec::new();
    for desired in wanted {
        if let Some(kept) = memory.unchanged(&desired, &target.namespace) {
            count(metrics, &desired.resource.kind, "unchanged");
            applied
                .objects
                .insert((desired.resource.kind.clone(), desired.name().to_owned()), kept);
        } else {
            todo.push(write(target.clone(), desired));
        }
    }
    let again = round(todo, &mut applied, memory, metrics, true).await;
    // Something that one refers to (a RoleBinding its Role) may have been made by the first round.
    let again = again
        .into_iter()
        .map(|desired| write(target.clone(), desired))
        .collect();
    round(again, &mut applied, memory, metrics, false).await;
    applied
        .refused
        .sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    applied
}

/// Writes at the same time; returns what the API server misses something for, if `retry`.
async fn round(
    todo: Vec<impl Future<Output = (Desired, Result<Value, kube::Error>)>>,
    applied: &mut Applied,
    memory: &mut Memory,
    metrics: &Metrics,
    retry: bool,
) -> Vec<Desired> {
    let mut again = Vec::new();
    let mut done = futures::stream::iter(todo).buffer_unordered(AT_ONCE);
    while let Some((desired, result)) = done.next().await {
        let kind = desired.resource.kind.clone();
        match result {
            Ok(object) => {
                count(metrics, &kind, "applied");
                if let Ok(meta) = ObjectMeta::deserialize(&object["metadata"]) {
                    memory.applied(&desired, &meta);
                }
                applied.objects.insert((kind, desired.name().to_owned()), object);
            }
            Err(kube::Error::Api(status)) if retry && status.code == 404 => again.push(desired),
            Err(error) => {
                count(metrics, &kind, "refused");
                let (class, message) = refusal(&error);
                applied.refused.push(Refusal {
                    kind,
                    name: desired.name().to_owned(),
                    class,
                    message,
                });
            }
        }
    }
    again
}

fn count(metrics: &Metrics, kind: &str, result: &str) {
    metrics.applies.with_label_values(&[kind, result]).inc();
}

async fn write(target: Target, desired: Desired) -> (Desired, Result<Value, kube::Error>) {
    let result = write_one(&target, &desired).await;
    (desired, result)
}

async fn write_one(target: &Target, desired: &Desired) -> Result<Value, kube::Error> {
    let mut object = desired.object.clone();
    object["metadata"]["namespace"] = target.namespace.as_str().into();
    let mut params = PatchParams::apply(target.manager);
    if let Some(seen) = &desired.seen {
        object["metadata"]["uid"] = seen.uid.as_str().into();
        params = params.force();
    }
    let request = client::path(&desired.resource, &target.namespace);
    let request = request.patch(desired.name(), &params, &Patch::Apply(object));
    let (code, answer) = target.send(&desired.resource.kind, request).await?;
    if desired.seen.is_some() {
        return take_away(target, desired, answer).await;
    }
    if code == StatusCode::CREATED {
        return Ok(answer);
    }
    let strangers = strangers(&answer, target.manager);
    let made_for = answer["metadata"]["annotations"][labels::UID].as_str();
    if strangers.is_empty() && made_for.is_none_or(|uid| uid == target.uid) {
        return Ok(answer);
    }
    give_back(target, desired, &answer).await;
    let whose = if strangers.is_empty() {
        "another SampleDB".to_owned()
    } else {
        strangers.join(", ")
    };
    let message = format!("an object of this name appeared meanwhile, made by {whose}; it was left as it is");
    Err(kube::Error::Api(
        Status::failure(&message, "Conflict").with_code(409).boxed(),
    ))
}

/// Takes away what somebody added; the object as it is then.
async fn take_away(target: &Target, desired: &Desired, answer: Value) -> Result<Value, kube::Error> {
    let Some(removal) = additions::removal(&answer, target.manager) else {
        return Ok(answer);
    };
    tracing::warn!(
        event = "addition_removed", kind = desired.resource.kind, child = desired.name(), patch = %removal,
        "somebody added to a child of ours; it is taken away"
    );
    let params = PatchParams {
        field_manager: Some(target.manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = serde_json::from_value(removal).map_err(kube::Error::SerdeError)?;
    let request = client::path(&desired.resource, &target.namespace).patch(
        desired.name(),
        &params,
        &Patch::Json::<()>(patch),
    );
    Ok(target.send(&desired.resource.kind, request).await?.1)
}

/// Who else holds fields of an object, its status aside.
fn strangers(object: &Value, manager: &str) -> Vec<String> {
    let fields = object["metadata"]["managedFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut others: Vec<_> = fields
        .iter()
        .filter(|entry| entry["subresource"].as_str().is_none_or(str::is_empty))
        .filter_map(|entry| entry["manager"].as_str())
        .filter(|found| *found != manager)
        .map(ToOwned::to_owned)
        .collect();
    others.sort();
    others.dedup();
    others
}

/// Removes what an apply without force added to a stranger's object: an apply of nothing gives up every field.
async fn give_back(target: &Target, desired: &Desired, answer: &Value) {
    let nothing = json!({
        "apiVersion": desired.resource.api_version, "kind": desired.resource.kind,
        "metadata": {"name": desired.name(), "namespace": target.namespace, "uid": answer["metadata"]["uid"]},
    });
    let request = client::path(&desired.resource, &target.namespace).patch(
        desired.name(),
        &PatchParams::apply(target.manager).force(),
        &Patch::Apply(nothing),
    );
    if let Err(error) = target.send(&desired.resource.kind, request).await {
        tracing::warn!(event = "give_back_failed", kind = desired.resource.kind, child = desired.name(), %error,
            "an object of a stranger was touched and could not be given back");
    }
}

/// Removes what is to be removed; what is gone already counts as removed.
pub(crate) async fn delete(target: &Target, doomed: &[Doomed], metrics: &Metrics) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for doomed in doomed {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(doomed.seen.uid.clone()),
                resource_version: Some(doomed.seen.resource_version.clone()),
            }),
            propagation_policy: Some(if doomed.orphan {
                PropagationPolicy::Orphan
            } else {
                PropagationPolicy::Background
            }),
            ..DeleteParams::default()
        };
        let request = client::path(&doomed.resource, &target.namespace).delete(&doomed.name, &params);
        match target.send(&doomed.resource.kind, request).await {
            Ok(_) => count(metrics, &doomed.resource.kind, "deleted"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                count(metrics, &doomed.resource.kind, "refused");
                let (class, message) = refusal(&error);
                let (kind, name) = (doomed.resource.kind.clone(), doomed.name.clone());
                refused.push(Refusal {
                    kind,
                    name,
                    class,
                    message,
                });
            }
        }
    }
    refused
}

fn refusal(error: &kube::Error) -> (ErrorClass, String) {
    let message = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    (
        if is_replaced(error) {
            ErrorClass::Conflict
        } else {
            class_of(error)
        },
        message,
    )
}

/// Another object has the name by now: the API server takes the UID of the one that was seen for a wrong field.
fn is_replaced(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|d| &d.causes);
    status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}
