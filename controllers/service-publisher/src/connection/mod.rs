//! A connection, in every form that programs read.

pub mod uri;

use std::collections::BTreeMap;

use kube::ResourceExt;
use sampledb_shared::api::SampleDb;
use sampledb_shared::domain::names::{self, POSTGRES_PORT};

use crate::observe::Credentials;
use uri::Parameters;

/// TLS, with the server's certificate and its name checked.
const SSLMODE: &str = "verify-full";

/// Where a database is, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The SampleDB's name.
    pub name: String,
    /// The host of the instance that takes writes.
    pub host: String,
    /// The host of every ready instance; absent when that Service is not enabled.
    pub r_host: Option<String>,
    /// The hosts of the instances themselves.
    pub instances: Vec<String>,
    /// The database.
    pub database: String,
    /// The role that owns it.
    pub owner: String,
}

impl Address {
    /// Where `db` is, in a cluster with this DNS domain.
    pub fn of(db: &SampleDb, cluster_domain: &str) -> Self {
        let name = db.name_any();
        let suffix = format!("{}.svc.{cluster_domain}", db.namespace().unwrap_or_default());
        // A hibernated database keeps the form it will wake up with.
        let ordinals = 0..db.spec.instances.max(1);
        Self {
            host: format!("{}.{suffix}", names::rw(&name)),
            r_host: db
                .spec
                .services
                .r
                .enabled
                .then(|| format!("{}.{suffix}", names::r(&name))),
            instances: ordinals
                .map(|n| format!("{}.{}.{suffix}", names::pod(&name, n), names::pods(&name)))
                .collect(),
            database: db.spec.bootstrap.new.database.clone(),
            owner: db.spec.bootstrap.new.owner.clone(),
            name,
        }
    }
}

/// What the ConfigMap says: everything but the password.
pub fn public(address: &Address, ca: &str) -> BTreeMap<String, String> {
    let port = POSTGRES_PORT.to_string();
    let at = |host: &str| format!("{host}:{port}");
    let mut data = vec![
        ("type", "postgresql".to_owned()),
        ("provider", names::SUITE.to_owned()),
        ("host", address.host.clone()),
        ("port", port.clone()),
        ("database", address.database.clone()),
        ("username", address.owner.clone()),
        ("sslmode", SSLMODE.to_owned()),
        ("ca.crt", ca.to_owned()),
        ("hosts", address.instances.join(",")),
        ("secret", names::app_secret(&address.name)),
        (
            "uri",
            uri::libpq(None, &[at(&address.host)], &address.database, Parameters::Libpq),
        ),
    ];
    if let Some(host) = &address.r_host {
        data.push(("r-host", host.clone()));
    }
    data.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

/// What the Secret says: the union of the keys that people mount already. No key is ever renamed.
///
/// The forms of one line (`pgpass`, `pg_service.conf`) are left out for a password they cannot hold.
pub fn secret(address: &Address, credentials: &Credentials) -> BTreeMap<String, String> {
    let Credentials { username, ca, .. } = credentials;
    let password = credentials.password.expose();
    let port = POSTGRES_PORT.to_string();
    let at = |host: &str| format!("{host}:{port}");
    let user = Some((username.as_str(), password));
    let (host, database) = (&address.host, &address.database);
    let libpq = uri::libpq(user, &[at(host)], database, Parameters::Libpq);
    let jdbc = uri::jdbc(username, password, &at(host), database);
    let every: Vec<_> = address.instances.iter().map(|h| at(h)).collect();
    let mut data = vec![
        ("type", "postgresql".to_owned()),
        ("provider", names::SUITE.to_owned()),
        ("host", host.clone()),
        ("port", port.clone()),
        ("database", database.clone()),
        ("dbname", database.clone()),
        ("username", username.clone()),
        ("user", username.clone()),
        ("password", password.to_owned()),
        ("sslmode", SSLMODE.to_owned()),
        ("ca.crt", ca.clone()),
        ("certificates", ca.clone()),
        ("uri", libpq.clone()),
        ("fqdn-uri", libpq),
        ("jdbc-uri", jdbc.clone()),
        ("fqdn-jdbc-uri", jdbc),
        (
            "multi-host-uri",
            uri::libpq(user, &every, database, Parameters::LibpqReadWrite),
        ),
        (
            "DATABASE_URL",
            uri::libpq(user, &[at(host)], database, Parameters::Portable),
        ),
        ("PGHOST", host.clone()),
        ("PGPORT", port.clone()),
        ("PGDATABASE", database.clone()),
        ("PGUSER", username.clone()),
        ("PGPASSWORD", password.to_owned()),
        ("PGSSLMODE", SSLMODE.to_owned()),
        ("PGCONNECT_TIMEOUT", uri::CONNECT_TIMEOUT.to_owned()),
    ];
    if !password.contains(['\n', '\r']) {
        data.push(("pgpass", uri::pgpass(host, &port, database, username, password)));
        if password.trim() == password {
            data.push((
                "pg_service.conf",
                service_file(address, &port, username, password),
            ));
        }
    }
    if let Some(host) = &address.r_host {
        data.push(("r-host", host.clone()));
        data.push((
            "r-uri",
            uri::libpq(user, &[at(host)], database, Parameters::Libpq),
        ));
        data.push(("r-jdbc-uri", uri::jdbc(username, password, &at(host), database)));
    }
    data.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

/// The section `<name>` of a service file: `psql service=<name>`.
fn service_file(address: &Address, port: &str, username: &str, password: &str) -> String {
    let mut lines = vec![
        format!("[{}]", address.name),
        format!("host={}", address.host),
        format!("port={port}"),
        format!("dbname={}", address.database),
        format!("user={username}"),
        format!("password={password}"),
    ];
    lines.extend(Parameters::Libpq.list().iter().map(|(k, v)| format!("{k}={v}")));
    lines.join("\n") + "\n"
}

/// Whether `text` shows `password`, as it is or in the form it has in a URI.
#[cfg(test)]
pub fn shows(text: &str, password: &str) -> bool {
    text.contains(password) || text.contains(&uri::encoded(password))
}

#[cfg(test)]
mod tests {
    use sampledb_shared::runtime::Sensitive;

    use super::*;
    use crate::testing;

    #[test]
    fn an_application_finds_every_key_it_may_mount() {
        let address = Address::of(
            &testing::db_with("  services: {r: {enabled: true}}"),
            "cluster.local",
        );
        insta::assert_yaml_snapshot!(secret(&address, &testing::credentials()));
    }

    #[test]
    fn the_config_map_shows_no_password() {
        let address = Address::of(&testing::db(), "example.org");
        let data = public(&address, &testing::credentials().ca);
        insta::assert_yaml_snapshot!(data);
        assert!(!shows(&format!("{data:?}"), testing::PASSWORD));
    }

    #[test]
    fn a_sleeping_database_keeps_its_uris() {
        let (awake, asleep) = (testing::db(), testing::db_with("  instances: 0"));
        assert_eq!(Address::of(&awake, "c"), Address::of(&asleep, "c"));
    }

    #[test]
    fn a_password_of_two_lines_is_left_out_where_it_would_inject_a_line() {
        let address = Address::of(&testing::db(), "cluster.local");
        let mut credentials = testing::credentials();
        credentials.password = Sensitive::new("a\n[evil]\nhost=elsewhere");
        let data = secret(&address, &credentials);
        assert!(!data.contains_key("pgpass") && !data.contains_key("pg_service.conf"));
        credentials.password = Sensitive::new("trailing ");
        let data = secret(&address, &credentials);
        assert!(data.contains_key("pgpass") && !data.contains_key("pg_service.conf"));
    }
}
