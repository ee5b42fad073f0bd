//! What a controller is to the runtime, and what passes between them: plain data.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{ApiResource, ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::reader::Reader;
use crate::api::SampleDb;
use crate::api::ownership::Writer;
use crate::domain::hex::hex;
use crate::domain::labels;

/// A controller: four functions, of which only `observe` does IO.
pub trait Controller: Send + Sync + 'static {
    /// What one look at the cluster found. Plain data: no client, no clock.
    type Observed: Send + Sync;

    /// Its row in the ownership table.
    const WRITER: &'static Writer;

    /// The kinds of children whose changes wake it. Only metadata is watched, of objects with the label
    /// `sampledb.dev/name`.
    fn watched(&self) -> Vec<ApiResource>;

    /// The other writers whose presence it reports (their managers); see [`Reader::is_seen`].
    fn depends_on(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it reads of a SampleDB besides generation, annotations and deletion; a change wakes it. Its own
    /// sections and conditions never belong here.
    fn inputs(&self, db: &SampleDb) -> Value;

    /// Reads what `decide` needs. Nothing is written here.
    fn observe(
        &self,
        db: &SampleDb,
        cluster: &Reader,
    ) -> impl Future<Output = Result<Self::Observed, Error>> + Send;

    /// The policy. Total and deterministic: the same inputs give the same plan.
    fn decide(&self, db: &SampleDb, seen: &Self::Observed, now: Timestamp) -> Plan;

    /// The whole section this controller owns, from what was seen and what became of the plan.
    fn report(&self, db: &SampleDb, seen: &Self::Observed, applied: &Applied, now: Timestamp) -> Report;
}

/// Everything this pass wants done, and nothing done yet.
#[derive(Debug, Default)]
pub struct Plan {
    /// To apply, several at the same time, what others wait for first.
    pub apply: Vec<Desired>,
    /// To delete, after everything was applied.
    pub delete: Vec<Doomed>,
    /// To tell.
    pub events: Vec<Note>,
    /// When to look again without being woken; `None`: never.
    pub requeue: Option<Duration>,
}

/// What is to be said after a pass.
#[derive(Debug, Default)]
pub struct Report {
    /// The fields of `status` this controller owns, `conditions` among them, each whole; never null.
    pub status: serde_json::Map<String, Value>,
    /// To tell.
    pub events: Vec<Note>,
}

/// A child as it should be.
#[derive(Clone)]
pub struct Desired {
    /// Its kind.
    pub resource: ApiResource,
    /// The whole object as this controller wants it, with `apiVersion`, `kind` and name, without `status`.
    pub object: Value,
    /// What `observe` found under this name; `None`: nothing.
    pub seen: Option<Seen>,
}

/// Without the object: it may be a Secret.
impl std::fmt::Debug for Desired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desired")
            .field("kind", &self.resource.kind)
            .field("name", &self.name())
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Desired {
    /// A child as it should be.
    ///
    /// # Errors
    /// [`Error::Bug`] when the object cannot be written as JSON or has no name.
    pub fn new<K>(object: &K, seen: Option<Seen>) -> Result<Self, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        if object.meta().name.is_none() {
            return Err(Error::Bug(format!("a built {} has no name", K::kind(&()))));
        }
        let mut value =
            serde_json::to_value(object).map_err(|e| Error::Bug(format!("{}: {e}", K::kind(&()))))?;
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = K::kind(&()).into();
        Ok(Self {
            resource: ApiResource::erase::<K>(&()),
            object: value,
            seen,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// A hash of what is wanted.
    pub fn hash(&self) -> String {
        hash(&self.object)
    }
}

/// What a look found of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// The UID of the SampleDB it says it was made for (annotation `sampledb.dev/uid`).
    pub made_for: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Changes whenever something changes that a person or another writer could have meant: the generation where
    /// the kind has one, else the resourceVersion, with labels, annotations and owner references.
    pub fingerprint: String,
}

impl Seen {
    /// From an object that was read.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// From the metadata of an object that was read.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let version = meta.generation.map_or_else(
            || meta.resource_version.clone().unwrap_or_default(),
            |g| format!("g{g}"),
        );
        let fingerprint = hash(&serde_json::json!([
            version,
            meta.labels,
            meta.annotations,
            meta.owner_references,
            meta.finalizers
        ]));
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            made_for: meta
                .annotations
                .as_ref()
                .and_then(|a| a.get(labels::UID))
                .cloned(),
            deleting: meta.deletion_timestamp.is_some(),
            fingerprint,
        }
    }

    /// Whether it was made for this SampleDB.
    pub fn is_ours(&self, db: &SampleDb) -> bool {
        self.made_for.is_some() && self.made_for == db.uid()
    }
}

/// The SHA-256 of a value, in hexadecimal; equal for equal values (maps are sorted by `serde_json`).
pub fn hash(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes()))
}

/// A child to be removed: exactly the one that was seen.
#[derive(Clone, Debug)]
pub struct Doomed {
    /// Its kind.
    pub resource: ApiResource,
    /// Its name.
    pub name: String,
    /// What was seen: the delete carries its UID and resourceVersion.
    pub seen: Seen,
    /// Whether what it owns stays behind, as the pods of a StatefulSet that is made anew; else the garbage
    /// collector removes that too.
    pub orphan: bool,
}

/// Something worth telling a person, as an Event on the SampleDB.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Whether a person should act.
    pub warning: bool,
    /// One word of an enum.
    pub reason: &'static str,
    /// What was done, one word.
    pub action: &'static str,
    /// For a person.
    pub message: String,
}

/// What became of the plan.
#[derive(Debug, Default)]
pub struct Applied {
    /// The children that are there as wanted, by (kind, name), as the API server has them now.
    pub objects: BTreeMap<(String, String), Value>,
    /// What was refused.
    pub refused: Vec<Refusal>,
}

/// What the API server said no to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the child.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What follows from it.
    pub class: ErrorClass,
    /// The API server's words.
    pub message: String,
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The input is wrong: wait for a change of it.
    Invalid,
    /// It may go away: try again, later and later.
    Transient,
    /// Somebody else wrote: look again at once.
    Conflict,
    /// Not allowed (rights, quota, an admission policy): a person must act; tried again slowly.
    Forbidden,
    /// Ours.
    Bug,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do what was asked.
    #[error("{what}: {source}")]
    Api {
        /// What was asked, with the object's kind and name.
        what: String,
        /// Its answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// The input is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Ours.
    #[error("bug: {0}")]
    Bug(String),
}

impl Error {
    /// An answer of the API server.
    pub fn api(what: impl Into<String>, source: kube::Error) -> Self {
        Self::Api {
            what: what.into(),
            source: Box::new(source),
        }
    }

    /// What follows from it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Api { source, .. } => class_of(source),
            Self::Invalid(_) => ErrorClass::Invalid,
            Self::Bug(_) => ErrorClass::Bug,
        }
    }
}

/// What follows from an answer of the API server.
pub fn class_of(error: &kube::Error) -> ErrorClass {
    match error {
        kube::Error::Api(status) => match status.code {
            400 | 422 => ErrorClass::Invalid,
            401 | 403 => ErrorClass::Forbidden,
            409 => ErrorClass::Conflict,
            _ => ErrorClass::Transient,
        },
        _ => ErrorClass::Transient,
    }
}
