//! The condition `Published`: whether clients find everything they need.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::conditions::{ConditionType, published as reasons};
use sampledb_shared::api::services::ServiceType;
use sampledb_shared::domain::conditions::{self, Finding, Status};
use sampledb_shared::domain::names;
use sampledb_shared::runtime::{Applied, ErrorClass, Refusal};

use crate::decide::in_the_way;
use crate::observe::{Observed, Owner};

/// Whether everything is there: the first rule that has something to say, says it.
pub fn published(db: &SampleDb, seen: &Observed, applied: &Applied, before: &[Condition]) -> Finding {
    let no = |reason, message: String| Finding::new(ConditionType::Published, false, reason, message);
    let taken = in_the_way(db, seen);
    if let Some((kind, name, _)) = taken.iter().find(|(_, _, child)| child.owner == Owner::Stranger) {
        let message = format!(
            "the {kind} {name} was not made for this SampleDB and is left as it is: delete or rename it, or give the SampleDB another name"
        );
        return no(reasons::NAME_COLLISION, message);
    }
    if let Some((kind, name, _)) = taken.first() {
        let message = format!("the {kind} {name} of a former SampleDB of this name is still being removed");
        return no(reasons::LEFTOVER, message);
    }
    if let Some(refusal) = applied.refused.first() {
        return refused(refusal, before);
    }
    let waits = match &seen.credentials {
        Some(Ok(_)) => None,
        Some(Err(what)) => Some(what.as_str()),
        None => Some("the credentials"),
    };
    if let Some(what) = waits {
        return no(reasons::WAITING, format!("waiting for {what}"));
    }
    if let Some(missing) = missing(db, applied) {
        return no(reasons::PENDING, format!("{missing} is not there yet"));
    }
    let name = db.metadata.name.clone().unwrap_or_default();
    let balancer = db.spec.services.rw.type_ == ServiceType::LoadBalancer;
    let message = if balancer && seen.rw.as_ref().is_none_or(|rw| rw.external.is_empty()) {
        format!(
            "Services, Secret and ConfigMap are there; the load balancer of {} has no address yet",
            names::rw(&name)
        )
    } else {
        format!("clients connect with the Secret {}", names::app_secret(&name))
    };
    Finding::new(ConditionType::Published, true, reasons::PUBLISHED, message)
}

fn refused(refusal: &Refusal, before: &[Condition]) -> Finding {
    let Refusal {
        kind,
        name,
        class,
        message,
    } = refusal;
    let lasting = matches!(
        class,
        ErrorClass::Invalid | ErrorClass::Forbidden | ErrorClass::Bug
    );
    if lasting {
        let message = format!("the {kind} {name} was refused: {message}");
        return Finding::new(ConditionType::Published, false, reasons::REFUSED, message);
    }
    // What was there before is not gone because one write did not succeed.
    let kept = conditions::find(before, ConditionType::Published);
    if let Some(kept) = kept.filter(|c| c.status == Status::True.as_str()) {
        return Finding::new(
            ConditionType::Published,
            true,
            reasons::PUBLISHED,
            kept.message.clone(),
        );
    }
    let message = format!("the {kind} {name} could not be written yet: {message}");
    Finding::new(ConditionType::Published, false, reasons::PENDING, message)
}

/// The first child that should be there and is not.
fn missing(db: &SampleDb, applied: &Applied) -> Option<String> {
    let name = db.metadata.name.clone().unwrap_or_default();
    let mut wanted = vec![
        ("Service", names::rw(&name)),
        ("Service", names::pods(&name)),
        ("Secret", names::app_secret(&name)),
        ("ConfigMap", names::connection(&name)),
    ];
    if db.spec.services.r.enabled {
        wanted.push(("Service", names::r(&name)));
    }
    let there = |(kind, name): &(&str, String)| match *kind {
        "Secret" => is_there::<Secret>(applied, name),
        "ConfigMap" => is_there::<ConfigMap>(applied, name),
        _ => is_there::<Service>(applied, name),
    };
    wanted
        .iter()
        .find(|child| !there(child))
        .map(|(kind, name)| format!("the {kind} {name}"))
}

/// Whether this child was applied.
pub fn is_there<K: Resource<DynamicType = ()>>(applied: &Applied, name: &str) -> bool {
    applied
        .objects
        .contains_key(&(K::kind(&()).into_owned(), name.to_owned()))
}
