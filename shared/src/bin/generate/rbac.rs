//! The rights of a controller, from its row in the ownership table.

use sampledb_shared::api::GROUP;
use sampledb_shared::api::ownership::{CONTROLLERS, Writer};
use serde::Serialize;

/// What a controller may do, by where.
#[derive(Debug, Serialize)]
pub struct Rights {
    /// In every namespace with SampleDBs.
    pub cluster: Vec<Rule>,
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

fn rule(group: &'static str, resource: &str, verbs: &[&'static str]) -> Rule {
    Rule { api_groups: vec![group], resources: vec![resource.to_owned()], resource_names: Vec::new(), verbs: verbs.to_vec() }
}

/// The rights of a controller.
pub fn rights(writer: &Writer) -> Rights {
    let mut cluster = vec![
        rule(GROUP, "sampledbs", &["get", "list", "watch"]),
        rule(GROUP, "sampledbs/status", &["get", "patch"]),
        // For owner references that block, where OwnerReferencesPermissionEnforcement is on.
        rule(GROUP, "sampledbs/finalizers", &["update"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    cluster.extend(writer.children.iter().map(|c| rule(c.group, c.resource, c.verbs)));
    cluster.extend(writer.reads.iter().map(|r| rule(r.group, r.resource, r.verbs)));

    let lease = |names: Vec<&'static str>, verbs: &[&'static str]| Rule {
        resource_names: names,
        ..rule("coordination.k8s.io", "leases", verbs)
    };
    let others: Vec<_> = CONTROLLERS.iter().map(|w| w.manager).filter(|m| *m != writer.manager).collect();
    let release = vec![
        // RBAC cannot restrict `create` to a name.
        lease(Vec::new(), &["create"]),
        lease(vec![writer.manager], &["get", "update", "patch"]),
        lease(others, &["get"]),
    ];
    Rights { cluster, release }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_read_all_secrets_at_once() {
        for writer in CONTROLLERS {
            for rule in rights(writer).cluster {
                if rule.resources.iter().any(|r| r == "secrets" || r == "*") {
                    assert!(!rule.verbs.iter().any(|v| ["list", "watch", "*"].contains(v)), "{}: {rule:?}", writer.manager);
                }
            }
        }
    }

    #[test]
    fn no_controller_may_write_a_spec_or_raise_its_own_rights() {
        for writer in CONTROLLERS {
            for rule in rights(writer).cluster {
                assert!(!rule.verbs.iter().any(|v| ["escalate", "bind", "impersonate", "*"].contains(v)), "{rule:?}");
                if rule.resources == ["sampledbs"] {
                    assert_eq!(rule.verbs, ["get", "list", "watch"]);
                }
            }
        }
    }
}
