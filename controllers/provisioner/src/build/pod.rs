//! The parts of which pods are made: containers under the *restricted* policy, mounts, volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource,
    HTTPGetAction, KeyToPath, LocalObjectReference, ObjectFieldSelector, PodSecurityContext, Probe,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sampledb_shared::domain::names::{METRICS_PORT_NAME, ids};

/// The agent's program in the suite's image.
pub const AGENT_PROGRAM: &str = "/usr/local/bin/sampledb-agent";
/// The runner's program in the suite's image.
pub const RUNNER_PROGRAM: &str = "/usr/local/bin/sampledb-runner";
/// Keys are read by their group alone.
const KEY_MODE: i32 = 0o640;

/// A container under the *restricted* policy.
pub fn container(name: &str, image: &str, command: &[&str], user: i64, group: i64) -> Container {
    Container {
        name: name.into(),
        image: Some(image.into()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command.iter().map(|c| (*c).to_owned()).collect()),
        security_context: Some(SecurityContext {
            run_as_user: Some(user),
            run_as_group: Some(group),
            run_as_non_root: Some(true),
            privileged: Some(false),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".into()]),
                add: None,
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// The security context of a pod whose volumes belong to `group`.
pub fn security(group: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        fs_group: Some(group),
        // Else every start walks the whole data directory, and makes PGDATA writable for the group.
        fs_group_change_policy: Some("OnRootMismatch".into()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".into(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

/// What the suite's own containers ask for: every container asks for something, so that a quota can count it.
pub fn small_requests() -> ResourceRequirements {
    requests([("cpu", "10m"), ("memory", "32Mi")])
}

/// Requests alone.
pub fn requests<const N: usize>(values: [(&str, &str); N]) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(quantities(values)),
        ..ResourceRequirements::default()
    }
}

/// Quantities by name.
pub fn quantities<const N: usize>(values: [(&str, &str); N]) -> BTreeMap<String, Quantity> {
    values
        .map(|(name, value)| (name.to_owned(), Quantity(value.to_owned())))
        .into()
}

/// A variable with a value.
pub fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.into(),
        value: Some(value.into()),
        value_from: None,
    }
}

/// A variable with a field of the pod.
pub fn env_of_pod(name: &str, field: &str) -> EnvVar {
    let field_ref = ObjectFieldSelector {
        field_path: field.into(),
        api_version: Some("v1".into()),
    };
    EnvVar {
        name: name.into(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(field_ref),
            ..EnvVarSource::default()
        }),
    }
}

/// A mount that can be written.
pub fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.into(),
        mount_path: path.into(),
        ..VolumeMount::default()
    }
}

/// A mount that cannot be written.
pub fn read(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(volume, path)
    }
}

/// A folder that lives as long as the pod.
pub fn scratch(name: &str) -> Volume {
    Volume {
        name: name.into(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// The same in memory.
pub fn in_memory(name: &str, limit: Option<&str>) -> Volume {
    let source = EmptyDirVolumeSource {
        medium: Some("Memory".into()),
        size_limit: limit.map(|l| Quantity(l.into())),
    };
    Volume {
        empty_dir: Some(source),
        ..scratch(name)
    }
}

/// A Secret, whole or these keys of it.
pub fn secret(name: &str, secret: String, keys: &[&str]) -> Volume {
    Volume {
        name: name.into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            default_mode: Some(KEY_MODE),
            items: (!keys.is_empty()).then(|| keys.iter().map(|k| item(k, k)).collect()),
            optional: None,
        }),
        ..Volume::default()
    }
}

/// A ConfigMap, whole.
pub fn config_map(name: &str, config_map: String) -> Volume {
    Volume {
        name: name.into(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map,
            default_mode: Some(0o644),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// A key under a file name.
pub fn item(key: &str, path: &str) -> KeyToPath {
    KeyToPath {
        key: key.into(),
        path: path.into(),
        mode: None,
    }
}

/// A question to the agent's HTTP port.
pub fn ask(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String(METRICS_PORT_NAME.into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(3),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Pull secrets by name.
pub fn pull_secrets(names: &[String]) -> Option<Vec<LocalObjectReference>> {
    (!names.is_empty()).then(|| {
        names
            .iter()
            .map(|name| LocalObjectReference { name: name.clone() })
            .collect()
    })
}

/// A container of the suite's own image; in PostgreSQL's group, for the shared folders.
pub fn suite_container(name: &str, image: &str, command: &[&str]) -> Container {
    Container {
        resources: Some(small_requests()),
        ..container(name, image, command, ids::SUITE, ids::POSTGRES)
    }
}
