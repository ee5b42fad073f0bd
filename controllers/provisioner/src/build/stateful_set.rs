//! The StatefulSet of the database pods.
//!
//! Its template changes restart nothing (`OnDelete`), its claims outlive it, and who may write which shared folder
//! is what keeps a program started by SQL away from the agent and its token.

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, ContainerPort, DownwardAPIProjection, DownwardAPIVolumeFile,
    ObjectFieldSelector, PersistentVolumeClaim, PodSpec, PodTemplateSpec, ProjectedVolumeSource,
    ResourceRequirements, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use sampledb_shared::api::provisioning::Images;
use sampledb_shared::domain::labels::{self, Component};
use sampledb_shared::domain::names::{
    self, METRICS_PORT, METRICS_PORT_NAME, PEER_PORT, POSTGRES_PORT, POSTGRES_PORT_NAME, ids, paths,
};

use super::{Target, claim, pod};
use crate::quantity;
use crate::settings::Settings;

/// Time for a pod to end: the runner is done with its fast stop by 80 s.
const GRACE_SECONDS: i64 = 90;
/// Where a client of the API server looks for its token.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The StatefulSet. `templates` are those of the claims; they cannot be changed in one that is there.
pub fn stateful_set(
    target: &Target<'_>,
    settings: &Settings,
    images: &Images,
    templates: Vec<PersistentVolumeClaim>,
) -> StatefulSet {
    StatefulSet {
        metadata: target.metadata(target.name.clone(), Component::Database),
        spec: Some(StatefulSetSpec {
            replicas: Some(target.db.spec.instances),
            service_name: Some(names::pods(&target.name)),
            pod_management_policy: Some("Parallel".into()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".into()),
                rolling_update: None,
            }),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Retain".into()),
                when_scaled: Some("Retain".into()),
            }),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(labels::pod_selector(&target.name)),
                match_expressions: None,
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(target.labels(Component::Database)),
                    annotations: Some(target.annotations()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(target, settings, images)),
            },
            volume_claim_templates: Some(templates),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// The templates of the claims, as the SampleDB wants them now.
pub fn templates(target: &Target<'_>) -> Vec<PersistentVolumeClaim> {
    let storage = &target.db.spec.storage;
    let wal = storage
        .wal
        .as_ref()
        .map(|volume| claim::template(target, "wal", volume));
    [claim::template(target, "data", &storage.data)]
        .into_iter()
        .chain(wal)
        .collect()
}

fn pod_spec(target: &Target<'_>, settings: &Settings, images: &Images) -> PodSpec {
    let scheduling = &target.db.spec.scheduling;
    PodSpec {
        init_containers: Some(vec![inject(images), agent(target, settings, images)]),
        containers: vec![postgres(target, images)],
        volumes: Some(volumes(target)),
        service_account_name: Some(names::instance_account(&target.name)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod::security(ids::POSTGRES)),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        image_pull_secrets: pod::pull_secrets(&settings.image_pull_secrets),
        node_selector: (!scheduling.node_selector.is_empty()).then(|| scheduling.node_selector.clone()),
        tolerations: (!scheduling.tolerations.is_empty()).then(|| scheduling.tolerations.clone()),
        priority_class_name: scheduling.priority_class_name.clone(),
        ..PodSpec::default()
    }
}

fn inject(images: &Images) -> Container {
    Container {
        volume_mounts: Some(vec![pod::mount("bin", paths::BIN)]),
        ..pod::suite_container(
            "inject",
            &images.instance,
            &[pod::RUNNER_PROGRAM, "inject", paths::BIN],
        )
    }
}

fn agent(target: &Target<'_>, settings: &Settings, images: &Images) -> Container {
    Container {
        restart_policy: Some("Always".into()),
        env: Some(vec![
            pod::env("SAMPLEDB_NAME", &target.name),
            pod::env("SAMPLEDB_NAMESPACE", &target.namespace),
            pod::env("SAMPLEDB_UID", &target.uid),
            pod::env("SAMPLEDB_CLUSTER_DOMAIN", &settings.cluster_domain),
            pod::env("SAMPLEDB_HAS_WAL", has_wal(target)),
            pod::env_of_pod("POD_NAME", "metadata.name"),
            pod::env_of_pod("POD_UID", "metadata.uid"),
            pod::env_of_pod("POD_IP", "status.podIP"),
        ]),
        ports: Some(vec![
            port(METRICS_PORT_NAME, METRICS_PORT),
            port("peers", PEER_PORT),
        ]),
        // Asked every second: postgres starts only after the first yes.
        startup_probe: Some(pod::ask("/startupz", 1, 120)),
        readiness_probe: Some(pod::ask("/readyz", 1, 3)),
        liveness_probe: Some(pod::ask("/livez", 10, 6)),
        volume_mounts: Some(vec![
            pod::mount("control", paths::CONTROL),
            pod::read("socket", paths::POSTGRES_SOCKET),
            pod::mount("agent", paths::AGENT_STATE),
            pod::read("agent-tls", paths::AGENT_TLS),
            pod::read("owner", paths::OWNER),
            pod::read("trust", paths::TRUST),
            pod::read("token", TOKEN),
        ]),
        ..pod::suite_container("agent", &images.instance, &[pod::AGENT_PROGRAM, "run"])
    }
}

