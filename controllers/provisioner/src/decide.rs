//! The policy: from a look to a plan. Total and deterministic.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{Resource, ResourceExt};
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::names;
use sampledb_shared::runtime::{Desired, Doomed, Note, Plan, plan};
use serde::Serialize;

use crate::assessment::Assessment;
use crate::build::{
    claim, config_map, job, pod_disruption_budget, role, secret, service_account, stateful_set,
};
use crate::credentials::Why;
use crate::initial::Initial;
use crate::observe::Observed;
use crate::quantity;
use crate::rules::{Extent, Kind};
use crate::settings::Settings;
use crate::views::StatefulSetView;
use crate::volumes::{self, Fate};

/// Secrets are not watched: this often, and a bit more by UID, everything is looked at.
const LOOK: u64 = 600;
/// When something waits only for what this very pass makes.
const SOON: Duration = Duration::from_millis(10);

/// What is to be done.
pub fn decide(db: &SampleDb, seen: &Observed, settings: &Settings) -> Plan {
    let assessment = Assessment::of(db, seen, settings);
    let mut draft = Draft {
        seen,
        uid: assessment.input.target.uid.clone(),
        plan: Plan::default(),
    };
    let extent = assessment.extent();
    // In the order in which the cluster waits for them: the pod for its account (without it, it is refused) and its
    // claim, its start for the rest.
    if extent > Extent::Nothing {
        draft.apply(&service_account::instance(&assessment.input.target));
        claims(&assessment, &mut draft);
        if extent == Extent::Everything {
            pods(&assessment, settings, &mut draft);
        }
        rights(&assessment, &mut draft);
        configuration(&assessment, &mut draft);
        credentials(&assessment, &mut draft);
        draft.apply(&pod_disruption_budget::budget(&assessment.input.target));
        if extent == Extent::Everything {
            initial_sql(&assessment, settings, &mut draft);
        }
    }
    draft.plan.requeue = requeue(&assessment);
    draft.plan
}

/// A plan in the making.
struct Draft<'a> {
    seen: &'a Observed,
    uid: String,
    plan: Plan,
}

impl Draft<'_> {
    fn apply<K>(&mut self, object: &K)
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let (kind, name) = (K::kind(&()).into_owned(), object.name_any());
        let seen = match kind.as_str() {
            "PersistentVolumeClaim" => self.seen.claims.get(&name).map(|c| c.found.seen.clone()),
            "Job" => self.seen.jobs.get(&name).map(|j| j.found.seen.clone()),
            _ => self.seen.children.get(&(kind, name)).map(|f| f.seen.clone()),
        };
        match Desired::new(object, seen) {
            Ok(desired) => self.plan.apply.push(desired),
            Err(error) => self.note(true, "Bug", "Build", error.to_string()),
        }
    }

    fn note(&mut self, warning: bool, reason: &'static str, action: &'static str, message: String) {
        self.plan.events.push(Note {
            warning,
            reason,
            action,
            message,
        });
    }

    /// The version of a Secret that was read and is ours.
    fn version(&self, name: &str) -> Option<&str> {
        let found = self.seen.children.get(&("Secret".to_owned(), name.to_owned()))?;
        found
            .is_for(&self.uid)
            .then_some(found.seen.resource_version.as_str())
    }
}

fn credentials(assessment: &Assessment<'_>, draft: &mut Draft<'_>) {
    let (target, material) = (&assessment.input.target, &draft.seen.material);
    let name = &target.name;
    for (name, type_, data) in [
        (names::owner_secret(name), secret::BASIC_AUTH, &material.owner),
        (names::ca_secret(name), secret::TLS, &material.authority),
        (names::server_secret(name), secret::TLS, &material.server),
        (names::agent_secret(name), secret::TLS, &material.agent),
        (
            names::replication_secret(name),
            secret::TLS,
            &material.replication,
        ),
    ] {
        let built = secret::secret(target, name.clone(), type_, data, draft.version(&name));
        draft.apply(&built);
    }
    if material.minted.is_empty() {
        return;
    }
    // A new database lacks everything, which is nothing to explain.
    let status = assessment.input.target.db.status.as_ref();
    let is_new = status.is_none_or(|s| s.provisioning.is_none());
    let minted: Vec<_> = material
        .minted
        .iter()
        .map(|m| match m.why {
            Why::Missing if is_new => m.secret.clone(),
            why => format!("{} ({})", m.secret, why.as_str()),
        })
        .collect();
    let message = format!("passwords and certificates were issued: {}", minted.join(", "));
    draft.note(false, "CredentialsIssued", "Issue", message);
}

fn configuration(assessment: &Assessment<'_>, draft: &mut Draft<'_>) {
    let target = &assessment.input.target;
    draft.apply(&config_map::config(target, &assessment.configuration));
    draft.apply(&config_map::trust(target, &draft.seen.material.trust));
}

/// The claims, growth included. This comes before any question of health: a full volume must be able to grow.
fn claims(assessment: &Assessment<'_>, draft: &mut Draft<'_>) {
    let input = &assessment.input;
    for wanted in volumes::wanted(&input.target) {
        let fate = input.fates.get(&wanted.name).copied();
        if !fate.is_some_and(Fate::is_applied) {
            continue;
        }
        let there = draft.seen.claims.get(&wanted.name);
        draft.apply(&claim::claim(&input.target, &wanted.name, wanted.volume, there));
        if fate == Some(Fate::Adopt) {
            draft.note(
                false,
                "VolumeAdopted",
                "Adopt",
                format!("takes over the claim {}", wanted.name),
            );
        }
        let size = &wanted.volume.size;
        if let Some(now) = there
            .and_then(|c| c.requested.as_ref())
            .filter(|now| !quantity::at_least(now, size))
        {
            let message = format!(
                "asks for {} instead of {} for the claim {}",
                size.0, now.0, wanted.name
            );
            draft.note(false, "VolumeGrows", "Grow", message);
        }
    }
}

