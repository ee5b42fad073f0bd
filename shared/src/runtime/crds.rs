//! Kinds are detected, never assumed: what is not served is waited for, and `/readyz` says so.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use kube::Client;
use kube::api::ApiResource;

/// A kind that is not served is looked for again after this time; twice as long each time, to [`SLOWEST`].
const FIRST: Duration = Duration::from_millis(500);
/// The longest time between two looks.
const SLOWEST: Duration = Duration::from_secs(15);

/// The kinds that are waited for.
#[derive(Debug, Default)]
pub struct Missing(Mutex<BTreeSet<String>>);

impl Missing {
    /// What is missing now, with what is known of it.
    pub fn list(&self) -> Vec<String> {
        lock(&self.0).iter().cloned().collect()
    }

    fn note(&self, entry: &str) {
        lock(&self.0).insert(entry.to_owned());
    }

    fn clear(&self, entry: &str) {
        lock(&self.0).remove(entry);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One look; a kind that was not found stands in `missing`.
pub async fn look(client: &Client, resource: &ApiResource, missing: &Missing) -> bool {
    let found = matches!(is_served(client, resource).await, Ok(true));
    if !found {
        missing.note(&entry(resource));
    }
    found
}

fn entry(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.api_version)
}

/// Returns once `resource` is served. Until then it stands in `missing`.
pub async fn served(client: &Client, resource: &ApiResource, missing: &Missing) {
    let entry = entry(resource);
    let mut pause = FIRST;
    loop {
        match is_served(client, resource).await {
            Ok(true) => {
                missing.clear(&entry);
                return;
            }
            Ok(false) => {
                missing.note(&entry);
                tracing::warn!(
                    event = "kind_missing",
                    kind = resource.kind,
                    api_version = resource.api_version,
                    "the API server does not serve this kind yet; waiting for it"
                );
            }
            Err(error) => {
                missing.note(&entry);
                tracing::warn!(event = "api_unreachable", %error, "the API server could not be asked for its kinds");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(SLOWEST);
    }
}

async fn is_served(client: &Client, resource: &ApiResource) -> Result<bool, kube::Error> {
    let found = if resource.group.is_empty() {
        client.list_core_api_resources(&resource.version).await
    } else {
        client.list_api_group_resources(&resource.api_version).await
    };
    match found {
        Ok(list) => Ok(list.resources.iter().any(|r| r.name == resource.plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}
