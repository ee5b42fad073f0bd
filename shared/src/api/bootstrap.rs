//! `spec.bootstrap`: how the database first comes to be.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the database first comes to be.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// A new, empty database. Default: one named `app`, owned by `app`. Immutable.
    #[serde(default)]
    pub new: NewDatabase,
}

/// A new, empty database.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewDatabase {
    /// The name of the database that is created beside `postgres`. Default: app. Immutable.
    #[serde(default = "app")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[x_kube(validation = Rule::new("!(self in ['postgres', 'template0', 'template1', 'all', 'replication', 'sameuser', 'samerole', 'samegroup'])").message("bootstrap.new.database: this name is PostgreSQL's own; choose another"))]
    pub database: String,
    /// The role that owns it; not a superuser. Its password is in the Secret `<name>-app`. Default: app. Immutable.
    #[serde(default = "app")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[x_kube(validation = Rule::new("self != 'postgres' && self != 'all' && self != 'public' && self != 'none' && !self.startsWith('pg_') && !self.startsWith('sampledb_')").message("bootstrap.new.owner: postgres, all, public, none, pg_* and sampledb_* are reserved; choose another"))]
    pub owner: String,
    /// Whether every page carries a checksum, so that a damaged one is noticed. Default: true. Immutable.
    #[serde(default = "yes")]
    pub data_checksums: bool,
    /// The encoding of the databases: one of PostgreSQL's names of server encodings, which must fit the locale. Default: UTF8. Immutable.
    #[serde(default = "utf8")]
    #[schemars(
        length(min = 1, max = 32),
        regex(
            pattern = r"^(UTF8|SQL_ASCII|EUC_(CN|JP|KR|TW|JIS_2004)|ISO_8859_[5-8]|KOI8[RU]|LATIN([1-9]|10)|MULE_INTERNAL|WIN(866|874|125[0-8]))$"
        )
    )]
    pub encoding: String,
    /// How text is sorted and compared. Default: the provider `libc` with C.UTF-8. Immutable.
    #[serde(default)]
    pub locale: Locale,
    /// SQL for the new database, run once as the owner, each key in one transaction, in this order. Default: none. Immutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub init: Vec<InitSource>,
}

impl Default for NewDatabase {
    fn default() -> Self {
        Self {
            database: app(),
            owner: app(),
            data_checksums: yes(),
            encoding: utf8(),
            locale: Locale::default(),
            init: Vec::new(),
        }
    }
}

fn app() -> String {
    "app".into()
}

fn yes() -> bool {
    true
}

fn utf8() -> String {
    "UTF8".into()
}

/// How text is sorted and compared.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Locale {
    /// Where the rules come from: `libc`, `icu`, or `builtin` (from PostgreSQL 17 on). Default: libc. Immutable.
    pub provider: LocaleProvider,
    /// The locale's name for that provider. Default: C.UTF-8. Immutable.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.@-]+$"))]
    pub name: String,
}

impl Default for Locale {
    fn default() -> Self {
        Self {
            provider: LocaleProvider::Libc,
            name: "C.UTF-8".into(),
        }
    }
}

/// Where the rules of sorting come from.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocaleProvider {
    /// The image's C library.
    Libc,
    /// The ICU library.
    Icu,
    /// PostgreSQL's own (from 17 on).
    Builtin,
}

/// One piece of SQL for the new database.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitSource {
    /// A key of a ConfigMap in the SampleDB's namespace. Effect: corrected content is run again as long as it has not succeeded.
    pub config_map_key_ref: ConfigMapKey,
}

/// A key of a ConfigMap in the SampleDB's namespace.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// The ConfigMap's name. Immutable.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The key in its `data`. Immutable.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}
