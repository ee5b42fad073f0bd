//! The conditions that speak of one part each: Available, Initialized, StorageHealthy, CertificatesValid.

use jiff::SignedDuration;
use sampledb_shared::api::conditions::ConditionType;
use sampledb_shared::api::election::ElectionPhase;
use sampledb_shared::api::instances::{Instance, StorageState};
use sampledb_shared::domain::conditions::{self, Finding};

use super::Scene;
use crate::credentials::certificate::BACKDATED;
use crate::initial::Initial;
use crate::quantity;
use crate::volumes::{self, Fate};

/// The reason while a volume cannot be made.
pub const NOT_PROVISIONED: &str = "NotProvisioned";

/// A certificate reaches a pod's volume within two minutes or so, and PostgreSQL at once from there.
const LOADED: SignedDuration = SignedDuration::from_mins(10);

/// The parts.
pub struct Parts {
    pub available: Finding,
    pub initialized: Finding,
    pub storage: Finding,
    pub certificates: Finding,
}

/// Whether clients can write: the register is open, that pod is ready (its agent committed a write when it opened),
/// and the way to it is published.
pub fn available(scene: &Scene<'_>) -> Finding {
    let finding =
        |is: bool, reason, message: String| Finding::new(ConditionType::Available, is, reason, message);
    let election = scene.status_before().and_then(|s| s.election.as_ref());
    if scene.is_hibernated() {
        return finding(false, "Hibernated", "spec.instances is 0: nothing runs".into());
    }
    let open = election.filter(|e| e.phase == ElectionPhase::Open);
    let Some(primary) = open.and_then(|e| e.primary.as_deref()) else {
        return finding(false, "NoPrimary", "no instance has opened to clients yet".into());
    };
    if !scene.seen.pods.iter().any(|p| p.name == primary && p.ready) {
        return finding(
            false,
            "PrimaryNotReady",
            format!("{primary} is the primary, and its pod is not ready"),
        );
    }
    if !conditions::is_true(scene.conditions(), ConditionType::Published) {
        return finding(
            false,
            "NotPublished",
            "the service-publisher has not published it: see the condition Published".into(),
        );
    }
    finding(true, "Available", format!("{primary} takes writes"))
}

/// Whether the initial SQL was run, or there is none.
pub fn initialized(scene: &Scene<'_>) -> Finding {
    let finding =
        |is: bool, reason, message: String| Finding::new(ConditionType::Initialized, is, reason, message);
    match &scene.assessment.initial {
        Initial::Succeeded(_) => finding(true, "Initialized", "the initial SQL was run".into()),
        Initial::Nothing if volumes::was_open(scene.db) => {
            finding(true, "NothingToRun", "there is no initial SQL".into())
        }
        Initial::Nothing | Initial::WaitsForDatabase => finding(
            false,
            "WaitingForDatabase",
            "waits until the database is open for the first time".into(),
        ),
        Initial::WaitsForContent(missing) => finding(
            false,
            "WaitingForContent",
            format!("{missing}; it is looked for every 30 s"),
        ),
        Initial::Start(_) => finding(
            false,
            "Running",
            "the Job with the initial SQL is being made".into(),
        ),
        Initial::Running(job, None) => {
            finding(false, "Running", format!("the Job {job} runs the initial SQL"))
        }
        Initial::Running(job, Some(error)) => finding(
            false,
            "Running",
            format!("the Job {job} tries the initial SQL again after: {error}"),
        ),
        Initial::Failed(job, error, _) => finding(
            false,
            "InitFailed",
            format!(
                "{error} (Job {job}); correct the SQL in its ConfigMap, and it is run again; to try the same again, delete the Job"
            ),
        ),
    }
}

