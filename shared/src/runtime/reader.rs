//! Live reads for `observe`.

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::plan::Error;

/// Reads the cluster, live, in the namespace of one SampleDB. It cannot write.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    namespace: String,
    release_namespace: String,
    absent: Vec<&'static str>,
}

impl Reader {
    /// Reads in `namespace`; `absent` are the writers that have not been seen lately.
    pub fn new(
        client: Client,
        namespace: String,
        release_namespace: String,
        absent: Vec<&'static str>,
    ) -> Self {
        Self {
            client,
            namespace,
            release_namespace,
            absent,
        }
    }

    /// The object with this name; `None` when there is none.
    pub async fn get<K>(&self, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.get_in(&self.namespace, name).await
    }

    /// The same in the namespace of the release: the chart's own objects.
    pub async fn get_of_release<K>(&self, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.get_in(&self.release_namespace, name).await
    }

    async fn get_in<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        Api::<K>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(|e| Error::api(format!("get {} {namespace}/{name}", K::kind(&())), e))
    }

    /// The objects a label selector finds.
    pub async fn list<K>(&self, params: &ListParams) -> Result<Vec<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        Api::<K>::namespaced(self.client.clone(), &self.namespace)
            .list(params)
            .await
            .map(|list| list.items)
            .map_err(|e| Error::api(format!("list {} in {}", K::plural(&()), self.namespace), e))
    }

    /// Whether another writer was seen lately: a controller by its Lease, judged by the local clock since it last
    /// changed (60 s).
    pub fn is_seen(&self, manager: &str) -> bool {
        !self.absent.contains(&manager)
    }

    /// The time of this look: what is minted while looking (certificates) is dated by it.
    #[allow(
        clippy::disallowed_methods,
        reason = "the runtime hands out the time; `observe` has no clock of its own"
    )]
    pub fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    /// The namespace of the release.
    pub fn release_namespace(&self) -> &str {
        &self.release_namespace
    }
}
