//! The `-rw` EndpointSlice: which instance clients reach.

use std::collections::BTreeMap;
use std::net::IpAddr;

use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sampledb_shared::api::{GROUP, VERSION};
use sampledb_shared::domain::labels::{self, Component};
use sampledb_shared::domain::names;
use serde_json::{Value, json};

/// Who manages the slice, in Kubernetes' own label: its controllers leave it alone.
pub const MANAGED_BY: &str = "agent.sampledb.dev";
/// Kubernetes' label of the Service that a slice belongs to.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Kubernetes' label of who manages a slice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The instance that is led to.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The SampleDB's name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The pod.
    pub pod: &'a str,
    /// The pod's UID.
    pub pod_uid: &'a str,
    /// The pod's address.
    pub address: IpAddr,
    /// The manager in the labels.
    pub manager: &'a str,
}

/// The whole slice for a term; without an endpoint when clients are to be refused.
pub fn slice(target: &Target<'_>, term: i64, filled: bool) -> EndpointSlice {
    let mut all = labels::child(target.name, Component::Service, target.manager);
    all.insert(SERVICE_NAME.to_owned(), names::rw(target.name));
    all.insert(SLICE_MANAGED_BY.to_owned(), MANAGED_BY.to_owned());
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(names::rw(target.name)),
            namespace: Some(target.namespace.to_owned()),
            labels: Some(all),
            annotations: Some(BTreeMap::from([
                (labels::TERM.to_owned(), term.to_string()),
                (labels::UID.to_owned(), target.uid.to_owned()),
            ])),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{GROUP}/{VERSION}"),
                kind: "SampleDB".to_owned(),
                name: target.name.to_owned(),
                uid: target.uid.to_owned(),
                controller: None,
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        address_type: if target.address.is_ipv6() { "IPv6" } else { "IPv4" }.to_owned(),
        endpoints: if filled {
            vec![endpoint(target)]
        } else {
            Vec::new()
        },
        ports: Some(vec![EndpointPort {
            name: Some(names::POSTGRES_PORT_NAME.to_owned()),
            port: Some(names::POSTGRES_PORT),
            protocol: Some("TCP".to_owned()),
            app_protocol: None,
        }]),
    }
}

fn endpoint(target: &Target<'_>) -> Endpoint {
    Endpoint {
        addresses: vec![target.address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            serving: Some(true),
            terminating: Some(false),
        }),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            name: Some(target.pod.to_owned()),
            namespace: Some(target.namespace.to_owned()),
            uid: Some(target.pod_uid.to_owned()),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

/// The term that wrote the slice; `None` when it is not this SampleDB's or has none.
pub fn term_of(slice: &EndpointSlice, uid: &str) -> Option<i64> {
    let annotations = slice.metadata.annotations.as_ref()?;
    (annotations.get(labels::UID)? == uid).then_some(())?;
    annotations.get(labels::TERM)?.parse().ok()
}

/// Whether a slice is another SampleDB's: by its annotation and by its owner. One of them alone is a stranger's edit.
pub fn is_anothers(slice: &EndpointSlice, uid: &str) -> bool {
    let annotated = slice
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(labels::UID));
    let owners = || {
        slice
            .metadata
            .owner_references
            .iter()
            .flatten()
            .filter(|o| o.kind == "SampleDB")
    };
    annotated.is_some_and(|owner| owner != uid) && owners().next().is_some() && owners().all(|o| o.uid != uid)
}

/// Whether a slice leads where it should: what a stranger may have changed is compared, the rest is left alone.
pub fn same(found: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let kept = |have: Option<&BTreeMap<String, String>>, want: Option<&BTreeMap<String, String>>| {
        want.is_none_or(|want| want.iter().all(|(k, v)| have.and_then(|h| h.get(k)) == Some(v)))
    };
    found.endpoints == wanted.endpoints
        && found.ports == wanted.ports
        && kept(found.metadata.labels.as_ref(), wanted.metadata.labels.as_ref())
        && kept(
            found.metadata.annotations.as_ref(),
            wanted.metadata.annotations.as_ref(),
        )
        && wanted.metadata.owner_references.as_ref().is_none_or(|want| {
            want.iter().all(|w| {
                found
                    .metadata
                    .owner_references
                    .iter()
                    .flatten()
                    .any(|o| o.uid == w.uid)
            })
        })
}

