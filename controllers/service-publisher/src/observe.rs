//! Reads, and nothing else: the children that are there, and the credentials they are made from.

use std::collections::BTreeMap;

use futures::try_join;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::names;
use sampledb_shared::runtime::{Error, ErrorClass, Reader, Seen, Sensitive};

/// Kubernetes' label of the Service that a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What one look at the cluster found.
#[derive(Debug, Default)]
pub struct Observed {
    /// The Service `<name>-rw`.
    pub rw: Option<ServiceView>,
    /// The Service `<name>-pods`.
    pub pods: Option<Child>,
    /// The Service `<name>-r`.
    pub r: Option<Child>,
    /// The ConfigMap `<name>-connection`.
    pub connection: Option<Child>,
    /// The Secret `<name>-app`.
    pub app: Option<Child>,
    /// The EndpointSlices of the Service `<name>-rw` beside the agents' own, by name: somebody leads clients elsewhere.
    pub strays: Vec<(String, Seen)>,
    /// What the connection is made from; `Err`: what it waits for, for a person.
    pub credentials: Option<Result<Credentials, String>>,
}

/// A child that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its metadata.
    pub seen: Seen,
    /// Whose it is.
    pub owner: Owner,
}

/// Whose a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This SampleDB's: by its annotation, or by its owner reference where a person took the annotation away.
    Us,
    /// A SampleDB's that is gone: the garbage collector is about to remove it.
    Gone,
    /// Another's.
    Stranger,
}

impl Child {
    /// From an object that was read for the SampleDB.
    pub fn of<K: Resource>(object: &K, db: &SampleDb) -> Self {
        let seen = Seen::of(object);
        let owned_by = |uid: Option<&String>| {
            uid.is_some()
                && object
                    .meta()
                    .owner_references
                    .iter()
                    .flatten()
                    .any(|o| Some(&o.uid) == uid)
        };
        let owner = if seen.is_ours(db) || owned_by(db.metadata.uid.as_ref()) {
            Owner::Us
        } else if seen.deleting || owned_by(seen.made_for.as_ref()) {
            Owner::Gone
        } else {
            Owner::Stranger
        };
        Self { seen, owner }
    }
}

/// The Service `<name>-rw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceView {
    /// Its metadata.
    pub child: Child,
    /// What the load balancer says of itself: addresses and names.
    pub external: Vec<String>,
}

impl ServiceView {
    /// From an object that was read for the SampleDB.
    pub fn of(service: &Service, db: &SampleDb) -> Self {
        let ingress = service
            .status
            .as_ref()
            .and_then(|s| s.load_balancer.as_ref())
            .and_then(|l| l.ingress.as_ref());
        let external = ingress
            .into_iter()
            .flatten()
            .filter_map(|i| i.hostname.clone().or_else(|| i.ip.clone()));
        Self {
            child: Child::of(service, db),
            external: external.collect(),
        }
    }
}

/// What the connection is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The owner's name.
    pub username: String,
    /// The owner's password.
    pub password: Sensitive,
    /// The certificates to trust, in PEM.
    pub ca: String,
}

/// Looks at everything that belongs to `db`. What is left alone (paused, being deleted) is not looked at.
pub async fn observe(db: &SampleDb, cluster: &Reader) -> Result<Observed, Error> {
    if db.spec.paused || db.metadata.deletion_timestamp.is_some() {
        return Ok(Observed::default());
    }
    let name = db.name_any();
    let services = [names::rw(&name), names::pods(&name), names::r(&name)];
    let config_maps = [names::connection(&name), names::trust(&name)];
    let secrets = [names::owner_secret(&name), names::app_secret(&name)];
    let slices = ListParams::default().labels(&format!("{SERVICE_NAME}={}", services[0]));
    let (rw, pods, r, connection, trust, owner, app, slices) = try_join!(
        cluster.get::<Service>(&services[0]),
        cluster.get::<Service>(&services[1]),
        cluster.get::<Service>(&services[2]),
        cluster.get::<ConfigMap>(&config_maps[0]),
        cluster.get::<ConfigMap>(&config_maps[1]),
        secret(cluster, &secrets[0]),
        secret(cluster, &secrets[1]),
        cluster.list::<EndpointSlice>(&slices),
    )?;
    Ok(Observed {
        rw: rw.map(|s| ServiceView::of(&s, db)),
        pods: pods.map(|s| Child::of(&s, db)),
        r: r.map(|s| Child::of(&s, db)),
        connection: connection.map(|c| Child::of(&c, db)),
        app: app
            .as_ref()
            .and_then(|a| a.as_ref().ok())
            .map(|s| Child::of(s, db)),
        strays: slices
            .iter()
            .filter(|slice| slice.name_any() != services[0])
            .map(|slice| (slice.name_any(), Seen::of(slice)))
            .collect(),
        credentials: Some(credentials(
            db,
            owner,
            trust.as_ref(),
            app.as_ref().and_then(|a| a.as_ref().err()),
        )),
    })
}

/// A Secret; `Err`: this controller may not read it yet, because the provisioner has not granted it.
async fn secret(cluster: &Reader, name: &str) -> Result<Option<Result<Secret, String>>, Error> {
    match cluster.get::<Secret>(name).await {
        Ok(found) => Ok(found.map(Ok)),
        Err(error) if error.class() == ErrorClass::Forbidden => Ok(Some(Err(format!(
            "the right to the Secret {name}, which the provisioner grants"
        )))),
        Err(error) => Err(error),
    }
}

