//! The policy: what is to be there, by what was seen.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use kube::api::ApiResource;
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::names;
use sampledb_shared::runtime::plan::hash;
use sampledb_shared::runtime::{Desired, Doomed, Error, Note, Plan};
use serde::Serialize;
use serde_json::json;

use crate::build::{config_map, secret, service};
use crate::connection::Address;
use crate::observe::{Child, Observed, Owner};
use crate::settings::Settings;

/// A Secret cannot be watched: it is looked at again after this time and up to a fifth more.
const RECHECK: Duration = Duration::from_mins(10);
/// What is awaited of a SampleDB this young is about to come.
const YOUNG: i64 = 60;

/// Everything that is to be done. Total and deterministic.
///
/// A child that is another's is never in it; [`crate::report`] says so.
pub fn decide(db: &SampleDb, seen: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if is_left_alone(db) {
        return plan;
    }
    let address = Address::of(db, &settings.cluster_domain);
    let rw = seen.rw.as_ref().map(|s| &s.child);
    let mut wanted = vec![
        desired(&service::rw(db), rw),
        desired(&service::pods(db), seen.pods.as_ref()),
    ];
    if db.spec.services.r.enabled {
        wanted.push(desired(&service::r(db), seen.r.as_ref()));
    } else if let Some(r) = seen
        .r
        .as_ref()
        .filter(|r| r.owner == Owner::Us && !r.seen.deleting)
    {
        plan.delete.push(Doomed {
            resource: ApiResource::erase::<Service>(&()),
            name: names::r(&address.name),
            seen: r.seen.clone(),
            orphan: false,
        });
    }
    for (name, slice) in seen.strays.iter().filter(|(_, slice)| !slice.deleting) {
        plan.delete.push(Doomed {
            resource: ApiResource::erase::<EndpointSlice>(&()),
            name: name.clone(),
            seen: slice.clone(),
            orphan: false,
        });
        plan.events.push(Note {
            warning: true,
            reason: "StraySlice",
            action: "Remove",
            message: format!(
                "the EndpointSlice {name} led clients of the Service {} elsewhere; it is removed",
                names::rw(&address.name)
            ),
        });
    }
    if let Some(Ok(credentials)) = &seen.credentials {
        wanted.push(desired(
            &secret::app(db, &address, credentials),
            seen.app.as_ref(),
        ));
        let connection = config_map::connection(db, &address, &credentials.ca);
        wanted.push(desired(&connection, seen.connection.as_ref()));
    }
    // A built object that cannot be written as JSON would be missing from what was applied, and reported so.
    plan.apply = wanted.into_iter().flatten().filter_map(Result::ok).collect();
    plan.requeue = Some(if is_waiting(db, seen) {
        pause(db, now)
    } else {
        RECHECK + jitter(db)
    });
    plan
}

/// Whether nothing is changed: the SampleDB is paused, or goes with all that belongs to it.
pub fn is_left_alone(db: &SampleDb) -> bool {
    db.spec.paused || db.metadata.deletion_timestamp.is_some()
}

/// The children that are in the way: another's, under a name of ours.
pub fn in_the_way<'a>(db: &SampleDb, seen: &'a Observed) -> Vec<(&'static str, String, &'a Child)> {
    let name = db.metadata.name.clone().unwrap_or_default();
    let r = seen.r.as_ref().filter(|_| db.spec.services.r.enabled);
    [
        ("Service", names::rw(&name), seen.rw.as_ref().map(|s| &s.child)),
        ("Service", names::pods(&name), seen.pods.as_ref()),
        ("Service", names::r(&name), r),
        ("ConfigMap", names::connection(&name), seen.connection.as_ref()),
        ("Secret", names::app_secret(&name), seen.app.as_ref()),
    ]
    .into_iter()
    .filter_map(|(kind, name, child)| Some((kind, name, child.filter(|c| c.owner != Owner::Us)?)))
    .collect()
}

/// `None` when the name is another's.
fn desired<K>(object: &K, child: Option<&Child>) -> Option<Result<Desired, Error>>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    match child {
        Some(child) if child.owner != Owner::Us => None,
        child => Some(Desired::new(object, child.map(|c| c.seen.clone()))),
    }
}

/// Whether something is to come by itself: what the provisioner makes, or a name that gets free.
fn is_waiting(db: &SampleDb, seen: &Observed) -> bool {
    !matches!(seen.credentials, Some(Ok(_))) || !in_the_way(db, seen).is_empty()
}

/// When to look again at what is awaited. The provisioner's section wakes us as well; this is for rights that take a
/// moment to be in force, and for names that get free.
fn pause(db: &SampleDb, now: Timestamp) -> Duration {
    let created = db.metadata.creation_timestamp.as_ref().map(|t| t.0.as_second());
    let age = created.map_or(0, |created| now.as_second() - created);
    if age < YOUNG {
        Duration::from_millis(500)
    } else {
        Duration::from_secs(10)
    }
}

