//! The conditions that speak of the whole, as kstatus reads them: Ready, Reconciling, Stalled.

use sampledb_shared::api::conditions::{ConditionType, published};
use sampledb_shared::api::instances::{Instance, InstanceErrorReason, StorageState};
use sampledb_shared::domain::conditions::{self, Finding, Status};
use sampledb_shared::domain::{labels, names};
use sampledb_shared::runtime::ErrorClass;

use super::Scene;
use super::parts::{self, Parts, growing};
use crate::initial::Initial;
use crate::rules::Kind;

/// Whether a person must act, and how: the first that is found.
pub fn stalled(scene: &Scene<'_>) -> Finding {
    let stalled = |reason, message: String| Finding::new(ConditionType::Stalled, true, reason, message);
    if let Some(obstacle) = scene.assessment.obstacle(Kind::Stalled) {
        return stalled(obstacle.reason, obstacle.message.clone());
    }
    let for_good = |class| {
        matches!(
            class,
            ErrorClass::Forbidden | ErrorClass::Invalid | ErrorClass::Bug
        )
    };
    if let Some(refusal) = scene.applied.refused.iter().find(|r| for_good(r.class)) {
        return stalled(
            "Refused",
            format!("{} {}: {}", refusal.kind, refusal.name, refusal.message),
        );
    }
    let is_full = |i: &&Instance| i.storage == StorageState::Full && i.last_error.is_some();
    if let Some(instance) = scene.instances().find(is_full) {
        let message = format!(
            "the volume of {} is full, and PostgreSQL does not run: grow spec.storage",
            instance.name
        );
        return stalled("VolumeFull", message);
    }
    if let Some((instance, error)) = scene.instances().find_map(|i| Some((i, i.last_error.as_ref()?))) {
        let reason = match error.reason {
            InstanceErrorReason::VolumeLost => "VolumeLost",
            InstanceErrorReason::ForeignVolume => "ForeignVolume",
            InstanceErrorReason::StartFailed => "StartFailed",
            InstanceErrorReason::InitFailed => "BootstrapFailed",
            InstanceErrorReason::HistoryMismatch => "HistoryMismatch",
        };
        return stalled(reason, format!("{}: {}", instance.name, error.message));
    }
    let wanted = &scene.assessment.configuration.hash;
    if let Some(instance) = scene
        .instances()
        .find(|i| i.rejected_hash.as_ref() == Some(wanted))
    {
        let errors = instance.parameter_errors.join("; ");
        // What was refused at a start may stand in the data directory, but is in force nowhere.
        let before = instance.config_hash.as_ref().filter(|hash| *hash != wanted);
        let follows = match before {
            Some(_) => "the one before stays in force",
            None => "it does not start with it; correct spec.postgres.parameters",
        };
        let message = format!("PostgreSQL refused the configuration, and {follows}: {errors}");
        return stalled("ParameterRejected", message);
    }
    if let Some(condition) = unpublished(scene) {
        return condition;
    }
    if let Initial::Failed(_, error, _) = &scene.assessment.initial {
        let message =
            format!("the initial SQL failed: {error}; correct it in its ConfigMap, and it is run again");
        return stalled("InitFailed", message);
    }
    if let Some(words) = &scene.seen.pod_refusal {
        return stalled("PodRefused", format!("a pod cannot be made: {words}"));
    }
    Finding::new(
        ConditionType::Stalled,
        false,
        "NotStalled",
        "nothing waits for a person",
    )
}

/// What the service-publisher cannot do without a person: a name that is taken, an object that was refused.
fn unpublished(scene: &Scene<'_>) -> Option<Finding> {
    let said = conditions::find(scene.conditions(), ConditionType::Published)?;
    let reason = [published::NAME_COLLISION, published::REFUSED]
        .into_iter()
        .find(|reason| *reason == said.reason)?;
    let message = said.message.clone();
    (said.status == "False").then(|| Finding::new(ConditionType::Stalled, true, reason, message))
}