fn postgres(target: &Target<'_>, images: &Images) -> Container {
    let runner = format!("{}/sampledb-runner", paths::BIN);
    let wal = target
        .db
        .spec
        .storage
        .wal
        .is_some()
        .then(|| pod::mount("wal", paths::WAL));
    Container {
        ports: Some(vec![port(POSTGRES_PORT_NAME, POSTGRES_PORT)]),
        resources: Some(postgres_resources(target)),
        volume_mounts: Some(
            postgres_mounts()
                .into_iter()
                .chain([pod::mount("data", paths::DATA)])
                .chain(wal)
                .collect::<Vec<VolumeMount>>(),
        ),
        ..pod::container(
            "postgres",
            &images.postgres,
            &[&runner],
            ids::POSTGRES,
            ids::POSTGRES,
        )
    }
}

fn postgres_mounts() -> [VolumeMount; 7] {
    [
        pod::read("control", paths::CONTROL),
        pod::mount("socket", paths::POSTGRES_SOCKET),
        pod::read("bin", paths::BIN),
        pod::read("server-tls", paths::SERVER_TLS),
        pod::read("trust", paths::TRUST),
        pod::mount("shm", "/dev/shm"),
        pod::mount("tmp", "/tmp"),
    ]
}

fn postgres_resources(target: &Target<'_>) -> ResourceRequirements {
    let wanted = &target.db.spec.scheduling.resources;
    let mut requests = pod::quantities([("cpu", "100m"), ("memory", "256Mi")]);
    // A limit below the default request would be refused: it is then the request as well.
    for (name, limit) in &wanted.limits {
        if requests
            .get(name)
            .is_some_and(|default| !quantity::at_least(limit, default))
        {
            requests.insert(name.clone(), limit.clone());
        }
    }
    requests.extend(wanted.requests.clone());
    ResourceRequirements {
        requests: Some(requests),
        limits: (!wanted.limits.is_empty()).then(|| wanted.limits.clone()),
        claims: None,
    }
}

fn volumes(target: &Target<'_>) -> Vec<Volume> {
    let name = &target.name;
    vec![
        pod::scratch("bin"),
        pod::scratch("agent"),
        pod::scratch("tmp"),
        pod::in_memory("control", Some("1Mi")),
        pod::in_memory("socket", Some("1Mi")),
        // The container runtime gives 64 MiB, which parallel queries exceed; this counts as the container's memory.
        pod::in_memory("shm", None),
        pod::secret("server-tls", names::server_secret(name), &["tls.crt", "tls.key"]),
        pod::secret("agent-tls", names::agent_secret(name), &["tls.crt", "tls.key"]),
        pod::secret("owner", names::owner_secret(name), &["username", "verifier"]),
        pod::config_map("trust", names::trust(name)),
        token(),
    ]
}

/// What a client of the API server needs, for the agent alone.
fn token() -> Volume {
    let projection = VolumeProjection::default;
    Volume {
        name: "token".into(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o640),
            sources: Some(vec![
                VolumeProjection {
                    service_account_token: Some(ServiceAccountTokenProjection {
                        path: "token".into(),
                        expiration_seconds: Some(3600),
                        audience: None,
                    }),
                    ..projection()
                },
                VolumeProjection {
                    config_map: Some(ConfigMapProjection {
                        name: "kube-root-ca.crt".into(),
                        items: Some(vec![pod::item("ca.crt", "ca.crt")]),
                        optional: None,
                    }),
                    ..projection()
                },
                VolumeProjection {
                    downward_api: Some(DownwardAPIProjection {
                        items: Some(vec![DownwardAPIVolumeFile {
                            path: "namespace".into(),
                            field_ref: Some(ObjectFieldSelector {
                                field_path: "metadata.namespace".into(),
                                api_version: Some("v1".into()),
                            }),
                            ..DownwardAPIVolumeFile::default()
                        }]),
                    }),
                    ..projection()
                },
            ]),
        }),
        ..Volume::default()
    }
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: number,
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

fn has_wal(target: &Target<'_>) -> &'static str {
    if target.db.spec.storage.wal.is_some() {
        "true"
    } else {
        "false"
    }
}