/// A different one for each SampleDB, the same each time.
fn jitter(db: &SampleDb) -> Duration {
    let digits = hash(&json!(db.metadata.uid));
    let share = u64::from_str_radix(digits.get(..4).unwrap_or_default(), 16).unwrap_or_default();
    Duration::from_millis(RECHECK.as_millis() as u64 / 5 * share / 0xffff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::testing::{self, UID};

    fn names_of(plan: &Plan) -> Vec<String> {
        plan.apply
            .iter()
            .map(|d| format!("{} {}", d.resource.kind, d.name()))
            .collect()
    }

    fn plan(db: &SampleDb, seen: &Observed) -> Plan {
        decide(db, seen, &testing::settings(), testing::now())
    }

    #[test]
    fn what_leads_clients_elsewhere_is_removed_and_said() {
        let (db, mut seen) = (testing::db(), testing::complete(UID));
        let slice = seen.rw.as_ref().map(|s| s.child.seen.clone()).unwrap();
        seen.strays = vec![("orders-rw-x7k2p".into(), slice)];
        let plan = decide(&db, &seen, &testing::settings(), testing::now());
        let doomed: Vec<_> = plan
            .delete
            .iter()
            .map(|d| (d.resource.kind.as_str(), d.name.as_str()))
            .collect();
        assert_eq!(doomed, [("EndpointSlice", "orders-rw-x7k2p")]);
        assert!(plan.events.iter().any(|e| e.reason == "StraySlice" && e.warning));
    }

    #[test]
    fn services_are_there_before_the_credentials_so_that_the_pods_can_meet() {
        let waiting = Observed {
            credentials: Some(Err("the Secret".into())),
            ..Observed::default()
        };
        let plan = plan(&testing::db(), &waiting);
        assert_eq!(names_of(&plan), ["Service orders-rw", "Service orders-pods"]);
        assert_eq!(plan.requeue, Some(Duration::from_millis(500)));
    }

    #[test]
    fn everything_is_published_once_the_credentials_are_there() {
        let plan = plan(&testing::db(), &testing::fresh());
        let all = [
            "Service orders-rw",
            "Service orders-pods",
            "Secret orders-app",
            "ConfigMap orders-connection",
        ];
        assert_eq!(names_of(&plan), all);
        assert!(plan.requeue.unwrap() >= RECHECK);
    }

    #[test]
    fn a_service_that_is_no_longer_wanted_goes_by_uid_and_a_stranger_s_stays() {
        let mut seen = testing::complete(UID);
        seen.r = Some(testing::child(UID));
        let doomed = plan(&testing::db(), &seen).delete;
        assert_eq!(doomed.len(), 1);
        assert_eq!(
            (doomed[0].name.as_str(), &doomed[0].seen),
            ("orders-r", &testing::child(UID).seen)
        );

        seen.r = Some(testing::child("another"));
        assert!(plan(&testing::db(), &seen).delete.is_empty());
        seen.r = Some(testing::child(UID));
        let enabled = plan(&testing::db_with("  services: {r: {enabled: true}}"), &seen);
        assert!(enabled.delete.is_empty() && names_of(&enabled).contains(&"Service orders-r".to_owned()));
    }

    #[test]
    fn an_object_of_another_is_never_overwritten() {
        let seen = testing::complete("another");
        let plan = plan(&testing::db(), &seen);
        assert_eq!(names_of(&plan), Vec::<String>::new());
        assert!(plan.delete.is_empty());
        assert_eq!(in_the_way(&testing::db(), &seen).len(), 4);
    }

    #[rstest]
    #[case::paused(testing::db_with("  paused: true"))]
    #[case::being_deleted({
        let mut db = testing::db();
        db.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(testing::now()));
        db
    })]
    fn a_database_that_is_left_alone_is_not_touched(#[case] db: SampleDb) {
        let plan = plan(&db, &testing::fresh());
        assert!(plan.apply.is_empty() && plan.delete.is_empty() && plan.requeue.is_none());
    }

    #[test]
    fn an_old_database_that_waits_does_not_hammer_the_api_server() {
        let mut db = testing::db();
        db.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            "2025-01-01T00:00:00Z".parse().unwrap(),
        ));
        assert_eq!(
            plan(&db, &Observed::default()).requeue,
            Some(Duration::from_secs(10))
        );
    }

    proptest! {
        #[test]
        fn the_same_look_gives_the_same_plan_and_never_touches_what_is_another_s(
            made_for in prop::collection::vec(prop::option::of(prop::bool::ANY), 5),
            enabled in prop::bool::ANY,
            known in prop::bool::ANY,
        ) {
            let db = testing::db_with(if enabled { "  services: {r: {enabled: true}}" } else { "" });
            let child = |n: usize| made_for[n].map(|ours| testing::child(if ours { UID } else { "another" }));
            let seen = Observed {
                rw: child(0).map(|child| crate::observe::ServiceView { child, external: Vec::new() }),
                pods: child(1),
                r: child(2),
                connection: child(3),
                app: child(4),
                strays: Vec::new(),
                credentials: known.then(|| Ok(testing::credentials())),
            };
            let (one, two) = (plan(&db, &seen), plan(&db, &seen));
            prop_assert_eq!(format!("{one:?}"), format!("{two:?}"));
            prop_assert!(one.apply.iter().all(|d| d.seen.as_ref().is_none_or(|s| s.is_ours(&db))));
            prop_assert!(one.delete.iter().all(|d| d.seen.is_ours(&db)));
            let taken: Vec<_> = in_the_way(&db, &seen).into_iter().map(|(_, name, _)| name).collect();
            prop_assert!(one.apply.iter().all(|d| !taken.contains(&d.name().to_owned())));
        }
    }
}