/// Whether everything is as the spec wants it.
pub fn ready(scene: &Scene<'_>, parts: &Parts, stalled: &Finding) -> Finding {
    let finding =
        |status: Status, reason, message: String| Finding::new(ConditionType::Ready, status, reason, message);
    let (reason, message) = match missing(scene, parts, stalled) {
        Some((status, _, message)) if scene.assessment.obstacle(Kind::Paused).is_some() => {
            let message = format!("spec.paused is true, and nothing is changed until it is false: {message}");
            return finding(status, "Paused", message);
        }
        Some((status, reason, message)) => return finding(status, reason, message),
        None if scene.db.spec.instances == 0 => (
            "Hibernated",
            "spec.instances is 0: nothing runs, the volumes are kept".to_owned(),
        ),
        None => (
            "Ready",
            [
                Some("everything is as the spec wants it".to_owned()),
                waits_for_restart(scene),
                old_template(scene),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; "),
        ),
    };
    finding(Status::True, reason, message)
}

/// What is missing for Ready: the first that is found.
fn missing(scene: &Scene<'_>, parts: &Parts, stalled: &Finding) -> Option<(Status, &'static str, String)> {
    let no = |reason, message: String| Some((Status::False, reason, message));
    for kind in [Kind::Deleting, Kind::Passing] {
        if let Some(obstacle) = scene.assessment.obstacle(kind) {
            return no(obstacle.reason, obstacle.message.clone());
        }
    }
    if stalled.status == Status::True {
        return no(stalled.reason, stalled.message.clone());
    }
    if let Some(refusal) = scene.applied.refused.first() {
        return no(
            "NotApplied",
            format!(
                "{} {}: {}; it is tried again",
                refusal.kind, refusal.name, refusal.message
            ),
        );
    }
    if !scene.seen.publisher_seen {
        let message =
            "the service-publisher has not been seen for 60 s: what it says may be old; see its Deployment";
        return Some((Status::Unknown, "WriterNotSeen", message.into()));
    }
    let failing = |finding: &Finding| {
        (finding.status != Status::True).then(|| (finding.status, finding.reason, finding.message.clone()))
    };
    if scene.db.spec.instances == 0 {
        if !scene.is_hibernated() {
            return no("Hibernating", "waits until the pods have ended".into());
        }
        return failing(&parts.certificates);
    }
    // A pod whose volume cannot be made says only that it waits for it.
    if parts.storage.reason == parts::NOT_PROVISIONED {
        return failing(&parts.storage);
    }
    if let Some(message) = pods(scene) {
        return no("PodsNotReady", message);
    }
    if let Some(failing) = [&parts.storage, &parts.certificates, &parts.available]
        .into_iter()
        .find_map(failing)
    {
        return Some(failing);
    }
    let generation = scene.db.metadata.generation.unwrap_or_default();
    let published =
        conditions::find(scene.conditions(), ConditionType::Published).and_then(|c| c.observed_generation);
    if published.unwrap_or_default() < generation {
        return no(
            "Publishing",
            "waits for the service-publisher to take up the change".into(),
        );
    }
    if let Some(name) = unconfigured(scene) {
        return no(
            "Configuring",
            format!("waits for {name} to take up the configuration"),
        );
    }
    if let Some(name) = restarting(scene) {
        return no(
            "Restarting",
            format!(
                "waits for {name} to restart PostgreSQL, as {} says",
                labels::RESTARTED_AT
            ),
        );
    }
    failing(&parts.initialized).or_else(|| no("VolumesGrowing", growing(scene)?))
}

/// What becomes of a change.
pub fn reconciling(scene: &Scene<'_>, ready: &Finding, stalled: &Finding) -> Finding {
    let finding =
        |is: bool, reason, message: String| Finding::new(ConditionType::Reconciling, is, reason, message);
    if let Some(paused) = scene.assessment.obstacle(Kind::Paused) {
        return finding(false, paused.reason, paused.message.clone());
    }
    if stalled.status == Status::True {
        return finding(
            false,
            "Stalled",
            "it waits for a person: see the condition Stalled".into(),
        );
    }
    if ready.status == Status::True {
        return finding(false, "Settled", "there is nothing to do".into());
    }
    finding(true, ready.reason, ready.message.clone())
}

/// Which pods are not ready, and what they wait for.
fn pods(scene: &Scene<'_>) -> Option<String> {
    let wanted = scene.db.spec.instances;
    if scene.ready_pods() as i32 >= wanted {
        return None;
    }
    let waits: Vec<_> = (0..wanted)
        .filter_map(|ordinal| {
            let name = names::pod(&scene.assessment.input.target.name, ordinal);
            match scene.seen.pods.iter().find(|p| p.name == name) {
                Some(pod) if pod.ready && !pod.deleting => None,
                Some(pod) if pod.deleting => Some(format!("{name} is ending")),
                Some(pod) => Some(format!(
                    "{name} is not ready{}",
                    pod.waits_for
                        .as_ref()
                        .map(|w| format!(": {w}"))
                        .unwrap_or_default()
                )),
                None => Some(format!("{name} is not there yet")),
            }
        })
        .collect();
    Some(waits.join("; "))
}

/// The first instance that has not the configuration in force.
fn unconfigured(scene: &Scene<'_>) -> Option<String> {
    let wanted = &scene.assessment.configuration.hash;
    let in_force = |pod: &String| {
        scene
            .instances()
            .any(|i| i.name == *pod && i.config_hash.as_ref() == Some(wanted))
    };
    let pods =
        (0..scene.db.spec.instances).map(|ordinal| names::pod(&scene.assessment.input.target.name, ordinal));
    pods.into_iter().find(|pod| !in_force(pod))
}

/// The first instance that has not carried out the user's wish for a restart.
fn restarting(scene: &Scene<'_>) -> Option<String> {
    let asked = labels::restart_wish(scene.db.metadata.annotations.as_ref())?;
    scene
        .instances()
        .find(|i| i.restarted_at.as_ref() != Some(&asked))
        .map(|i| i.name.clone())
}

/// Which settings wait for a restart of PostgreSQL, and how to have it.
fn waits_for_restart(scene: &Scene<'_>) -> Option<String> {
    let mut settings: Vec<_> = scene
        .instances()
        .flat_map(|i| i.pending_restart.iter().cloned())
        .collect();
    settings.sort();
    settings.dedup();
    (!settings.is_empty()).then(|| {
        format!(
            "these settings wait for a restart of PostgreSQL: {}; restart it with: kubectl annotate --overwrite sampledb {} {}=\"$(date)\"",
            settings.join(", "),
            scene.assessment.input.target.name,
            labels::RESTARTED_AT
        )
    })
}

/// Which pods were made from an older template, and how to replace them.
fn old_template(scene: &Scene<'_>) -> Option<String> {
    let current = scene.seen.stateful_set.as_ref()?.revision.as_ref()?;
    let old: Vec<_> = scene
        .seen
        .pods
        .iter()
        .filter(|p| p.revision.as_ref().is_some_and(|r| r != current))
        .map(|p| p.name.as_str())
        .collect();
    (!old.is_empty()).then(|| {
        format!(
            "made from an older template, and replaced when deleted: {}",
            old.join(", ")
        )
    })
}
