//! `status.endpoints` and `status.binding`: where clients reach the database.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Where clients reach the database. It names no instance, so that a failover writes nothing here.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Endpoints {
    /// The UID of the SampleDB this was written for; readers ignore another's.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The instance that takes writes.
    pub rw: Endpoint,
    /// Every ready instance; absent when the Service is not enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r: Option<Endpoint>,
    /// The Secret with the connection.
    #[schemars(length(max = 253))]
    pub secret_name: String,
    /// The ConfigMap with the connection, without secrets.
    #[schemars(length(max = 253))]
    pub config_map_name: String,
}

/// One way in.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The name inside the cluster.
    #[schemars(length(max = 253))]
    pub host: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Addresses and names outside the cluster: of the load balancer, and `externalNames`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 253)))]
    pub external: Vec<String>,
}

/// The Secret with the connection, as Service Binding for Kubernetes wants it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Binding {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
}
