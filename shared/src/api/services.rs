//! `spec.services`: how clients reach the database.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How clients reach the database.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Services {
    /// `<name>-rw`: the instance that takes writes. Default: a ClusterIP Service. Effect: live.
    pub rw: RwService,
    /// `<name>-r`: every ready instance, the primary included. Default: none. Effect: live.
    pub r: RService,
}

/// The Service of the instance that takes writes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RwService {
    /// ClusterIP, NodePort or LoadBalancer. Default: ClusterIP. Effect: live.
    #[serde(default, rename = "type")]
    pub type_: ServiceType,
    /// Annotations on the Service, for load balancers and DNS. Default: none. Effect: live.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32), extend("additionalProperties" = {"type": "string", "maxLength": 4096}))]
    #[x_kube(
        validation = Rule::new("self.all(k, !k.startsWith('sampledb.dev/') && !k.startsWith('app.kubernetes.io/'))").message("services.rw.annotations: sampledb.dev/* and app.kubernetes.io/* are the suite's own"),
        validation = Rule::new("self.all(k, size(k) <= 317 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))").message("services.rw.annotations: a key is a name of at most 63 letters, digits, '-', '_' and '.', after an optional DNS prefix and '/'"),
    )]
    pub annotations: BTreeMap<String, String>,
    /// Names by which clients outside the cluster reach it; they are added to the server's certificate. Default: none. Effect: the certificate is issued again and loaded without a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(
            length(min = 1, max = 253),
            regex(pattern = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
        )
    )]
    pub external_names: Vec<String>,
}

/// The Service of every ready instance.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RService {
    /// Whether there is one. Default: false. Effect: live.
    pub enabled: bool,
}

/// The type of a Service.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// Reached inside the cluster.
    #[default]
    ClusterIP,
    /// Also on a port of every node.
    NodePort,
    /// Also through the cloud's load balancer.
    LoadBalancer,
}
