//! `spec.scheduling`: where the pods run and what they may use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the pods run and what they may use.
///
/// Whoever may write a SampleDB need not be allowed to make pods: what would put a pod before, or beside, those of the
/// cluster itself is refused. Other PriorityClasses are limited by a ResourceQuota of the namespace, as for any pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a node must have. Default: none. Effect: at the next restart of the pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32), extend("additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods tolerate. Default: none. Effect: at the next restart of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(t, has(t.key) && t.key != '' && !t.key.startsWith('node-role.kubernetes.io/'))").message("scheduling.tolerations: each names a taint (key), and none the cluster's own nodes (node-role.kubernetes.io/*)"))]
    pub tolerations: Vec<Toleration>,
    /// The PriorityClass of the pods. Default: the cluster's. Effect: at the next restart of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("!self.startsWith('system-')").message("scheduling.priorityClassName: the classes system-* are the cluster's own; use another PriorityClass"))]
    pub priority_class_name: Option<String>,
    /// CPU and memory of the PostgreSQL container. Default: requests of 100m and 256Mi, no limits. Effect: at the next restart of the pod.
    #[serde(default)]
    pub resources: Resources,
}

/// CPU and memory.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What is set aside: `cpu` in cores, `memory` in bytes, as quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8), extend("additionalProperties" = quantity()))]
    pub requests: BTreeMap<String, Quantity>,
    /// What is not exceeded: `cpu` in cores, `memory` in bytes, as quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8), extend("additionalProperties" = quantity()))]
    pub limits: BTreeMap<String, Quantity>,
}

/// A quantity that is not negative, as the API server reads it: what it could not read in a pod is refused here.
fn quantity() -> serde_json::Value {
    serde_json::json!({
        "description": "A quantity, such as 500m or 2Gi.",
        "x-kubernetes-int-or-string": true,
        "maxLength": 32,
        "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    })
}
