//! What the chart chooses for every SampleDB.

/// What the chart chooses for every SampleDB.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// The cluster's DNS domain; it is in the published hosts.
    #[arg(long, env = "SAMPLEDB_CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
}
