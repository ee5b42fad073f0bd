//! The Job that runs the initial SQL, once, as the owner.

use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, PodSpec, PodTemplateSpec, ProjectedVolumeSource, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sampledb_shared::api::provisioning::Images;
use sampledb_shared::domain::labels::{self, Component};
use sampledb_shared::domain::names::{self, POSTGRES_PORT, ids, paths};
use sampledb_shared::runtime::plan::hash;

use super::{Target, pod};
use crate::settings::Settings;

/// The exit code that says "PostgreSQL refused the SQL": trying again cannot help.
pub const REFUSED: i32 = 65;
/// Where the SQL is.
const SQL: &str = "/etc/sampledb/init";
/// The one container.
const CONTAINER: &str = "init";

/// The name of the Job for a content: the pods' label with it takes 63 characters.
pub fn name(target: &Target<'_>, content: &str) -> String {
    let room = 63_usize
        .saturating_sub(names::init_job(&target.name, "").len())
        .min(8);
    names::init_job(&target.name, content.get(..room).unwrap_or(content))
}

/// The Job. An annotation holds the hash of what was built, because a Job cannot be changed: another build of it is
/// not applied over one that is there.
pub fn init(target: &Target<'_>, settings: &Settings, images: &Images, content: &str) -> Job {
    let spec = JobSpec {
        // For infrastructure alone.
        backoff_limit: Some(3),
        pod_failure_policy: Some(PodFailurePolicy {
            rules: vec![PodFailurePolicyRule {
                action: "FailJob".into(),
                on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
                    container_name: Some(CONTAINER.into()),
                    operator: "In".into(),
                    values: vec![REFUSED],
                }),
                ..PodFailurePolicyRule::default()
            }],
        }),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(target.labels(Component::Init)),
                annotations: Some(target.annotations()),
                ..ObjectMeta::default()
            }),
            spec: Some(pod_spec(target, settings, images)),
        },
        ..JobSpec::default()
    };
    let mut metadata = target.metadata(name(target, content), Component::Init);
    let built = hash(&serde_json::json!(spec));
    metadata
        .annotations
        .get_or_insert_default()
        .insert(labels::CONFIG_HASH.into(), built);
    Job {
        metadata,
        spec: Some(spec),
        status: None,
    }
}

fn pod_spec(target: &Target<'_>, settings: &Settings, images: &Images) -> PodSpec {
    PodSpec {
        restart_policy: Some("Never".into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod::security(ids::SUITE)),
        image_pull_secrets: pod::pull_secrets(&settings.image_pull_secrets),
        containers: vec![Container {
            env: Some(vec![
                pod::env(
                    "SAMPLEDB_HOST",
                    format!("{}.{}.svc", names::rw(&target.name), target.namespace),
                ),
                pod::env("SAMPLEDB_PORT", POSTGRES_PORT.to_string()),
                pod::env("SAMPLEDB_DATABASE", &target.db.spec.bootstrap.new.database),
            ]),
            volume_mounts: Some(vec![
                pod::read("sql", SQL),
                pod::read("owner", paths::OWNER),
                pod::read("trust", paths::TRUST),
            ]),
            ..Container {
                resources: Some(pod::small_requests()),
                ..pod::container(
                    CONTAINER,
                    &images.instance,
                    &[pod::AGENT_PROGRAM, "init"],
                    ids::SUITE,
                    ids::SUITE,
                )
            }
        }],
        volumes: Some(vec![
            sql(target),
            pod::secret(
                "owner",
                names::owner_secret(&target.name),
                &["username", "password"],
            ),
            pod::config_map("trust", names::trust(&target.name)),
        ]),
        ..PodSpec::default()
    }
}

/// Every key under a name that begins with its place in the order.
fn sql(target: &Target<'_>) -> Volume {
    let sources = target
        .db
        .spec
        .bootstrap
        .new
        .init
        .iter()
        .enumerate()
        .map(|(place, source)| {
            let from = &source.config_map_key_ref;
            VolumeProjection {
                config_map: Some(ConfigMapProjection {
                    name: from.name.clone(),
                    items: Some(vec![pod::item(&from.key, &format!("{place:02}-{}", from.key))]),
                    optional: None,
                }),
                ..VolumeProjection::default()
            }
        });
    Volume {
        name: "sql".into(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(sources.collect()),
            default_mode: Some(0o444),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_initial_sql_runs_in_order_without_a_token_and_an_error_ends_it() {
        let db = testing::full_db();
        let images = Images {
            resolved_for: "17".into(),
            postgres: "pg:17.12".into(),
            instance: "suite:1".into(),
        };
        let job = init(&Target::of(&db), &testing::settings(), &images, testing::CONTENT);
        insta::with_settings!({sort_maps => true}, { insta::assert_yaml_snapshot!(job) });
    }
}
