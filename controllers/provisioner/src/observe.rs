//! One look at the cluster: every read of a pass, all at the same time.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use futures::try_join;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use sampledb_shared::api::SampleDb;
use sampledb_shared::api::ownership::SERVICE_PUBLISHER;
use sampledb_shared::domain::{labels, names};
use sampledb_shared::runtime::{Error, Readable, Reader, plan};

use crate::build::Target;
use crate::credentials::{self, Material, SecretData};
use crate::images::{self, Catalog};
use crate::initial;
use crate::settings::Settings;
use crate::views::{ClaimView, Found, JobView, PodView, StatefulSetView, init_error};
use crate::volumes;

/// What one look found. It has no `Debug`: it holds what the Secrets hold.
pub struct Observed {
    /// The release's namespace.
    pub release_namespace: String,
    /// Whether the service-publisher was seen lately.
    pub publisher_seen: bool,
    /// The children that are there, by (kind, name); the claims are apart.
    pub children: BTreeMap<(String, String), Found>,
    /// The claims that are there, by name.
    pub claims: BTreeMap<String, ClaimView>,
    /// The StatefulSet.
    pub stateful_set: Option<StatefulSetView>,
    /// The database pods, by name.
    pub pods: Vec<PodView>,
    /// Why the StatefulSet's controller could not make a pod, in the API server's words.
    pub pod_refusal: Option<String>,
    /// The init Jobs, by name.
    pub jobs: BTreeMap<String, JobView>,
    /// What went wrong in an init Job, by its name.
    pub init_errors: BTreeMap<String, String>,
    /// The hash of the initial SQL, or what is missing of it; absent when it is not needed any more.
    pub initial_sql: Option<Result<String, String>>,
    /// The images of the chart; absent when there is no catalogue.
    pub catalog: Option<Catalog>,
    /// What the Secrets should hold.
    pub material: Material,
}

/// A pass reads no older words than this: whoever cannot go on repeats itself more often.
const WORDS_MAX_AGE: jiff::SignedDuration = jiff::SignedDuration::from_mins(20);

/// Looks.
pub async fn observe(db: &SampleDb, cluster: &Reader, settings: &Settings) -> Result<Observed, Error> {
    let target = Target::of(db);
    let name = &target.name;
    let ours = ListParams::default().labels(&format!("{}={name}", labels::NAME));
    let init_jobs = ListParams::default().labels(&format!(
        "{}={name},{}={}",
        labels::NAME,
        labels::COMPONENT,
        labels::Component::Init.as_str()
    ));
    let accounts = [names::instance_account(name), names::publisher_role(name)];
    let (
        secrets,
        config_maps,
        claims,
        set,
        pods,
        jobs,
        account,
        roles,
        bindings,
        budget,
        catalog,
        initial_sql,
    ) = try_join!(
        get_all::<Secret>(cluster, secret_names(name)),
        get_all::<ConfigMap>(cluster, vec![names::config(name), names::trust(name)]),
        get_all::<PersistentVolumeClaim>(
            cluster,
            volumes::wanted(&target).into_iter().map(|w| w.name).collect()
        ),
        cluster.get::<StatefulSet>(name),
        cluster.list::<Pod>(&ours),
        cluster.list::<Job>(&init_jobs),
        cluster.get::<ServiceAccount>(&accounts[0]),
        get_all::<Role>(cluster, accounts.to_vec()),
        get_all::<RoleBinding>(cluster, accounts.to_vec()),
        cluster.get::<PodDisruptionBudget>(name),
        cluster.get_of_release::<ConfigMap>(names::CATALOG),
        initial_sql(&target, cluster),
    )?;

    let mut children = BTreeMap::new();
    note(&mut children, &secrets);
    note(&mut children, &config_maps);
    note(&mut children, &roles);
    note(&mut children, &bindings);
    note(&mut children, set.as_slice());
    note(&mut children, account.as_slice());
    note(&mut children, budget.as_slice());

    let stateful_set = set.as_ref().map(StatefulSetView::of);
    let is_database = |pod: &&Pod| {
        pod.labels().get(labels::COMPONENT).map(String::as_str) == Some(labels::Component::Database.as_str())
    };
    let mut database_pods: Vec<PodView> = pods.iter().filter(is_database).map(PodView::of).collect();
    database_pods.sort_by(|a, b| a.name.cmp(&b.name));
    let missing = stateful_set
        .as_ref()
        .is_some_and(|s| (database_pods.len() as i32) < s.replicas);
    let waiting = set.as_ref().filter(|_| missing).and_then(ResourceExt::uid);
    let pod_refusal = match waiting {
        Some(uid) => words(cluster, "StatefulSet", &uid, "FailedCreate").await?,
        None => None,
    };
    let mut claims: BTreeMap<_, _> = claims.iter().map(|c| (c.name_any(), ClaimView::of(c))).collect();
    let unbound = claims.values_mut().filter(|claim| claim.capacity.is_none());
    try_join_all(unbound.map(async |claim| {
        let uid = &claim.found.seen.uid;
        claim.not_provisioned = words(cluster, "PersistentVolumeClaim", uid, "ProvisioningFailed").await?;
        Ok::<_, Error>(())
    }))
    .await?;
    let material = settle(&target, &secrets, &config_maps, cluster, settings)?;

    Ok(Observed {
        release_namespace: cluster.release_namespace().to_owned(),
        publisher_seen: cluster.is_seen(SERVICE_PUBLISHER.manager),
        children,
        claims,
        stateful_set,
        pods: database_pods,
        pod_refusal,
        jobs: jobs.iter().map(|j| (j.name_any(), JobView::of(j))).collect(),
        init_errors: pods.iter().filter_map(init_error).collect(),
        initial_sql,
        catalog: catalog.map(|c| images::catalog(&c.data.unwrap_or_default())),
        material,
    })
}

