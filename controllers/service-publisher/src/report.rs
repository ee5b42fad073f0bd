//! What is said: `endpoints`, `binding`, and the condition `Published`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::conditions::{ConditionType, published as reasons};
use sampledb_shared::api::endpoints::{Binding, Endpoint, Endpoints};
use sampledb_shared::api::services::ServiceType;
use sampledb_shared::domain::conditions::{self, Finding};
use sampledb_shared::domain::names::{self, POSTGRES_PORT};
use sampledb_shared::runtime::{Applied, Note, Report};
use serde_json::{Map, json};

use crate::connection::Address;
use crate::decide::is_left_alone;
use crate::observe::Observed;
use crate::published::{is_there, published};
use crate::settings::Settings;

/// The whole section of this controller.
pub fn report(
    db: &SampleDb,
    seen: &Observed,
    applied: &Applied,
    settings: &Settings,
    now: Timestamp,
) -> Report {
    let before = Before::of(db);
    if is_left_alone(db) {
        return before.again(db, now);
    }
    let address = Address::of(db, &settings.cluster_domain);
    let finding = published(db, seen, applied, before.conditions);
    let mut status = Map::new();
    if is_there::<Service>(applied, &names::rw(&address.name)) {
        status.insert("endpoints".into(), json!(endpoints(db, seen, applied, &address)));
    } else if let Some(endpoints) = before
        .endpoints
        .filter(|e| Some(&e.uid) == db.metadata.uid.as_ref())
    {
        status.insert("endpoints".into(), json!(endpoints));
    }
    let secret = names::app_secret(&address.name);
    if is_there::<Secret>(applied, &secret) {
        status.insert("binding".into(), json!(Binding { name: secret }));
    } else if let Some(binding) = before.binding {
        status.insert("binding".into(), json!(binding));
    }
    let generation = db.metadata.generation.unwrap_or_default();
    status.insert(
        "conditions".into(),
        json!([finding.condition(before.conditions, generation, now)]),
    );
    Report {
        status,
        events: event(&finding, before.conditions).into_iter().collect(),
    }
}

/// What was said last time.
struct Before<'a> {
    endpoints: Option<&'a Endpoints>,
    binding: Option<&'a Binding>,
    conditions: &'a [Condition],
}

impl<'a> Before<'a> {
    fn of(db: &'a SampleDb) -> Self {
        let status = db.status.as_ref();
        Self {
            endpoints: status.and_then(|s| s.endpoints.as_ref()),
            binding: status.and_then(|s| s.binding.as_ref()),
            conditions: status.map_or(&[], |s| s.conditions.as_slice()),
        }
    }

    /// The same again: of what is left alone, nothing new is known.
    fn again(&self, db: &SampleDb, now: Timestamp) -> Report {
        let paused = || {
            let message =
                "spec.paused is true: nothing was published yet, and nothing is until it is false again";
            let finding = Finding::new(ConditionType::Published, false, reasons::PAUSED, message);
            finding.condition(self.conditions, db.metadata.generation.unwrap_or_default(), now)
        };
        let condition = conditions::find(self.conditions, ConditionType::Published)
            .cloned()
            .unwrap_or_else(paused);
        let mut status = Map::from_iter([("conditions".to_owned(), json!([condition]))]);
        if let Some(endpoints) = self.endpoints {
            status.insert("endpoints".into(), json!(endpoints));
        }
        if let Some(binding) = self.binding {
            status.insert("binding".into(), json!(binding));
        }
        Report {
            status,
            events: Vec::new(),
        }
    }
}

fn endpoints(db: &SampleDb, seen: &Observed, applied: &Applied, address: &Address) -> Endpoints {
    let endpoint = |host: &str, external| Endpoint {
        host: host.to_owned(),
        port: POSTGRES_PORT,
        external,
    };
    let r = address
        .r_host
        .as_ref()
        .filter(|_| is_there::<Service>(applied, &names::r(&address.name)));
    Endpoints {
        uid: db.metadata.uid.clone().unwrap_or_default(),
        rw: endpoint(&address.host, external(db, seen)),
        r: r.map(|host| endpoint(host, Vec::new())),
        secret_name: names::app_secret(&address.name),
        config_map_name: names::connection(&address.name),
    }
}

