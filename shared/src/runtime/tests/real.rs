//! What the runtime relies on of a real API server. These need one:
//! `KUBECONFIG=… cargo test -p sampledb-shared --lib real -- --ignored`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::domain::labels;
use crate::runtime::apply::{self, Target};
use crate::runtime::entropy;
use crate::runtime::freshness::Freshness;
use crate::runtime::memory::Memory;
use crate::runtime::plan::{Desired, Doomed, ErrorClass, Seen};
use crate::runtime::reader::Reader;
use crate::telemetry::metrics::Metrics;

const MANAGER: &str = "sampledb-test";

struct Place {
    client: Client,
    namespace: String,
    maps: Api<ConfigMap>,
    metrics: Arc<Metrics>,
}

impl Place {
    async fn make() -> Self {
        // An error means that a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = kube::Config::infer().await.unwrap();
        // As in the runtime's own stack.
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let namespace = format!("runtime-{}", entropy::short_id());
        let meta = ObjectMeta {
            name: Some(namespace.clone()),
            ..ObjectMeta::default()
        };
        let object = Namespace {
            metadata: meta,
            ..Namespace::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        let maps = Api::namespaced(client.clone(), &namespace);
        Self {
            client,
            namespace,
            maps,
            metrics: Arc::new(Metrics::new().unwrap()),
        }
    }

    async fn end(self) {
        let all: Api<Namespace> = Api::all(self.client);
        all.delete(&self.namespace, &DeleteParams::default())
            .await
            .unwrap();
    }

    fn target(&self, uid: &str) -> Target {
        Target {
            client: self.client.clone(),
            freshness: Arc::default(),
            namespace: self.namespace.clone(),
            manager: MANAGER,
            uid: uid.to_owned(),
        }
    }

    async fn seen(&self) -> Option<Seen> {
        self.maps.get_opt("thing").await.unwrap().as_ref().map(Seen::of)
    }
}

fn stranger() -> PostParams {
    PostParams {
        field_manager: Some("somebody".into()),
        ..PostParams::default()
    }
}

fn wanted(value: &str, seen: Option<Seen>) -> Vec<Desired> {
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("thing".into()),
            annotations: Some([(labels::UID.to_owned(), "db-uid".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("ours".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    };
    vec![Desired::new(&map, seen).unwrap()]
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_child_is_made_kept_changed_and_removed_on_a_real_api_server() {
    let place = Place::make().await;
    let target = place.target("db-uid");
    let mut memory = Memory::default().of("db-uid");

    let made = apply::apply(&target, wanted("1", None), &mut memory, &place.metrics).await;
    assert_eq!(made.refused, []);
    let first = place.seen().await.unwrap();
    assert_eq!(first.made_for.as_deref(), Some("db-uid"));

    let kept = apply::apply(
        &target,
        wanted("1", Some(first.clone())),
        &mut memory,
        &place.metrics,
    )
    .await;
    assert_eq!(kept.objects.len(), 1);
    assert_eq!(
        place
            .metrics
            .applies
            .with_label_values(&["ConfigMap", "unchanged"])
            .get(),
        1
    );

    let mut empty = Memory::default().of("db-uid");
    apply::apply(
        &target,
        wanted("1", Some(first.clone())),
        &mut empty,
        &place.metrics,
    )
    .await;
    assert_eq!(
        place.seen().await.unwrap(),
        first,
        "an apply of the same is no write"
    );

    let edit = Patch::Merge(json!({"data": {"ours": "edited", "theirs": "kept"}}));
    place
        .maps
        .patch("thing", &PatchParams::default(), &edit)
        .await
        .unwrap();
    let edited = place.seen().await;
    let back = apply::apply(&target, wanted("1", edited), &mut memory, &place.metrics).await;
    assert_eq!(back.refused, []);
    assert_eq!(place.maps.get("thing").await.unwrap().data.unwrap()["ours"], "1");

    let stale = Doomed {
        resource: wanted("1", None)[0].resource.clone(),
        name: "thing".into(),
        seen: first,
        orphan: false,
    };
    let refused = apply::delete(&target, &[stale], &place.metrics).await;
    assert_eq!(refused[0].class, ErrorClass::Conflict, "{refused:?}");
    let now = place.seen().await.unwrap();
    let doomed = Doomed {
        resource: wanted("1", None)[0].resource.clone(),
        name: "thing".into(),
        seen: now,
        orphan: false,
    };
    assert_eq!(
        apply::delete(&target, std::slice::from_ref(&doomed), &place.metrics).await,
        []
    );
    assert_eq!(
        apply::delete(&target, &[doomed], &place.metrics).await,
        [],
        "gone already"
    );
    place.end().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn another_object_of_the_same_name_is_never_taken_for_the_one_that_was_seen() {
    let place = Place::make().await;
    let target = place.target("db-uid");
    let mut memory = Memory::default().of("db-uid");
    apply::apply(&target, wanted("1", None), &mut memory, &place.metrics).await;
    let seen = place.seen().await;
    place
        .maps
        .delete("thing", &DeleteParams::default())
        .await
        .unwrap();

    let gone = apply::apply(&target, wanted("2", seen.clone()), &mut memory, &place.metrics).await;
    assert_eq!(gone.refused[0].class, ErrorClass::Conflict, "{:?}", gone.refused);
    assert!(
        place.seen().await.is_none(),
        "an apply onto what is gone must not make it"
    );

    let theirs: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "thing"}, "data": {"theirs": "1"}})).unwrap();
    place.maps.create(&stranger(), &theirs).await.unwrap();
    let other = apply::apply(&target, wanted("2", seen), &mut memory, &place.metrics).await;
    assert_eq!(
        other.refused[0].class,
        ErrorClass::Conflict,
        "{:?}",
        other.refused
    );
    place.end().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_stranger_s_object_is_refused_and_given_back_as_it_was() {
    let place = Place::make().await;
    let target = place.target("db-uid");
    let mut memory = Memory::default().of("db-uid");
    let theirs: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "thing"}, "data": {"theirs": "1"}})).unwrap();
    place.maps.create(&stranger(), &theirs).await.unwrap();

    let refused = apply::apply(&target, wanted("1", None), &mut memory, &place.metrics).await;
    assert_eq!(
        refused.refused[0].class,
        ErrorClass::Conflict,
        "{:?}",
        refused.refused
    );
    let after = place.maps.get("thing").await.unwrap();
    assert_eq!(serde_json::to_value(&after.data).unwrap(), json!({"theirs": "1"}));
    assert!(after.annotations().is_empty(), "{:?}", after.annotations());
    let managers: Vec<_> = after
        .managed_fields()
        .iter()
        .filter_map(|f| f.manager.clone())
        .collect();
    assert!(!managers.contains(&MANAGER.to_owned()), "{managers:?}");

    let conflicting: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "thing"}, "data": {"ours": "theirs"}})).unwrap();
    place
        .maps
        .replace("thing", &stranger(), &conflicting)
        .await
        .unwrap();
    let refused = apply::apply(&target, wanted("1", None), &mut memory, &place.metrics).await;
    assert_eq!(
        refused.refused[0].class,
        ErrorClass::Conflict,
        "{:?}",
        refused.refused
    );
    assert_eq!(
        place.maps.get("thing").await.unwrap().data.unwrap()["ours"],
        "theirs"
    );
    place.end().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn the_metadata_of_labelled_children_alone_is_watched() {
    use std::sync::Mutex;

    use crate::api::SampleDb;
    use crate::runtime::crds::Missing;
    use crate::runtime::queue::Cause;
    use crate::runtime::trigger::Key;
    use crate::runtime::watches::{self, Health, Listener};

    #[derive(Default)]
    struct Heard {
        woken: Mutex<Vec<(String, Cause)>>,
        told: Mutex<Vec<String>>,
    }

    impl Listener for Heard {
        fn list_begins(&self, _: Option<&str>) {}
        fn seen(&self, _: &Key, _: &SampleDb) {}
        fn gone(&self, _: &Key) {}
        fn list_ends(&self, _: Option<&str>) {}
        fn children_list_begins(&self, kind: &str) {
            self.told.lock().unwrap().push(format!("list of {kind}"));
        }
        fn version(&self, kind: &str, version: &str) {
            self.told.lock().unwrap().push(format!("{kind} {version}"));
        }
        fn child(&self, key: &Key, cause: Cause) {
            self.woken.lock().unwrap().push((key.name.to_string(), cause));
        }
        fn missed(&self) {}
    }

    let place = Place::make().await;
    let heard = Arc::new(Heard::default());
    let health = Health::new("configmaps", Arc::clone(&place.metrics));
    let resource = kube::api::ApiResource::erase::<ConfigMap>(&());
    let follow = watches::children(
        place.client.clone(),
        Some(place.namespace.clone()),
        resource,
        Arc::new(Missing::default()),
        Arc::clone(&health),
        Arc::clone(&heard),
    );
    let task = tokio::spawn(follow);
    while !health.synced() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    for (name, label) in [("a", Some("orders")), ("b", None)] {
        let labels: Value = label.map_or(json!({}), |l| json!({labels::NAME: l}));
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
        place.maps.create(&PostParams::default(), &map).await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let names: Vec<_> = heard
        .woken
        .lock()
        .unwrap()
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(names, ["orders"]);
    let version = place.maps.get("a").await.unwrap().resource_version().unwrap();
    let told = heard.told.lock().unwrap().clone();
    assert_eq!(
        told,
        ["list of ConfigMap".to_owned(), format!("ConfigMap {version}")]
    );
    task.abort();
    place.end().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_note_is_one_event_with_a_count_that_describe_shows() {
    use k8s_openapi::api::events::v1::Event;

    use super::sample::database;
    use crate::runtime::events::Recorder;
    use crate::runtime::plan::Note;

    let place = Place::make().await;
    let mut object = database(&place.namespace, "orders");
    object["metadata"]["uid"] = "db-uid".into();
    let db = serde_json::from_value(object).unwrap();
    let note = Note {
        warning: true,
        reason: "Tested",
        action: "Test",
        message: "said once".into(),
    };
    for _ in 0..2 {
        let recorder = Recorder::new(place.client.clone(), MANAGER, "pod".into());
        recorder.publish(&db, &[note.clone(), note.clone()]).await;
    }
    let events: Api<Event> = Api::namespaced(place.client.clone(), &place.namespace);
    let found = events
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].series.as_ref().map(|s| s.count),
        Some(2),
        "a restart counts on"
    );
    place.end().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_read_from_the_api_server_s_cache_shows_the_last_write_and_one_ahead_of_it_is_live() {
    let place = Place::make().await;
    let freshness = Arc::new(Freshness::of(["ConfigMap".to_owned()]));
    let target = Target {
        freshness: Arc::clone(&freshness),
        ..place.target("db-uid")
    };
    let reader = Reader::new(
        place.client.clone(),
        Arc::clone(&freshness),
        place.namespace.clone(),
        place.namespace.clone(),
        vec![],
    );
    let mut memory = Memory::default().of("db-uid");
    let mut seen = None;
    for n in 0..50 {
        let value = n.to_string();
        let done = apply::apply(&target, wanted(&value, seen), &mut memory, &place.metrics).await;
        assert_eq!(done.refused, []);
        let read = reader.get::<ConfigMap>("thing").await.unwrap().unwrap();
        seen = Some(Seen::of(&read));
        assert_eq!(read.data.unwrap()["ours"], value, "its own last write");
    }
    let newest: u64 = freshness.at_least("ConfigMap").unwrap().parse().unwrap();
    freshness.note("ConfigMap", &(newest + 1_000_000).to_string());
    let read = reader.get::<ConfigMap>("thing").await.unwrap();
    assert_eq!(
        read.unwrap().data.unwrap()["ours"],
        "49",
        "of a state that is yet to come"
    );
    place.end().await;
}
