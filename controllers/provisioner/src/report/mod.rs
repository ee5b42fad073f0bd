//! What is said after a pass: the sections and conditions of the provisioner, and the events of their changes.

mod parts;
mod ready;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use sampledb_shared::api::conditions::ConditionType;
use sampledb_shared::api::instances::Instance;
use sampledb_shared::api::provisioning::{Certificates, Provisioning, VolumeStatus};
use sampledb_shared::api::{Phase, SampleDb, SampleDbStatus};
use sampledb_shared::domain::conditions::{self, Finding, Status};
use sampledb_shared::domain::labels;
use sampledb_shared::runtime::{Applied, Note, Report};
use serde_json::{Map, Value, json};

use crate::assessment::Assessment;
use crate::build::job;
use crate::initial::Initial;
use crate::observe::Observed;
use crate::rules::Kind;
use crate::settings::Settings;
use crate::volumes::{self, Fate};

/// What the findings are made from.
struct Scene<'a> {
    db: &'a SampleDb,
    seen: &'a Observed,
    applied: &'a Applied,
    assessment: Assessment<'a>,
    now: Timestamp,
}

/// What is said after a pass.
pub fn report(
    db: &SampleDb,
    seen: &Observed,
    settings: &Settings,
    applied: &Applied,
    now: Timestamp,
) -> Report {
    let scene = Scene {
        db,
        seen,
        applied,
        assessment: Assessment::of(db, seen, settings),
        now,
    };
    let parts = parts::Parts {
        available: parts::available(&scene),
        initialized: parts::initialized(&scene),
        storage: parts::storage(&scene),
        certificates: parts::certificates(&scene),
    };
    let stalled = ready::stalled(&scene);
    let ready = ready::ready(&scene, &parts, &stalled);
    let reconciling = ready::reconciling(&scene, &ready, &stalled);
    let phase = phase(&scene, &parts, &ready, &stalled);
    let events = events(&scene, &ready, &stalled);
    let findings = [
        ready,
        reconciling,
        stalled,
        parts.available,
        parts.initialized,
        parts.storage,
        parts.certificates,
    ];
    Report {
        status: scene.status(phase, &findings),
        events,
    }
}