/// The names the user gave, then what the load balancer says; each once.
fn external(db: &SampleDb, seen: &Observed) -> Vec<String> {
    let rw = &db.spec.services.rw;
    let balancer = seen
        .rw
        .iter()
        .filter(|_| rw.type_ == ServiceType::LoadBalancer)
        .flat_map(|s| &s.external);
    let mut found: Vec<String> = Vec::new();
    for name in rw.external_names.iter().chain(balancer) {
        if !found.contains(name) {
            found.push(name.clone());
        }
    }
    found.truncate(32);
    found
}

/// An event where the answer changed.
fn event(finding: &Finding, before: &[Condition]) -> Option<Note> {
    let was = conditions::find(before, ConditionType::Published);
    if was.is_some_and(|c| c.status == finding.status.as_str() && c.reason == finding.reason) {
        return None;
    }
    let warning = match finding.reason {
        reasons::PUBLISHED => false,
        reasons::NAME_COLLISION | reasons::REFUSED => true,
        _ => return None,
    };
    Some(Note {
        warning,
        reason: finding.reason,
        action: "Publish",
        message: finding.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::shows;
    use crate::decide::decide;
    use crate::observe::{Owner, ServiceView};
    use crate::testing::{self, UID};
    use sampledb_shared::runtime::{ErrorClass, Refusal};

    /// One pass in which the API server does all that was planned, but for what `refused` says.
    fn pass(db: &SampleDb, seen: &Observed, refused: Vec<Refusal>) -> Report {
        let plan = decide(db, seen, &testing::settings(), testing::now());
        let kept = plan
            .apply
            .iter()
            .filter(|d| !refused.iter().any(|r| r.name == d.name()));
        let objects = kept
            .map(|d| ((d.resource.kind.clone(), d.name().to_owned()), d.object.clone()))
            .collect();
        report(
            db,
            seen,
            &Applied { objects, refused },
            &testing::settings(),
            testing::now(),
        )
    }

    fn condition(report: &Report) -> (String, String) {
        let condition = &report.status["conditions"][0];
        (
            condition["status"].as_str().unwrap().into(),
            condition["reason"].as_str().unwrap().into(),
        )
    }

    fn refusal(name: &str, class: ErrorClass) -> Refusal {
        Refusal {
            kind: "Secret".into(),
            name: name.into(),
            class,
            message: "exceeded quota".into(),
        }
    }

    /// The SampleDB after this report was written.
    fn after(mut db: SampleDb, report: &Report) -> SampleDb {
        let mut status = serde_json::to_value(db.status.clone().unwrap_or_default()).unwrap();
        for (key, value) in &report.status {
            status[key] = value.clone();
        }
        db.status = Some(serde_json::from_value(status).unwrap());
        db
    }

    #[test]
    fn a_published_database_says_where_it_is() {
        let db = testing::db_with("  services: {r: {enabled: true}}");
        let report = pass(&db, &testing::complete(UID), Vec::new());
        insta::assert_yaml_snapshot!(report.status);
        assert_eq!(report.events.len(), 1);
    }

    #[test]
    fn the_second_pass_says_the_same_and_tells_nothing() {
        let (db, seen) = (testing::db(), testing::complete(UID));
        let first = pass(&db, &seen, Vec::new());
        let second = pass(&after(db, &first), &seen, Vec::new());
        assert_eq!((&second.status, second.events.len()), (&first.status, 0));
    }

    #[test]
    fn before_the_credentials_the_host_is_known_and_the_secret_is_not_promised() {
        let seen = Observed {
            credentials: Some(Err("the Secret orders-owner".into())),
            ..Observed::default()
        };
        let report = pass(&testing::db(), &seen, Vec::new());
        assert_eq!(
            condition(&report),
            ("False".into(), "WaitingForProvisioner".into())
        );
        assert_eq!(
            report.status["conditions"][0]["message"],
            "waiting for the Secret orders-owner"
        );
        assert!(report.status.contains_key("endpoints") && !report.status.contains_key("binding"));
        assert!(report.events.is_empty(), "waiting is no event");
    }

    #[test]
    fn an_object_of_another_is_named_with_the_way_out() {
        let mut seen = testing::complete(UID);
        seen.app = Some(testing::child("another"));
        let report = pass(&testing::db(), &seen, Vec::new());
        assert_eq!(condition(&report), ("False".into(), "NameCollision".into()));
        assert!(
            report.status["conditions"][0]["message"]
                .as_str()
                .unwrap()
                .contains("Secret orders-app")
        );
        assert!(report.events[0].warning);
    }

    #[test]
    fn what_a_former_sampledb_left_is_waited_for_and_alarms_nobody() {
        let mut seen = testing::complete(UID);
        seen.rw = Some(ServiceView {
            child: testing::child("gone"),
            external: Vec::new(),
        });
        seen.rw.as_mut().unwrap().child.owner = Owner::Gone;
        let report = pass(&testing::db(), &seen, Vec::new());
        assert_eq!(condition(&report), ("False".into(), "WaitingForRemoval".into()));
        assert!(report.events.is_empty());
    }

    #[test]
    fn a_refusal_is_said_in_the_api_server_s_words() {
        let refused = vec![refusal("orders-app", ErrorClass::Forbidden)];
        let report = pass(&testing::db(), &testing::fresh(), refused);
        assert_eq!(condition(&report), ("False".into(), "Refused".into()));
        assert_eq!(
            report.status["conditions"][0]["message"],
            "the Secret orders-app was refused: exceeded quota"
        );
    }

    #[test]
    fn one_write_that_did_not_succeed_does_not_take_a_database_out_of_service() {
        let (db, seen) = (testing::db(), testing::complete(UID));
        let db = after(db.clone(), &pass(&db, &seen, Vec::new()));
        let report = pass(&db, &seen, vec![refusal("orders-app", ErrorClass::Transient)]);
        assert_eq!(condition(&report), ("True".into(), "Published".into()));
        assert_eq!(report.status["binding"]["name"], "orders-app");
    }

    #[test]
    fn a_paused_database_stays_published() {
        let published = pass(&testing::db(), &testing::complete(UID), Vec::new());
        let db = after(testing::db_with("  paused: true"), &published);
        let report = pass(&db, &Observed::default(), Vec::new());
        assert_eq!(report.status, published.status);
        let never = pass(
            &testing::db_with("  paused: true"),
            &Observed::default(),
            Vec::new(),
        );
        assert_eq!(condition(&never), ("False".into(), "Paused".into()));
    }

    #[test]
    fn endpoints_of_a_former_sampledb_are_not_shown_as_ours() {
        let published = pass(&testing::db(), &testing::complete(UID), Vec::new());
        let mut db = after(testing::db(), &published);
        db.metadata.uid = Some("new".into());
        let report = pass(&db, &testing::complete("another"), Vec::new());
        assert!(!report.status.contains_key("endpoints"));
    }

    #[test]
    fn the_load_balancer_s_address_is_shown_once_it_is_known() {
        let db = testing::db_with("  services: {rw: {type: LoadBalancer, externalNames: [db.example.org]}}");
        let mut seen = testing::complete(UID);
        let waiting = pass(&db, &seen, Vec::new());
        assert_eq!(
            condition(&waiting).0,
            "True",
            "inside the cluster it is published"
        );
        assert!(
            waiting.status["conditions"][0]["message"]
                .as_str()
                .unwrap()
                .contains("no address yet")
        );
        let external = vec!["192.0.2.7".to_owned(), "db.example.org".to_owned()];
        seen.rw = Some(ServiceView {
            child: testing::child(UID),
            external,
        });
        let ready = pass(&db, &seen, Vec::new());
        assert_eq!(
            ready.status["endpoints"]["rw"]["external"],
            json!(["db.example.org", "192.0.2.7"])
        );
    }

    #[test]
    fn nothing_but_the_secret_shows_the_password() {
        let (db, mut seen) = (testing::db(), testing::fresh());
        let plan = decide(&db, &seen, &testing::settings(), testing::now());
        for desired in plan.apply.iter().filter(|d| d.resource.kind != "Secret") {
            assert!(
                !shows(&desired.object.to_string(), testing::PASSWORD),
                "{}",
                desired.name()
            );
        }
        seen.app = Some(testing::child("another"));
        for refused in [vec![], vec![refusal("orders-app", ErrorClass::Invalid)]] {
            let report = pass(&db, &seen, refused);
            assert!(!shows(&format!("{report:?}"), testing::PASSWORD));
        }
    }
}
