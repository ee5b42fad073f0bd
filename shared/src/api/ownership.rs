//! Who writes what: the one table from which RBAC, the admission policy, the docs and the tests come.
//!
//! Each status section, condition type and kind of child has exactly one writer.

use super::conditions::ConditionType;

/// One writer of a SampleDB's status.
#[derive(Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its field manager; for a controller also its Deployment, ServiceAccount and Lease.
    pub manager: &'static str,
    /// The fields of `status` it alone writes.
    pub sections: &'static [&'static str],
    /// The conditions it alone writes.
    pub conditions: &'static [ConditionType],
    /// The kinds of children it alone writes.
    pub children: &'static [Child],
    /// What it reads besides.
    pub reads: &'static [Read],
}

/// A kind of child, and the verbs its writer needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Child {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The plural.
    pub resource: &'static str,
    /// The verbs.
    pub verbs: &'static [&'static str],
}

/// A kind that is read only.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The plural, or plural/subresource.
    pub resource: &'static str,
    /// The verbs.
    pub verbs: &'static [&'static str],
}

const WATCHED: &[&str] = &["get", "list", "watch", "create", "patch"];
/// Almost everything goes with its owner, by the garbage collector: only what is deleted by name needs the verb, since
/// the guard lets these controllers pass.
const DELETED: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// Makes what a database consists of.
pub const PROVISIONER: Writer = Writer {
    manager: "sampledb-provisioner",
    sections: &[
        "observedGeneration",
        "phase",
        "provisioning",
        "replicas",
        "selector",
    ],
    conditions: &[
        ConditionType::Ready,
        ConditionType::Reconciling,
        ConditionType::Stalled,
        ConditionType::Available,
        ConditionType::Initialized,
        ConditionType::StorageHealthy,
        ConditionType::CertificatesValid,
    ],
    children: &[
        // Secrets are never listed or watched: drift is checked on each pass.
        Child {
            group: "",
            resource: "secrets",
            verbs: &["get", "create", "patch"],
        },
        Child {
            group: "",
            resource: "configmaps",
            verbs: WATCHED,
        },
        Child {
            group: "",
            resource: "persistentvolumeclaims",
            verbs: WATCHED,
        },
        Child {
            group: "",
            resource: "serviceaccounts",
            verbs: WATCHED,
        },
        Child {
            group: "apps",
            resource: "statefulsets",
            verbs: DELETED,
        },
        Child {
            group: "batch",
            resource: "jobs",
            verbs: WATCHED,
        },
        Child {
            group: "policy",
            resource: "poddisruptionbudgets",
            verbs: WATCHED,
        },
        Child {
            group: "rbac.authorization.k8s.io",
            resource: "roles",
            verbs: WATCHED,
        },
        Child {
            group: "rbac.authorization.k8s.io",
            resource: "rolebindings",
            verbs: WATCHED,
        },
        // Not written by it: held so that it may be granted to the instances by name (no `escalate`, no `bind`).
        Child {
            group: "discovery.k8s.io",
            resource: "endpointslices",
            verbs: &["get", "list", "watch", "create", "patch"],
        },
    ],
    reads: &[
        Read {
            group: "",
            resource: "pods",
            verbs: &["get", "list", "watch"],
        },
        Read {
            group: "",
            resource: "events",
            verbs: &["get", "list"],
        },
        Read {
            group: "storage.k8s.io",
            resource: "storageclasses",
            verbs: &["get"],
        },
    ],
};

/// Tells clients where the database is.
pub const SERVICE_PUBLISHER: Writer = Writer {
    manager: "sampledb-service-publisher",
    sections: &["endpoints", "binding"],
    conditions: &[ConditionType::Published],
    children: &[
        Child {
            group: "",
            resource: "services",
            verbs: DELETED,
        },
        // Not written by it: those beside the agents' own under the Service `-rw` lead clients elsewhere, and go.
        Child {
            group: "discovery.k8s.io",
            resource: "endpointslices",
            verbs: &["get", "list", "watch", "delete"],
        },
        Child {
            group: "",
            resource: "configmaps",
            verbs: WATCHED,
        },
    ],
    // Its rights on Secrets are a Role beside each SampleDB, by name, made by the provisioner.
    reads: &[],
};

/// The controllers, in the order of the documentation.
pub const CONTROLLERS: &[&Writer] = &[&PROVISIONER, &SERVICE_PUBLISHER];

/// The agents inside the pods; their manager for `status.instances` is `sampledb-agent-<ordinal>`, their
/// ServiceAccount `<name>-instance`.
pub const AGENT: Writer = Writer {
    manager: "sampledb-agent",
    sections: &["election", "instances"],
    conditions: &[ConditionType::PrimaryElected, ConditionType::Replicating],
    children: &[],
    reads: &[],
};

/// Every writer.
pub const WRITERS: &[&Writer] = &[&PROVISIONER, &SERVICE_PUBLISHER, &AGENT];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_writers_never_own_one_field() {
        let mut seen = BTreeSet::new();
        for writer in WRITERS {
            for section in writer.sections {
                assert!(
                    seen.insert(format!("section {section}")),
                    "status.{section} has two writers"
                );
            }
            for condition in writer.conditions {
                assert!(
                    seen.insert(format!("condition {condition}")),
                    "{condition} has two writers"
                );
            }
        }
    }
}