impl Scene<'_> {
    fn status(&self, phase: Phase, findings: &[Finding]) -> Map<String, Value> {
        let generation = self.db.metadata.generation.unwrap_or_default();
        let before = self.conditions();
        let conditions: Vec<_> = findings
            .iter()
            .map(|f| f.condition(before, generation, self.now))
            .collect();
        let fields = [
            ("observedGeneration", json!(generation)),
            ("phase", json!(phase)),
            ("provisioning", json!(self.provisioning())),
            ("replicas", json!(self.seen.pods.len())),
            (
                "selector",
                json!(labels::pod_selector_text(&self.assessment.input.target.name)),
            ),
            ("conditions", json!(conditions)),
        ];
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn provisioning(&self) -> Provisioning {
        let input = &self.assessment.input;
        let started = match &self.assessment.initial {
            Initial::Start(content) => self.is_applied("Job", &job::name(&input.target, content)),
            _ => false,
        };
        let version = self.instances().find_map(|i| i.version.clone());
        let before = self.before().and_then(|p| p.version.clone());
        Provisioning {
            uid: input.target.uid.clone(),
            ready_instances: self.ready_pods() as i32,
            version: version.or(before),
            images: input.images.clone(),
            volumes: self.volumes(),
            init: self.assessment.initial.status(&input.target, started),
            certificates: self.has_certificates().then_some(Certificates {
                ca_not_after: self.seen.material.ca_not_after,
                server_not_after: self.seen.material.server_facts.not_after,
            }),
        }
    }

    /// The claims: as they were recorded, where they are lost or not wanted any more; else as they are.
    fn volumes(&self) -> Vec<VolumeStatus> {
        let input = &self.assessment.input;
        let recorded = volumes::volumes(self.db, &input.target.uid);
        let mut volumes: Vec<VolumeStatus> = recorded
            .iter()
            .filter(|v| !input.fates.contains_key(&v.claim))
            .cloned()
            .collect();
        for (claim, fate) in &input.fates {
            let there = self.seen.claims.get(claim).map(|c| {
                let capacity = c.capacity.as_ref().map(|q| q.0.clone());
                VolumeStatus {
                    claim: claim.clone(),
                    uid: c.found.seen.uid.clone(),
                    capacity,
                }
            });
            let made = || {
                let object = self
                    .applied
                    .objects
                    .get(&("PersistentVolumeClaim".to_owned(), claim.clone()))?;
                Some(VolumeStatus {
                    claim: claim.clone(),
                    uid: object["metadata"]["uid"].as_str()?.to_owned(),
                    capacity: None,
                })
            };
            let before = || recorded.iter().find(|v| v.claim == *claim).cloned();
            volumes.extend(match fate {
                Fate::Keep | Fate::Ending => there,
                // Ours only when it was taken over.
                Fate::Adopt => there.filter(|_| self.is_applied("PersistentVolumeClaim", claim)),
                Fate::Create => made(),
                Fate::Lost => before(),
                Fate::Foreign => None,
            });
        }
        volumes.sort_by(|a, b| a.claim.cmp(&b.claim));
        volumes
    }

    fn before(&self) -> Option<&sampledb_shared::api::provisioning::Provisioning> {
        let provisioning = self.status_before()?.provisioning.as_ref()?;
        (provisioning.uid == self.assessment.input.target.uid).then_some(provisioning)
    }

    fn status_before(&self) -> Option<&SampleDbStatus> {
        self.db.status.as_ref()
    }

    fn conditions(&self) -> &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition] {
        self.status_before().map_or(&[], |s| &s.conditions)
    }

    /// What the agents say; another SampleDB's entries do not count.
    fn instances(&self) -> impl Iterator<Item = &Instance> {
        let uid = &self.assessment.input.target.uid;
        self.status_before()
            .into_iter()
            .flat_map(|s| &s.instances)
            .filter(move |i| i.uid == *uid)
    }

    fn ready_pods(&self) -> usize {
        self.seen.pods.iter().filter(|p| p.ready && !p.deleting).count()
    }

    fn is_applied(&self, kind: &str, name: &str) -> bool {
        self.applied
            .objects
            .contains_key(&(kind.to_owned(), name.to_owned()))
    }

    /// Whether what was minted is where it belongs.
    fn has_certificates(&self) -> bool {
        self.seen
            .material
            .minted
            .iter()
            .all(|m| self.is_applied("Secret", &m.secret))
    }

    fn is_hibernated(&self) -> bool {
        self.db.spec.instances == 0 && self.seen.pods.is_empty()
    }
}

fn phase(scene: &Scene<'_>, parts: &parts::Parts, ready: &Finding, stalled: &Finding) -> Phase {
    let available = parts.available.status == Status::True;
    if scene.assessment.obstacle(Kind::Deleting).is_some() {
        Phase::Deleting
    } else if stalled.status == Status::True && !available {
        Phase::Failed
    } else if scene.is_hibernated() {
        Phase::Hibernated
    } else if ready.status == Status::True
        || (available
            && stalled.status != Status::True
            && scene.ready_pods() as i32 >= scene.db.spec.instances)
    {
        Phase::Running
    } else if available || volumes::was_open(scene.db) {
        Phase::Degraded
    } else {
        Phase::Creating
    }
}

/// What changed that a person may want to know.
fn events(scene: &Scene<'_>, ready: &Finding, stalled: &Finding) -> Vec<Note> {
    let before = |type_| conditions::find(scene.conditions(), type_);
    let changed = |finding: &Finding| {
        before(finding.type_)
            .is_none_or(|c| c.status != finding.status.as_str() || c.reason != finding.reason)
    };
    let mut events = Vec::new();
    if stalled.status == Status::True && changed(stalled) {
        events.push(Note {
            warning: true,
            reason: stalled.reason,
            action: "Reconcile",
            message: stalled.message.clone(),
        });
    }
    let was_ready = conditions::is_true(scene.conditions(), ConditionType::Ready);
    if ready.status == Status::True && !was_ready {
        events.push(Note {
            warning: false,
            reason: ready.reason,
            action: "Reconcile",
            message: ready.message.clone(),
        });
    }
    events
}
