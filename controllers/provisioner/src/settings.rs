//! What the chart chooses for every SampleDB.

/// What the chart chooses for every SampleDB.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Settings {
    /// The cluster's DNS domain; it is in the certificates' names.
    #[arg(long, env = "SAMPLEDB_CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// The image of the agent, of the runner and of the Jobs, for databases made from now on.
    #[arg(long, env = "SAMPLEDB_INSTANCE_IMAGE")]
    pub instance_image: String,
    /// Images that `spec.postgres.image` may name, `*` standing for any characters; none: the catalogue alone.
    #[arg(long, env = "SAMPLEDB_ALLOWED_IMAGES", value_delimiter = ',')]
    pub allowed_images: Vec<String>,
    /// Secrets with which the nodes pull the images; they must be in the namespace of each SampleDB.
    #[arg(
        long = "image-pull-secret",
        env = "SAMPLEDB_IMAGE_PULL_SECRETS",
        value_delimiter = ','
    )]
    pub image_pull_secrets: Vec<String>,
}
