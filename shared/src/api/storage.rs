//! `spec.storage`: the volumes.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The volumes of each instance.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.wal) == has(oldSelf.wal)").message("storage.wal cannot be added or taken away later: it is chosen when the database is created"))]
pub struct Storage {
    /// The volume of the data directory.
    pub data: Volume,
    /// A volume of its own for the write-ahead log, so that neither can fill the other. Default: none; the log is on the data volume. Whether there is one is immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal: Option<Volume>,
    /// Who may mount the volumes: `ReadWriteOncePod` (one pod in the whole cluster) or `ReadWriteOnce` (one node; for storage that cannot do the first). Default: ReadWriteOncePod. Immutable.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("storage.accessMode is immutable: a claim's access mode cannot be changed"))]
    pub access_mode: AccessMode,
}

/// One volume.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)").message("storageClassName is immutable: a claim cannot move to another class"))]
pub struct Volume {
    /// The size in bytes, as a quantity ("20Gi"); at least 256Mi. Effect: it grows online; it cannot shrink.
    #[x_kube(
        validation = Rule::new("isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('256Mi')) >= 0").message("size must be a quantity of at least 256Mi, such as 20Gi"),
        validation = Rule::new("!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0")
            .message(Message::Expression("'size can only grow (it was ' + string(oldSelf) + '): restore into a new SampleDB to make it smaller'".into())),
    )]
    pub size: Quantity,
    /// The StorageClass; it should allow expansion. Default: the cluster's default class. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
}

/// Who may mount a volume.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessMode {
    /// One pod in the whole cluster: a pod of the same name elsewhere cannot start beside it.
    #[default]
    ReadWriteOncePod,
    /// The pods of one node.
    ReadWriteOnce,
}
