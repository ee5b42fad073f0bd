//! Labels and annotations of everything that belongs to a SampleDB.

use std::collections::BTreeMap;

/// On every child: the SampleDB's name. The guard policy and the watches select by it.
pub const NAME: &str = "sampledb.dev/name";
/// On every child: the UID of the SampleDB it was made for. A child is ours when it equals ours.
pub const UID: &str = "sampledb.dev/uid";
/// On the `-rw` EndpointSlice: the term that wrote it.
pub const TERM: &str = "sampledb.dev/term";
/// On the configuration: the hash of its content.
pub const CONFIG_HASH: &str = "sampledb.dev/config-hash";
/// On a SampleDB, by the user: restart PostgreSQL once for each new value.
pub const RESTARTED_AT: &str = "sampledb.dev/restartedAt";
/// On a SampleDB, by the user: adopt kept volumes of the SampleDB with this UID.
pub const ADOPT_VOLUMES: &str = "sampledb.dev/adopt-volumes";
/// On a SampleDB or a namespace, by the user: its UID, to confirm a delete that would be refused.
pub const CONFIRM_DELETE: &str = "sampledb.dev/confirm-delete";
/// Kubernetes' label of what a thing is within its application.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Kubernetes' label of who made a thing.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The pods, their claims, StatefulSet, PDB, ServiceAccount.
    Database,
    /// The init Job.
    Init,
    /// Services and slices.
    Service,
    /// Secrets.
    Credentials,
    /// ConfigMaps.
    Config,
}

impl Component {
    /// As it stands in the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Init => "init",
            Self::Service => "service",
            Self::Credentials => "credentials",
            Self::Config => "config",
        }
    }
}

/// The labels of a child of the SampleDB `name`, made by `manager`.
pub fn child(name: &str, component: Component, manager: &str) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", super::names::SUITE),
        ("app.kubernetes.io/instance", name),
        (COMPONENT, component.as_str()),
        ("app.kubernetes.io/part-of", super::names::SUITE),
        (MANAGED_BY, manager),
        (NAME, name),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into()
}

/// Which restart of PostgreSQL a SampleDB's annotations ask for, as it stands in `status.instances[].restartedAt` once
/// it was done: a longer wish is cut to what fits there.
pub fn restart_wish(annotations: Option<&BTreeMap<String, String>>) -> Option<String> {
    annotations?
        .get(RESTARTED_AT)
        .map(|wish| super::conditions::truncated(wish, 128))
}

/// The labels that select the database's pods.
pub fn pod_selector(name: &str) -> BTreeMap<String, String> {
    [(NAME, name), (COMPONENT, Component::Database.as_str())]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into()
}

/// The same as text, for `status.selector`.
pub fn pod_selector_text(name: &str) -> String {
    format!("{NAME}={name},{COMPONENT}={}", Component::Database.as_str())
}