/// The patch that makes `wanted` of `found` in one step, and fails when anybody, and above all a later term, was
/// first. Never fails in practice: it is plain data.
pub fn patch(found: &EndpointSlice, wanted: &EndpointSlice) -> Result<Patch, serde_json::Error> {
    let pointer = |key: &str| {
        format!(
            "/metadata/annotations/{}",
            key.replace('~', "~0").replace('/', "~1")
        )
    };
    let annotation = |key: &str| found.metadata.annotations.as_ref().and_then(|a| a.get(key));
    let mut operations: Vec<Value> = Vec::new();
    if let Some(term) = annotation(labels::TERM) {
        operations.push(json!({"op": "test", "path": pointer(labels::TERM), "value": term}));
    }
    operations.push(
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version}),
    );
    let mut add =
        |path: String, value: Value| operations.push(json!({"op": "add", "path": path, "value": value}));
    if found.metadata.annotations.is_none() {
        add("/metadata/annotations".into(), json!(wanted.metadata.annotations));
    }
    for (key, value) in wanted.metadata.annotations.iter().flatten() {
        if annotation(key) != Some(value) {
            add(pointer(key), json!(value));
        }
    }
    if wanted
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(k, v)| found.metadata.labels.as_ref().and_then(|l| l.get(k)) != Some(v))
    {
        let mut all = found.metadata.labels.clone().unwrap_or_default();
        all.extend(wanted.metadata.labels.clone().unwrap_or_default());
        add("/metadata/labels".into(), json!(all));
    }
    let owned = wanted.metadata.owner_references.iter().flatten().all(|w| {
        found
            .metadata
            .owner_references
            .iter()
            .flatten()
            .any(|o| o.uid == w.uid)
    });
    if !owned {
        add(
            "/metadata/ownerReferences".into(),
            json!(wanted.metadata.owner_references),
        );
    }
    if found.endpoints != wanted.endpoints {
        add("/endpoints".into(), json!(wanted.endpoints));
    }
    if found.ports != wanted.ports {
        add("/ports".into(), json!(wanted.ports));
    }
    serde_json::from_value(Value::Array(operations))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target<'static> {
        Target {
            name: "orders",
            namespace: "shop",
            uid: "uid-1",
            pod: "orders-0",
            pod_uid: "pod-1",
            address: IpAddr::from([10, 0, 0, 7]),
            manager: "sampledb-agent",
        }
    }

    fn found(term: i64, filled: bool) -> EndpointSlice {
        let mut slice = slice(&target(), term, filled);
        slice.metadata.resource_version = Some("77".into());
        slice
    }

    #[test]
    fn clients_reach_the_primary_through_this_slice() {
        insta::assert_yaml_snapshot!(slice(&target(), 3, true));
    }

    #[test]
    fn an_ipv6_pod_is_reached() {
        let target = Target {
            address: "fd00::7".parse().unwrap(),
            ..target()
        };
        let slice = slice(&target, 1, true);
        assert_eq!(
            (
                slice.address_type.as_str(),
                slice.endpoints[0].addresses[0].as_str()
            ),
            ("IPv6", "fd00::7")
        );
    }

    #[test]
    fn an_empty_slice_is_filled_in_one_patch_that_a_later_term_defeats() {
        insta::assert_yaml_snapshot!(patch(&found(3, false), &slice(&target(), 4, true)).unwrap());
    }

    #[test]
    fn what_a_stranger_changed_is_put_back() {
        let mut edited = found(3, true);
        edited.endpoints[0].addresses = vec!["10.6.6.6".into()];
        edited.metadata.labels = None;
        edited.metadata.owner_references = None;
        let wanted = slice(&target(), 3, true);
        assert!(!same(&edited, &wanted));
        insta::assert_yaml_snapshot!(patch(&edited, &wanted).unwrap());
    }

    #[test]
    fn a_stranger_who_adds_a_label_costs_no_write() {
        let mut edited = found(3, true);
        edited
            .metadata
            .labels
            .get_or_insert_default()
            .insert("team".into(), "x".into());
        assert!(same(&edited, &slice(&target(), 3, true)));
    }

    #[test]
    fn another_databases_slice_has_no_term_of_ours() {
        assert_eq!(term_of(&found(3, true), "uid-1"), Some(3));
        assert_eq!(term_of(&found(3, true), "uid-2"), None);
        assert!(is_anothers(&found(3, true), "uid-2"));
        assert!(!is_anothers(&found(3, true), "uid-1"));
    }

    #[test]
    fn a_stranger_cannot_disown_a_slice_with_an_annotation() {
        let mut edited = found(3, true);
        edited
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(labels::UID.into(), "uid-2".into());
        assert!(!is_anothers(&edited, "uid-1"));
    }
}
