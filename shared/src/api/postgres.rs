//! `spec.postgres`: the server, its version and its configuration.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The PostgreSQL server.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.version.split('.')[0] == oldSelf.version.split('.')[0]").message("postgres.version: the major version cannot be changed yet; an upgrade between majors is the upgrader's work, which this version does not have"))]
pub struct Postgres {
    /// A major version ("17") or one pinned minor ("17.12") of it; the image comes from the chart's catalogue. Effect: the image is chosen again and shown in status; the major is immutable.
    #[schemars(length(max = 8), regex(pattern = r"^[1-9][0-9](\.[0-9]{1,2})?$"))]
    pub version: String,
    /// An image instead of the catalogue's; the chart's `postgres.allowedImages` must allow it. Default: the catalogue's. Effect: as `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Settings of postgresql.conf by name, values as PostgreSQL writes them. Default: none. Effect: at once where PostgreSQL can reload; settings that need a restart are listed in `status.instances[].pendingRestart` and take effect with the annotation `sampledb.dev/restartedAt`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128), extend("additionalProperties" = {"type": "string", "maxLength": 1024}))]
    #[x_kube(
        validation = Rule::new("self.all(k, k.matches('^[a-z][a-z0-9_]{0,62}([.][a-z][a-z0-9_]{0,62})?$'))")
            .message(Message::Expression("'postgres.parameters: not a name of a PostgreSQL setting: ' + self.filter(k, !k.matches('^[a-z][a-z0-9_]{0,62}([.][a-z][a-z0-9_]{0,62})?$'))[0]".into())),
    )]
    pub parameters: BTreeMap<String, String>,
    /// Who may log in from where, in this order, after the rules of the suite's own roles and before "everyone over TLS with a password". Default: none. Effect: at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub hba: Vec<HbaRule>,
}

/// One line of pg_hba.conf, in fields.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HbaRule {
    /// `hostssl` (over TLS alone) or `host`. Default: hostssl. Effect: at once.
    #[serde(default)]
    pub connection: HbaConnection,
    /// The databases it speaks of; `all` for every one. Default: all. Effect: at once.
    #[serde(default = "all")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_$-]*$"))
    )]
    pub databases: Vec<String>,
    /// The roles it speaks of; `all` for every one. The suite's own roles cannot be named. Default: all. Effect: at once.
    #[serde(default = "all")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_$-]*$"))
    )]
    #[x_kube(validation = Rule::new("self.all(u, u != 'postgres' && !u.startsWith('sampledb_'))").message("postgres.hba: the roles postgres and sampledb_* are the suite's own; leave them out"))]
    pub users: Vec<String>,
    /// A network in CIDR notation ("10.0.0.0/8", "::/0"), or `all`. Effect: at once.
    #[schemars(
        length(max = 43),
        regex(pattern = r"^(all|[0-9.]{7,15}/[0-9]{1,2}|[0-9A-Fa-f:.]{2,39}/[0-9]{1,3})$")
    )]
    #[x_kube(validation = Rule::new("self == 'all' || isCIDR(self)").message("postgres.hba: address must be 'all' or a network such as 10.0.0.0/8"))]
    pub address: String,
    /// What is asked of who matches. Effect: at once.
    pub method: HbaMethod,
}

fn all() -> Vec<String> {
    vec!["all".into()]
}

/// The kind of connection a rule speaks of.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HbaConnection {
    /// Over TLS alone.
    #[default]
    Hostssl,
    /// With or without TLS.
    Host,
}

/// What is asked of a client.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HbaMethod {
    /// A password, by SCRAM-SHA-256.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// A client certificate of the database's CA.
    #[serde(rename = "cert")]
    Cert,
    /// Nothing: it is turned away.
    #[serde(rename = "reject")]
    Reject,
}
