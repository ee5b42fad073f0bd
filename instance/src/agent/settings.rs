//! What the agent is told at its start.

use std::path::{Path, PathBuf};

use clap::Args;
use sampledb_shared::domain::names;

/// The pod, as the provisioner describes it to its agent.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The SampleDB's name.
    #[arg(long, env = "SAMPLEDB_NAME")]
    pub name: String,
    /// Its namespace.
    #[arg(long, env = "SAMPLEDB_NAMESPACE")]
    pub namespace: String,
    /// Its UID: the agent serves this object and no later one of the same name.
    #[arg(long, env = "SAMPLEDB_UID")]
    pub uid: String,
    /// The pod's name.
    #[arg(long, env = "POD_NAME")]
    pub pod: String,
    /// The pod's UID.
    #[arg(long, env = "POD_UID")]
    pub pod_uid: String,
    /// The pod's address.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: std::net::IpAddr,
    /// The cluster's DNS domain.
    #[arg(long, env = "SAMPLEDB_CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Whether the write-ahead log has a volume of its own.
    #[arg(long, env = "SAMPLEDB_HAS_WAL", default_value_t = false, action = clap::ArgAction::Set)]
    pub has_wal: bool,
    /// The user that the runner must have.
    #[arg(long, env = "SAMPLEDB_RUNNER_UID", default_value_t = 999, hide = true)]
    pub runner_uid: u32,
    /// Where `/` is taken to be: for tests.
    #[arg(long, env = "SAMPLEDB_ROOT", default_value = "/", hide = true)]
    pub root: PathBuf,
    /// The port of metrics and probes.
    #[arg(long, default_value_t = 9187, hide = true)]
    pub metrics_port: u16,
    /// The port of PostgreSQL.
    #[arg(long, default_value_t = 5432, hide = true)]
    pub postgres_port: u16,
}

/// The pod's name does not end in a number.
#[derive(Debug, thiserror::Error)]
#[error("POD_NAME is {0:?}: a pod of a StatefulSet is named {1}-<number>")]
pub struct NotAnInstance(String, String);

impl Settings {
    /// The pod's number within the StatefulSet.
    pub fn ordinal(&self) -> Result<i32, NotAnInstance> {
        self.pod
            .strip_prefix(&self.name)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| NotAnInstance(self.pod.clone(), self.name.clone()))
    }

    /// The claim of the data volume.
    pub fn data_claim(&self) -> Result<String, NotAnInstance> {
        Ok(names::data_claim(&self.name, self.ordinal()?))
    }

    /// A path of the pod.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file in a folder of the pod.
    pub fn file(&self, folder: &str, name: &str) -> PathBuf {
        self.at(folder).join(Path::new(name))
    }
}