fn rights(assessment: &Assessment<'_>, draft: &mut Draft<'_>) {
    let target = &assessment.input.target;
    let claims: Vec<String> = assessment.input.fates.keys().cloned().collect();
    draft.apply(&role::instance(target, &claims));
    draft.apply(&role::publisher(target));
    for (role, binding) in [
        (
            names::instance_account(&target.name),
            role::instance_binding(target),
        ),
        (
            names::publisher_role(&target.name),
            role::publisher_binding(target, &draft.seen.release_namespace),
        ),
    ] {
        if has_role(draft.seen, role) {
            draft.apply(&binding);
        }
    }
}

/// Without the verb `bind`, a binding to a role that is not there yet is refused: it comes a moment later.
fn has_role(seen: &Observed, name: String) -> bool {
    seen.children.contains_key(&("Role".to_owned(), name))
}

/// The StatefulSet. The templates of the claims in one that is there cannot change: after a growth it is made anew
/// without touching a pod, so that a claim that is ever made from them has the right size.
fn pods(assessment: &Assessment<'_>, settings: &Settings, draft: &mut Draft<'_>) {
    let input = &assessment.input;
    let Some(images) = &input.images else { return };
    let wanted = stateful_set::templates(&input.target);
    let found = draft
        .seen
        .children
        .get(&("StatefulSet".to_owned(), input.target.name.clone()))
        .cloned();
    let (Some(there), Some(found)) = (&draft.seen.stateful_set, found) else {
        draft.apply(&stateful_set::stateful_set(
            &input.target,
            settings,
            images,
            wanted,
        ));
        return;
    };
    if found.seen.deleting {
        return;
    }
    if is_outgrown(there, assessment, &wanted) {
        draft.plan.delete.push(Doomed {
            resource: kube::api::ApiResource::erase::<StatefulSet>(&()),
            name: input.target.name.clone(),
            seen: found.seen,
            orphan: true,
        });
        let message =
            "makes the StatefulSet anew with the larger volumes in its templates; the pods stay as they are";
        draft.note(false, "StatefulSetRenewed", "Renew", message.into());
        return;
    }
    draft.apply(&stateful_set::stateful_set(
        &input.target,
        settings,
        images,
        there.templates.clone(),
    ));
}

/// Whether the templates are of another size than wanted, and every claim has grown already.
fn is_outgrown(
    there: &StatefulSetView,
    assessment: &Assessment<'_>,
    wanted: &[k8s_openapi::api::core::v1::PersistentVolumeClaim],
) -> bool {
    let (old, new) = (
        StatefulSetView::sizes(&there.templates),
        StatefulSetView::sizes(wanted),
    );
    let same = |a: &Option<_>, b: &Option<_>| match (a, b) {
        (Some(a), Some(b)) => quantity::at_least(a, b) && quantity::at_least(b, a),
        _ => a == b,
    };
    let differs = new
        .iter()
        .any(|(name, size)| old.get(name).is_some_and(|before| !same(before, size)));
    differs
        && volumes::wanted(&assessment.input.target).iter().all(|wanted| {
            let claim = assessment
                .input
                .seen
                .claims
                .get(&wanted.name)
                .and_then(|c| c.requested.as_ref());
            claim.is_some_and(|requested| quantity::at_least(requested, &wanted.volume.size))
        })
}

/// The Job. One that is there is applied again only as it was built: a Job cannot be changed.
fn initial_sql(assessment: &Assessment<'_>, settings: &Settings, draft: &mut Draft<'_>) {
    let (target, Some(images)) = (&assessment.input.target, &assessment.input.images) else {
        return;
    };
    let content = match (&assessment.initial, &draft.seen.initial_sql) {
        (Initial::Start(content) | Initial::Failed(_, _, content), _) => content,
        (Initial::Running(name, _), Some(Ok(content))) if *name == job::name(target, content) => content,
        _ => return,
    };
    let built = job::init(target, settings, images, content);
    let there = draft.seen.jobs.get(&built.name_any());
    let hash = built
        .annotations()
        .get(sampledb_shared::domain::labels::CONFIG_HASH);
    if there.is_none_or(|job| job.built.as_ref() == hash && !job.found.seen.deleting) {
        draft.apply(&built);
    }
}

/// When to look again: soon while something passes that wakes nobody.
fn requeue(assessment: &Assessment<'_>) -> Option<Duration> {
    let (input, seen) = (&assessment.input, assessment.input.seen);
    if assessment.obstacle(Kind::Deleting).is_some() {
        return None;
    }
    let missing_pods = seen
        .stateful_set
        .as_ref()
        .is_some_and(|s| (seen.pods.len() as i32) < s.replicas);
    let name = &input.target.name;
    let roles = [names::instance_account(name), names::publisher_role(name)];
    if assessment.extent() > Extent::Nothing && !roles.into_iter().all(|role| has_role(seen, role)) {
        return Some(SOON);
    }
    let soon = [
        assessment.obstacle(Kind::Passing).map(|_| 2),
        missing_pods.then_some(5),
        (!seen.publisher_seen).then_some(15),
        // The ConfigMaps of the initial SQL are the user's: their changes wake nobody.
        seen.initial_sql.is_some().then_some(30),
    ];
    let jitter = plan::hash(&serde_json::json!(input.target.uid))
        .bytes()
        .take(8)
        .fold(0, |sum, b| sum * 31 + u64::from(b));
    let seconds = soon.into_iter().flatten().min().unwrap_or(LOOK + jitter % 60);
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