fn credentials(
    db: &SampleDb,
    owner: Option<Result<Secret, String>>,
    trust: Option<&ConfigMap>,
    refused: Option<&String>,
) -> Result<Credentials, String> {
    let name = db.name_any();
    let (owner_name, trust_name) = (names::owner_secret(&name), names::trust(&name));
    if let Some(refused) = refused {
        return Err(refused.clone());
    }
    let owner = owner.ok_or_else(|| format!("the Secret {owner_name}"))??;
    if !Seen::of(&owner).is_ours(db) {
        return Err(format!(
            "a Secret {owner_name} of this SampleDB: the one there is another's"
        ));
    }
    let trust = trust
        .filter(|t| Seen::of(*t).is_ours(db))
        .ok_or_else(|| format!("the ConfigMap {trust_name}"))?;
    let data = owner.data.unwrap_or_default();
    let ca = trust
        .data
        .as_ref()
        .and_then(|d| d.get("ca.crt"))
        .filter(|ca| !ca.trim().is_empty());
    Ok(Credentials {
        username: text(&data, "username", &owner_name)?,
        password: Sensitive::new(text(&data, "password", &owner_name)?),
        ca: ca
            .ok_or_else(|| format!("the key ca.crt in the ConfigMap {trust_name}"))?
            .clone(),
    })
}

fn text(data: &BTreeMap<String, ByteString>, key: &str, secret: &str) -> Result<String, String> {
    let bytes = data
        .get(key)
        .filter(|v| !v.0.is_empty())
        .ok_or_else(|| format!("the key {key} in the Secret {secret}"))?;
    match std::str::from_utf8(&bytes.0) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(format!("a key {key} in the Secret {secret} that is UTF-8 text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn owner(made_for: &str, password: &[u8]) -> Secret {
        let mut secret = Secret {
            metadata: testing::meta("orders-owner", made_for),
            ..Secret::default()
        };
        let data = [("username", b"app".as_slice()), ("password", password)];
        secret.data = Some(data.map(|(k, v)| (k.to_owned(), ByteString(v.to_vec()))).into());
        secret
    }

    fn trust(made_for: &str) -> ConfigMap {
        let data = [("ca.crt".to_owned(), "PEM".to_owned())].into();
        ConfigMap {
            metadata: testing::meta("orders-trust", made_for),
            data: Some(data),
            ..ConfigMap::default()
        }
    }

    #[test]
    fn a_secret_of_a_former_sampledb_of_the_same_name_is_never_published() {
        let db = testing::db();
        let found = credentials(
            &db,
            Some(Ok(owner("another", b"p"))),
            Some(&trust(testing::UID)),
            None,
        );
        assert_eq!(
            found.unwrap_err(),
            "a Secret orders-owner of this SampleDB: the one there is another's"
        );
        assert!(
            credentials(
                &db,
                Some(Ok(owner(testing::UID, b"p"))),
                Some(&trust("another")),
                None
            )
            .is_err()
        );
        assert!(
            credentials(
                &db,
                Some(Ok(owner(testing::UID, b"p"))),
                Some(&trust(testing::UID)),
                None
            )
            .is_ok()
        );
    }

    #[test]
    fn what_is_missing_is_named_and_a_password_is_not() {
        let db = testing::db();
        let missing = |owner, trust, refused| credentials(&db, owner, trust, refused).unwrap_err();
        assert_eq!(missing(None, None, None), "the Secret orders-owner");
        assert_eq!(
            missing(Some(Ok(owner(testing::UID, b"p"))), None, None),
            "the ConfigMap orders-trust"
        );
        let refused = "the right to the Secret orders-app".to_owned();
        assert_eq!(
            missing(Some(Ok(owner(testing::UID, b"p"))), None, Some(&refused)),
            refused
        );
        let broken = missing(
            Some(Ok(owner(testing::UID, b"canary\xff"))),
            Some(&trust(testing::UID)),
            None,
        );
        assert!(broken.contains("UTF-8") && !broken.contains("canary"), "{broken}");
    }

    #[test]
    fn a_password_never_reaches_a_log_through_debug() {
        let found = credentials(
            &testing::db(),
            Some(Ok(owner(testing::UID, b"canary"))),
            Some(&trust(testing::UID)),
            None,
        );
        let observed = Observed {
            credentials: Some(found),
            ..Observed::default()
        };
        assert!(!format!("{observed:?}").contains("canary"));
    }

    #[test]
    fn a_stranger_is_told_from_what_is_ours_and_from_what_is_about_to_go() {
        let db = testing::db();
        let owned_by = |uid: &str| {
            let mut reference = kube::Resource::controller_owner_ref(&db, &()).unwrap();
            reference.uid = uid.into();
            Some(vec![reference])
        };
        let mut service = Service {
            metadata: testing::meta("orders-rw", "gone"),
            ..Service::default()
        };
        let owner = |service: &Service| Child::of(service, &db).owner;
        assert_eq!(owner(&service), Owner::Stranger);
        service.metadata.owner_references = owned_by("gone");
        assert_eq!(owner(&service), Owner::Gone);
        service.metadata.annotations = None;
        assert_eq!(owner(&service), Owner::Stranger);
        service.metadata.owner_references = owned_by(testing::UID);
        assert_eq!(
            owner(&service),
            Owner::Us,
            "edited by hand, it is put right and not given up"
        );
        assert_eq!(owner(&Service::default()), Owner::Stranger);
    }
}
