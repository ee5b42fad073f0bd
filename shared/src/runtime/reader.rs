//! Reads for `observe`.

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, GetParams, ListParams, VersionMatch};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::freshness::Freshness;
use super::plan::Error;

/// A kind that can be read: one of those that live in a namespace.
pub trait Readable:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug
{
}

impl<K> Readable for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + DeserializeOwned
        + Clone
        + std::fmt::Debug
{
}

/// Reads the cluster in the namespace of one SampleDB. It cannot write.
///
/// What a controller watches is read at least as new as everything it was told and everything it wrote ([`get`] and
/// [`list`]); what it does not watch (Secrets, Events) is read live, and so is what nobody tells it of although it watches
/// the kind: objects without the suite's label ([`get_live`], [`get_of_release`]).
///
/// [`get`]: Self::get
/// [`list`]: Self::list
/// [`get_live`]: Self::get_live
/// [`get_of_release`]: Self::get_of_release
#[derive(Clone)]
pub struct Reader {
    client: Client,
    freshness: Arc<Freshness>,
    namespace: String,
    release_namespace: String,
    absent: Vec<&'static str>,
}

impl Reader {
    /// Reads in `namespace`; `absent` are the writers that have not been seen lately.
    pub fn new(
        client: Client,
        freshness: Arc<Freshness>,
        namespace: String,
        release_namespace: String,
        absent: Vec<&'static str>,
    ) -> Self {
        Self {
            client,
            freshness,
            namespace,
            release_namespace,
            absent,
        }
    }

    /// The object with this name; `None` when there is none.
    pub async fn get<K: Readable>(&self, name: &str) -> Result<Option<K>, Error> {
        let kind = K::kind(&());
        let found = fresh(&self.freshness, &kind, async |version| {
            self.get_in(&self.namespace, name, version).await
        });
        found.await.map_err(|e| get_failed::<K>(&self.namespace, name, e))
    }

    /// A user's object with this name, live; `None` when there is none.
    pub async fn get_live<K: Readable>(&self, name: &str) -> Result<Option<K>, Error> {
        let found = self.get_in(&self.namespace, name, None).await;
        found.map_err(|e| get_failed::<K>(&self.namespace, name, e))
    }

    /// The same in the namespace of the release: the chart's own objects.
    pub async fn get_of_release<K: Readable>(&self, name: &str) -> Result<Option<K>, Error> {
        let found = self.get_in(&self.release_namespace, name, None).await;
        found.map_err(|e| get_failed::<K>(&self.release_namespace, name, e))
    }

    async fn get_in<K: Readable>(
        &self,
        namespace: &str,
        name: &str,
        version: Option<String>,
    ) -> Result<Option<K>, kube::Error> {
        let params = GetParams {
            resource_version: version,
        };
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        match api.get_with(name, &params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// The objects a label selector finds.
    pub async fn list<K: Readable>(&self, params: &ListParams) -> Result<Vec<K>, Error> {
        let api = Api::<K>::namespaced(self.client.clone(), &self.namespace);
        let kind = K::kind(&());
        let found = fresh(&self.freshness, &kind, async |version| {
            let mut params = params.clone();
            params.version_match = version.is_some().then_some(VersionMatch::NotOlderThan);
            params.resource_version = version;
            api.list(&params).await
        });
        found
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

fn get_failed<K: Readable>(namespace: &str, name: &str, error: kube::Error) -> Error {
    Error::api(format!("get {} {namespace}/{name}", K::kind(&())), error)
}

/// Reads not older than what is known of the kind, or live. The API server answers 504 when its cache does not get
/// that far: it is behind, or etcd was put back to an older state. Then nothing is known any more, and the read is live as
/// well.
async fn fresh<T, F>(
    freshness: &Freshness,
    kind: &str,
    read: impl Fn(Option<String>) -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    if let Some(version) = freshness.at_least(kind) {
        match Box::pin(read(Some(version))).await {
            Err(kube::Error::Api(status)) if status.code == 504 => freshness.forget(kind),
            answer => return answer,
        }
    }
    Box::pin(read(None)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::client::Body;

    use super::*;

    /// A reader of an API server whose cache is no newer than `cache`, and what it was asked.
    fn reader(known: &str, cache: u64) -> (Reader, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let server = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().to_string();
            let wanted = uri
                .split("resourceVersion=")
                .nth(1)
                .and_then(|v| v.split('&').next()?.parse().ok());
            log.lock().unwrap().push(uri);
            async move {
                let is_ahead = wanted.is_some_and(|wanted: u64| wanted > cache);
                let (code, reason) = if is_ahead {
                    (504, "Timeout")
                } else {
                    (404, "NotFound")
                };
                let said = serde_json::json!({"kind": "Status", "status": "Failure", "message": "m", "code": code, "reason": reason});
                let body = Body::from(said.to_string().into_bytes());
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let freshness = Arc::new(Freshness::of(["ConfigMap".to_owned()]));
        freshness.note("ConfigMap", known);
        let client = Client::new(server, "shop");
        (
            Reader::new(client, freshness, "shop".into(), "system".into(), vec![]),
            asked,
        )
    }

    fn last(asked: &Mutex<Vec<String>>) -> String {
        asked.lock().unwrap().last().cloned().unwrap_or_default()
    }

    #[tokio::test]
    async fn what_is_watched_is_read_no_older_than_it_is_known_and_the_rest_live() {
        let (reader, asked) = reader("41", 50);
        reader.get::<ConfigMap>("orders").await.unwrap();
        assert!(last(&asked).contains("resourceVersion=41"), "{asked:?}");
        let _ = reader.list::<ConfigMap>(&ListParams::default()).await;
        assert!(last(&asked).contains("resourceVersion=41"), "{asked:?}");
        assert!(last(&asked).contains("NotOlderThan"), "{asked:?}");
        reader.get::<Secret>("orders-owner").await.unwrap();
        assert!(!last(&asked).contains("resourceVersion"), "{asked:?}");
        reader.get_live::<ConfigMap>("initial-sql").await.unwrap();
        assert!(
            !last(&asked).contains("resourceVersion"),
            "nobody tells of it: {asked:?}"
        );
        reader.get_of_release::<ConfigMap>("catalog").await.unwrap();
        assert!(
            !last(&asked).contains("resourceVersion"),
            "nor of this: {asked:?}"
        );
    }

    #[tokio::test]
    async fn a_cache_that_is_behind_is_not_waited_for_twice() {
        let (reader, asked) = reader("41", 40);
        assert!(reader.get::<ConfigMap>("orders").await.unwrap().is_none());
        assert!(!last(&asked).contains("resourceVersion"), "{asked:?}");
        assert_eq!(asked.lock().unwrap().len(), 2);
        reader.get::<ConfigMap>("orders").await.unwrap();
        assert_eq!(
            asked.lock().unwrap().len(),
            3,
            "the next read does not wait at all"
        );
    }
}