/// Whether the volumes are there and have room.
pub fn storage(scene: &Scene<'_>) -> Finding {
    let finding =
        |is: bool, reason, message: String| Finding::new(ConditionType::StorageHealthy, is, reason, message);
    let input = &scene.assessment.input;
    let obstacle = scene.assessment.obstacles.iter().find(|o| {
        o.reason == "VolumeLost"
            || (o.reason == "NameCollision" && !input.claims_with(Fate::Foreign).is_empty())
    });
    if let Some(obstacle) = obstacle {
        return finding(false, obstacle.reason, obstacle.message.clone());
    }
    let ending = input.claims_with(Fate::Ending);
    if !ending.is_empty() {
        let message = format!(
            "the volume claims {} are being deleted, and with them the data as soon as their pods end: back it up now",
            ending.join(", ")
        );
        return finding(false, "VolumeEnding", message);
    }
    if let Some(refusal) = scene
        .applied
        .refused
        .iter()
        .find(|r| r.kind == "PersistentVolumeClaim")
    {
        let message = format!("the claim {} was refused: {}", refusal.name, refusal.message);
        return finding(false, "ClaimRefused", message);
    }
    let claims = || {
        input
            .fates
            .keys()
            .filter_map(|name| Some((name, scene.seen.claims.get(name)?)))
    };
    if let Some((name, error)) = claims().find_map(|(name, claim)| Some((name, claim.growth_error.as_ref()?)))
    {
        return finding(
            false,
            "GrowthFailed",
            format!("the claim {name} does not grow: {error}"),
        );
    }
    for instance in scene.instances() {
        let name = &instance.name;
        match instance.storage {
            StorageState::Ok => {}
            StorageState::BallastUsed => {
                let message =
                    format!("{name} gave up its reserve so that PostgreSQL can go on: grow spec.storage now");
                return finding(false, "ReserveUsed", message);
            }
            StorageState::Full => {
                return finding(
                    false,
                    "Full",
                    format!("the volume of {name} is full: grow spec.storage"),
                );
            }
        }
    }
    let unbound: Vec<_> = input
        .fates
        .keys()
        .filter(|n| scene.seen.claims.get(*n).is_none_or(|c| c.capacity.is_none()))
        .collect();
    let not_provisioned =
        claims().find_map(|(name, claim)| Some((name, claim, claim.not_provisioned.as_ref()?)));
    if let Some((name, claim, words)) = not_provisioned {
        let class = claim
            .storage_class
            .as_deref()
            .unwrap_or("none, and the cluster has no default");
        let message = format!("the claim {name} (StorageClass {class}) gets no volume: {words}");
        return finding(false, NOT_PROVISIONED, message);
    }
    if !unbound.is_empty() {
        let names = unbound.into_iter().cloned().collect::<Vec<_>>().join(", ");
        return finding(false, "NotBound", format!("waits for the volumes of {names}"));
    }
    match growing(scene) {
        Some(message) => finding(true, "Growing", message),
        None => finding(true, "Healthy", "the volumes are there and have room".into()),
    }
}

/// What grows still, for a person.
pub fn growing(scene: &Scene<'_>) -> Option<String> {
    let wanted = volumes::wanted(&scene.assessment.input.target);
    let growing: Vec<_> = wanted
        .iter()
        .filter_map(|wanted| {
            let capacity = scene.seen.claims.get(&wanted.name)?.capacity.as_ref()?;
            let size = &wanted.volume.size;
            (!quantity::at_least(capacity, size))
                .then(|| format!("{} has {} of {}", wanted.name, capacity.0, size.0))
        })
        .collect();
    (!growing.is_empty()).then(|| growing.join("; "))
}

/// Whether the certificates are there and far from their end.
pub fn certificates(scene: &Scene<'_>) -> Finding {
    let finding = |is: bool, reason, message: String| {
        Finding::new(ConditionType::CertificatesValid, is, reason, message)
    };
    let material = &scene.seen.material;
    if !scene.has_certificates() {
        return finding(
            false,
            "NotIssued",
            "the Secrets with the certificates and passwords are not all written yet".into(),
        );
    }
    if material.first_not_after <= scene.now {
        return finding(
            false,
            "Expired",
            format!("a certificate ended at {}", material.first_not_after),
        );
    }
    let server = &material.server_facts;
    let shows_another = |i: &&Instance| {
        i.cert_serial
            .as_ref()
            .is_some_and(|serial| *serial != server.serial)
    };
    let is_late = server.not_before + BACKDATED + LOADED < scene.now && !scene.is_hibernated();
    if let Some(instance) = scene.instances().find(shows_another).filter(|_| is_late) {
        let message = format!(
            "{} does not show the certificate in its Secret, which is {} minutes old or more: see the agent's log",
            instance.name,
            LOADED.as_mins()
        );
        return finding(false, "NotLoaded", message);
    }
    // No date of a leaf: the message would change with every renewal and say nothing more.
    finding(
        true,
        "Valid",
        "the certificates are there and are renewed at two thirds of their life".into(),
    )
}
