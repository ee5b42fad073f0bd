//! `spec.scheduling`: where the pods run and what they may use.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the pods run and what they may use.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scheduling {
    /// Labels that a node must have. Default: none. Effect: at the next restart of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32), extend("additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods tolerate. Default: none. Effect: at the next restart of the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// The PriorityClass of the pods. Default: the cluster's. Effect: at the next restart of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// CPU and memory of the PostgreSQL container. Default: requests of 100m and 256Mi, no limits. Effect: at the next restart of the pod.
    pub resources: Resources,
}

/// CPU and memory.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What is set aside: `cpu` in cores, `memory` in bytes, as quantities.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub requests: BTreeMap<String, Quantity>,
    /// What is not exceeded: `cpu` in cores, `memory` in bytes, as quantities.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub limits: BTreeMap<String, Quantity>,
}