fn secret_names(name: &str) -> Vec<String> {
    vec![
        names::owner_secret(name),
        names::ca_secret(name),
        names::server_secret(name),
        names::agent_secret(name),
        names::replication_secret(name),
    ]
}

async fn get_all<K: Readable>(cluster: &Reader, names: Vec<String>) -> Result<Vec<K>, Error> {
    let found = try_join_all(names.iter().map(|name| cluster.get::<K>(name))).await?;
    Ok(found.into_iter().flatten().collect())
}

fn note<K: Resource<DynamicType = ()>>(children: &mut BTreeMap<(String, String), Found>, objects: &[K]) {
    for object in objects {
        children.insert((K::kind(&()).into_owned(), object.name_any()), Found::of(object));
    }
}

/// What the Secrets should hold; only what is ours counts as there.
fn settle(
    target: &Target<'_>,
    secrets: &[Secret],
    config_maps: &[ConfigMap],
    cluster: &Reader,
    settings: &Settings,
) -> Result<Material, Error> {
    let name = &target.name;
    let secret = |wanted: String| {
        let found = secrets
            .iter()
            .find(|s| s.name_any() == wanted && Found::of(*s).is_for(&target.uid));
        found.map(|s| SecretData::of(s.data.clone()))
    };
    let trust = config_maps
        .iter()
        .find(|c| c.name_any() == names::trust(name) && Found::of(*c).is_for(&target.uid));
    let read = credentials::Read {
        owner: secret(names::owner_secret(name)),
        authority: secret(names::ca_secret(name)),
        server: secret(names::server_secret(name)),
        agent: secret(names::agent_secret(name)),
        replication: secret(names::replication_secret(name)),
        trust: trust.and_then(|c| c.data.as_ref()?.get("ca.crt").cloned()),
    };
    let wanted = credentials::Wanted {
        name: name.clone(),
        namespace: target.namespace.clone(),
        uid: target.uid.clone(),
        owner: target.db.spec.bootstrap.new.owner.clone(),
        cluster_domain: settings.cluster_domain.clone(),
        external_names: target.db.spec.services.rw.external_names.clone(),
    };
    credentials::settle(&read, &wanted, cluster.now())
        .map_err(|e| Error::Bug(format!("credentials of {name}: {e}")))
}

/// The hash of the initial SQL, or what is missing of it.
async fn initial_sql(target: &Target<'_>, cluster: &Reader) -> Result<Option<Result<String, String>>, Error> {
    let sources = &target.db.spec.bootstrap.new.init;
    if sources.is_empty() || initial::has_succeeded(target) {
        return Ok(None);
    }
    let maps: Vec<&str> = sources
        .iter()
        .map(|s| s.config_map_key_ref.name.as_str())
        .collect();
    let maps = try_join_all(maps.into_iter().map(|name| cluster.get_live::<ConfigMap>(name))).await?;
    let mut texts = Vec::new();
    for (source, map) in sources.iter().zip(maps) {
        let from = &source.config_map_key_ref;
        let Some(map) = map else {
            return Ok(Some(Err(format!(
                "the ConfigMap {} of bootstrap.new.init does not exist",
                from.name
            ))));
        };
        match map.data.as_ref().and_then(|data| data.get(&from.key)) {
            Some(text) => texts.push((from.key.clone(), text.clone())),
            None => {
                return Ok(Some(Err(format!(
                    "the ConfigMap {} of bootstrap.new.init has no key {}",
                    from.name, from.key
                ))));
            }
        }
    }
    Ok(Some(Ok(plan::hash(&serde_json::json!(texts)))))
}

/// The newest words that Kubernetes said about an object for a reason.
async fn words(cluster: &Reader, kind: &str, uid: &str, reason: &str) -> Result<Option<String>, Error> {
    let about = format!("involvedObject.kind={kind},involvedObject.uid={uid},reason={reason}");
    let events = cluster
        .list::<Event>(&ListParams::default().fields(&about))
        .await?;
    let time = |event: &Event| {
        let last = event
            .series
            .as_ref()
            .and_then(|s| s.last_observed_time.as_ref())
            .or(event.event_time.as_ref());
        last.map(|t| t.0).or(event.last_timestamp.as_ref().map(|t| t.0))
    };
    let recent = cluster.now() - WORDS_MAX_AGE;
    let newest = events
        .iter()
        .filter(|e| time(e).is_none_or(|t| t > recent))
        .max_by_key(|e| time(e));
    Ok(newest.and_then(|event| event.message.clone()))
}
