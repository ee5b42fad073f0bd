//! What the pods and the service-publisher may do beside this SampleDB, by name.
//!
//! The provisioner holds all of it itself, so that it needs neither `escalate` nor `bind`.

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use sampledb_shared::api::GROUP;
use sampledb_shared::api::ownership::SERVICE_PUBLISHER;
use sampledb_shared::domain::labels::Component;
use sampledb_shared::domain::names;

use super::Target;

/// What the agents may do: the SampleDB and its status, the slice of the primary, the configuration and the claims
/// by name, and to tell events. No Secrets, no pods.
pub fn instance(target: &Target<'_>, claims: &[String]) -> Role {
    let name = &target.name;
    let watch: &[&str] = &["get", "list", "watch"];
    Role {
        metadata: target.metadata(names::instance_account(name), Component::Database),
        rules: Some(
            [
                Some(rule(GROUP, "sampledbs", watch, std::slice::from_ref(name))),
                Some(rule(
                    GROUP,
                    "sampledbs/status",
                    &["patch"],
                    std::slice::from_ref(name),
                )),
                Some(rule(
                    "discovery.k8s.io",
                    "endpointslices",
                    &["get", "list", "watch", "create", "patch"],
                    &[names::rw(name)],
                )),
                Some(rule("", "configmaps", watch, &[names::config(name)])),
                // Without names the rule would speak of every claim.
                (!claims.is_empty()).then(|| rule("", "persistentvolumeclaims", &["get"], claims)),
                Some(rule("events.k8s.io", "events", &["create"], &[])),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
    }
}

/// What the service-publisher may do with the Secrets of this SampleDB: read the owner's, write the applications'.
pub fn publisher(target: &Target<'_>) -> Role {
    let name = &target.name;
    Role {
        metadata: target.metadata(names::publisher_role(name), Component::Credentials),
        rules: Some(vec![
            rule("", "secrets", &["get"], &[names::owner_secret(name)]),
            rule(
                "",
                "secrets",
                &["get", "create", "patch"],
                &[names::app_secret(name)],
            ),
        ]),
    }
}

/// The agents' role for the pods' ServiceAccount.
pub fn instance_binding(target: &Target<'_>) -> RoleBinding {
    let account = names::instance_account(&target.name);
    binding(
        target,
        account.clone(),
        Component::Database,
        account,
        target.namespace.clone(),
    )
}

/// The publisher's role for the publisher's ServiceAccount in the release namespace.
pub fn publisher_binding(target: &Target<'_>, release_namespace: &str) -> RoleBinding {
    binding(
        target,
        names::publisher_role(&target.name),
        Component::Credentials,
        SERVICE_PUBLISHER.manager.into(),
        release_namespace.into(),
    )
}

/// `name` is that of the role and of its binding.
fn binding(
    target: &Target<'_>,
    name: String,
    component: Component,
    account: String,
    namespace: String,
) -> RoleBinding {
    RoleBinding {
        metadata: target.metadata(name.clone(), component),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name,
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: account,
            namespace: Some(namespace),
            api_group: None,
        }]),
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str], names: &[String]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(vec![resource.into()]),
        verbs: verbs.iter().map(|v| (*v).to_owned()).collect(),
        resource_names: (!names.is_empty()).then(|| names.to_vec()),
        non_resource_urls: None,
    }
}
