//! What a look finds of each child: plain data, only what the policy reads.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Resource, ResourceExt};
use sampledb_shared::domain::labels;
use sampledb_shared::runtime::Seen;

/// A child that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its metadata.
    pub seen: Seen,
    /// The UIDs of its owners.
    pub owners: Vec<String>,
}

impl Found {
    /// From an object that was read.
    pub fn of<K: Resource>(object: &K) -> Self {
        let owners = object
            .meta()
            .owner_references
            .iter()
            .flatten()
            .map(|o| o.uid.clone())
            .collect();
        Self {
            seen: Seen::of(object),
            owners,
        }
    }

    /// Whether it was made for the SampleDB with this UID: it says so, or, when somebody took that away, its owner does.
    pub fn is_for(&self, uid: &str) -> bool {
        match self.seen.made_for.as_deref() {
            Some(made_for) => made_for == uid,
            None => self.owners.iter().any(|owner| owner == uid),
        }
    }

    /// Whether it belonged to another SampleDB that is gone, so that the garbage collector is about to remove it.
    pub fn is_leftover(&self, uid: &str) -> bool {
        !self.is_for(uid)
            && (self.seen.deleting
                || self
                    .seen
                    .made_for
                    .as_ref()
                    .is_some_and(|owner| self.owners.contains(owner)))
    }
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// Its metadata.
    pub found: Found,
    /// What was asked for.
    pub requested: Option<Quantity>,
    /// What is there; absent until it is bound.
    pub capacity: Option<Quantity>,
    /// Who may mount it.
    pub access_modes: Vec<String>,
    /// Its class.
    pub storage_class: Option<String>,
    /// Filesystem or Block.
    pub volume_mode: Option<String>,
    /// Why it does not grow, in the storage driver's words.
    pub growth_error: Option<String>,
    /// Why there is no volume yet, in the words of who should make it; see [`crate::observe`].
    pub not_provisioned: Option<String>,
}

impl ClaimView {
    /// From an object that was read.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let (spec, status) = (
            claim.spec.clone().unwrap_or_default(),
            claim.status.clone().unwrap_or_default(),
        );
        let storage = |quantities: Option<&BTreeMap<String, Quantity>>| {
            quantities.and_then(|q| q.get("storage")).cloned()
        };
        let growth_error = status
            .conditions
            .iter()
            .flatten()
            .find(|c| c.type_.ends_with("ResizeError") && c.status == "True")
            .map(|c| c.message.clone().unwrap_or_else(|| c.type_.clone()));
        Self {
            found: Found::of(claim),
            requested: storage(spec.resources.as_ref().and_then(|r| r.requests.as_ref())),
            capacity: storage(status.capacity.as_ref()),
            access_modes: spec.access_modes.unwrap_or_default(),
            storage_class: spec.storage_class_name,
            volume_mode: spec.volume_mode,
            growth_error,
            not_provisioned: None,
        }
    }
}

/// The StatefulSet.
#[derive(Clone, Debug, PartialEq)]
pub struct StatefulSetView {
    /// How many pods it wants.
    pub replicas: i32,
    /// The templates of its claims: they cannot be changed. Without the status that the API server adds, they are as
    /// they were built.
    pub templates: Vec<PersistentVolumeClaim>,
    /// The revision of its pod template.
    pub revision: Option<String>,
}

impl StatefulSetView {
    /// From an object that was read.
    pub fn of(set: &StatefulSet) -> Self {
        let spec = set.spec.clone().unwrap_or_default();
        Self {
            replicas: spec.replicas.unwrap_or(1),
            templates: spec
                .volume_claim_templates
                .unwrap_or_default()
                .into_iter()
                .map(|template| PersistentVolumeClaim {
                    status: None,
                    ..template
                })
                .collect(),
            revision: set.status.as_ref().and_then(|s| s.update_revision.clone()),
        }
    }

    /// The sizes in the templates, by name.
    pub fn sizes(templates: &[PersistentVolumeClaim]) -> BTreeMap<String, Option<Quantity>> {
        templates
            .iter()
            .map(|t| (t.name_any(), ClaimView::of(t).requested))
            .collect()
    }
}

/// A database pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is ending.
    pub deleting: bool,
    /// The revision of the template it was made from.
    pub revision: Option<String>,
    /// What it waits for, for a person; absent when nothing.
    pub waits_for: Option<String>,
}

impl PodView {
    /// From an object that was read.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let condition = |type_: &str| status.conditions.iter().flatten().find(|c| c.type_ == type_);
        let unscheduled = condition("PodScheduled")
            .filter(|c| c.status == "False")
            .map(|c| {
                format!(
                    "it is not scheduled: {}",
                    c.message
                        .as_deref()
                        .or(c.reason.as_deref())
                        .unwrap_or("no reason given")
                )
            });
        let mut containers = status
            .init_container_statuses
            .iter()
            .flatten()
            .chain(status.container_statuses.iter().flatten());
        Self {
            name: pod.name_any(),
            ready: condition("Ready").is_some_and(|c| c.status == "True"),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            revision: pod.labels().get("controller-revision-hash").cloned(),
            waits_for: unscheduled.or_else(|| containers.find_map(waits_for)),
        }
    }
}

/// What a container waits for, unless it is only its turn.
fn waits_for(status: &ContainerStatus) -> Option<String> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|r| !matches!(*r, "PodInitializing" | "ContainerCreating"))?;
    let message = waiting
        .message
        .as_deref()
        .map(|m| format!(": {m}"))
        .unwrap_or_default();
    Some(format!("container {} waits: {reason}{message}", status.name))
}

/// A pod of the init Job that ended badly.
pub fn init_error(pod: &Pod) -> Option<(String, String)> {
    let job = pod.labels().get("batch.kubernetes.io/job-name")?.clone();
    let ended = pod
        .status
        .iter()
        .flat_map(|s| s.container_statuses.iter().flatten())
        .filter_map(|c| c.state.as_ref()?.terminated.as_ref())
        .find(|t| t.exit_code != 0)?;
    let text = ended.message.as_deref().unwrap_or_default();
    let error = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|v| v["error"].as_str().map(str::to_owned))
        .unwrap_or_else(|| match text {
            "" => format!("the container ended with exit code {}", ended.exit_code),
            text => text.to_owned(),
        });
    Some((job, error))
}

/// An init Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its metadata.
    pub found: Found,
    /// The hash of what it was built from.
    pub built: Option<String>,
    /// How far it is.
    pub phase: JobPhase,
}

/// How far a Job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobPhase {
    /// It runs, or will.
    Active,
    /// It is done.
    Complete,
    /// It is given up, for this reason.
    Failed(String),
}

impl JobView {
    /// From an object that was read.
    pub fn of(job: &Job) -> Self {
        let conditions = job
            .status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
            .filter(|c| c.status == "True");
        let mut phase = JobPhase::Active;
        for condition in conditions {
            match condition.type_.as_str() {
                "Complete" | "SuccessCriteriaMet" => phase = JobPhase::Complete,
                "Failed" | "FailureTarget" => {
                    phase = JobPhase::Failed(
                        condition
                            .message
                            .clone()
                            .unwrap_or_else(|| "no reason given".into()),
                    );
                }
                _ => {}
            }
        }
        Self {
            found: Found::of(job),
            built: job.annotations().get(labels::CONFIG_HASH).cloned(),
            phase,
        }
    }
}
