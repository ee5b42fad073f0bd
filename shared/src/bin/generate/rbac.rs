//! The rights of a controller, from its row in the ownership table.

use sampledb_shared::api::GROUP;
use sampledb_shared::api::ownership::{CONTROLLERS, Writer};
use sampledb_shared::domain::names::CATALOG;
use serde::Serialize;

/// What a controller may do, by where.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rights {
    /// On what lies in no namespace.
    pub cluster_scoped: Vec<Rule>,
    /// In every namespace whose SampleDBs it looks after.
    pub namespaces: Vec<Rule>,
    /// In the namespace of the release.
    pub release: Vec<Rule>,
}

/// A rule of RBAC.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    api_groups: Vec<&'static str>,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<&'static str>,
    verbs: Vec<&'static str>,
}

/// The kinds that lie in no namespace.
const CLUSTER_SCOPED: &[&str] = &["storageclasses"];

fn rule(group: &'static str, resource: &str, verbs: &[&'static str]) -> Rule {
    Rule {
        api_groups: vec![group],
        resources: vec![resource.to_owned()],
        resource_names: Vec::new(),
        verbs: verbs.to_vec(),
    }
}

/// The rights of a controller.
pub fn rights(writer: &Writer) -> Rights {
    let mut rules = vec![
        rule(GROUP, "sampledbs", &["get", "list", "watch"]),
        rule(GROUP, "sampledbs/status", &["patch"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    rules.extend(writer.children.iter().map(|c| rule(c.group, c.resource, c.verbs)));
    rules.extend(writer.reads.iter().map(|r| rule(r.group, r.resource, r.verbs)));

    let lease = |names: Vec<&'static str>, verbs: &[&'static str]| Rule {
        resource_names: names,
        ..rule("coordination.k8s.io", "leases", verbs)
    };
    let others: Vec<_> = CONTROLLERS
        .iter()
        .map(|w| w.manager)
        .filter(|m| *m != writer.manager)
        .collect();
    let release = vec![
        // RBAC cannot restrict `create` to a name.
        lease(Vec::new(), &["create"]),
        lease(vec![writer.manager], &["get", "update"]),
        lease(others, &["get"]),
        Rule {
            resource_names: vec![CATALOG],
            ..rule("", "configmaps", &["get"])
        },
    ];
    let (cluster_scoped, namespaces) = rules
        .into_iter()
        .partition(|r| r.resources.iter().all(|r| CLUSTER_SCOPED.contains(&r.as_str())));
    Rights {
        cluster_scoped,
        namespaces,
        release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(writer: &Writer) -> impl Iterator<Item = Rule> {
        let Rights {
            cluster_scoped,
            namespaces,
            release,
        } = rights(writer);
        [cluster_scoped, namespaces, release].into_iter().flatten()
    }

    #[test]
    fn nobody_can_read_all_secrets_at_once() {
        for writer in CONTROLLERS {
            for rule in all(writer) {
                if rule.resources.iter().any(|r| r == "secrets" || r == "*") {
                    assert!(
                        !rule.verbs.iter().any(|v| ["list", "watch", "*"].contains(v)),
                        "{}: {rule:?}",
                        writer.manager
                    );
                }
            }
        }
    }

    #[test]
    fn no_controller_may_write_a_spec_or_raise_its_own_rights() {
        for writer in CONTROLLERS {
            for rule in all(writer) {
                assert!(
                    !rule
                        .verbs
                        .iter()
                        .any(|v| ["escalate", "bind", "impersonate", "*"].contains(v)),
                    "{rule:?}"
                );
                if rule.resources == ["sampledbs"] {
                    assert_eq!(rule.verbs, ["get", "list", "watch"]);
                }
            }
        }
    }
}
