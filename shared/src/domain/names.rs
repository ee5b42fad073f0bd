//! The name of everything that belongs to a SampleDB.
//!
//! Every suffix is one word without a dash, so that the names of two SampleDBs (`a` and `a-rw`, say) cannot meet.

/// The name of the suite.
pub const SUITE: &str = "sampledb";
/// The port of PostgreSQL.
pub const POSTGRES_PORT: i32 = 5432;
/// The name of that port in Services and pods.
pub const POSTGRES_PORT_NAME: &str = "postgresql";
/// The port of the agents among themselves.
pub const PEER_PORT: i32 = 8433;
/// The agent's HTTP port: metrics and probes.
pub const METRICS_PORT: i32 = 9187;
/// The name of that port.
pub const METRICS_PORT_NAME: &str = "metrics";
/// The controllers' HTTP port.
pub const CONTROLLER_PORT: u16 = 8080;
/// The ConfigMap of the chart with the images of the PostgreSQL majors, in the release namespace.
pub const CATALOG: &str = "sampledb-catalog";

/// The ids inside the pods.
pub mod ids {
    /// The user and group of PostgreSQL, in the database image.
    pub const POSTGRES: i64 = 999;
    /// The user of the agent, of the controllers and of the Jobs.
    pub const SUITE: i64 = 65532;
}

/// Paths inside a database pod.
pub mod paths {
    /// The data volume.
    pub const DATA: &str = "/data";
    /// PostgreSQL's data directory: a folder in the volume, so that a remount cannot change its mode.
    pub const PGDATA: &str = "/data/pgdata";
    /// What a member must remember, beside PGDATA so that no base backup or rewind copies another's.
    pub const MEMBER: &str = "/data/member.json";
    /// The volume of the write-ahead log, where there is one.
    pub const WAL: &str = "/wal";
    /// Shared between agent (writes) and runner (reads): the agent's socket.
    pub const CONTROL: &str = "/run/sampledb";
    /// The agent's socket.
    pub const RUNNER_SOCKET: &str = "/run/sampledb/runner.sock";
    /// PostgreSQL's socket: postgres writes, the agent reads.
    pub const POSTGRES_SOCKET: &str = "/run/postgresql";
    /// Where `inject` puts the runner.
    pub const BIN: &str = "/opt/sampledb";
    /// The server's certificate, in `postgres`: tls.crt, tls.key.
    pub const SERVER_TLS: &str = "/etc/sampledb/tls";
    /// The CA's certificates, in both: ca.crt.
    pub const TRUST: &str = "/etc/sampledb/trust";
    /// The agent's certificate, in `agent` alone: tls.crt, tls.key.
    pub const AGENT_TLS: &str = "/etc/sampledb/agent";
    /// The owner's name and verifier, in `agent` alone: username, verifier.
    pub const OWNER: &str = "/etc/sampledb/owner";
    /// The agent's own folder.
    pub const AGENT_STATE: &str = "/var/lib/agent";
}

/// PostgreSQL's roles of the suite.
pub mod roles {
    /// The superuser: by the local socket alone, the runner's fixed statements alone.
    pub const SUPERUSER: &str = "postgres";
    /// The agent's role.
    pub const AGENT: &str = "sampledb_agent";
    /// The replicas' role.
    pub const REPLICATION: &str = "sampledb_replication";
}

macro_rules! derived {
    ($($(#[$doc:meta])* $function:ident => $suffix:literal;)*) => {
        $($(#[$doc])* pub fn $function(name: &str) -> String { format!(concat!("{}-", $suffix), name) })*
    };
}

derived! {
    /// The Service (and EndpointSlice) of the instance that takes writes.
    rw => "rw";
    /// The Service of every ready instance.
    r => "r";
    /// The headless Service of the pods, ready or not.
    pods => "pods";
    /// The ConfigMap with PostgreSQL's configuration.
    config => "config";
    /// The ConfigMap with the CA's certificates.
    trust => "trust";
    /// The ConfigMap with the connection.
    connection => "connection";
    /// The Secret of the owner: username, password, verifier.
    owner_secret => "owner";
    /// The Secret of the CA; mounted nowhere.
    ca_secret => "ca";
    /// The Secret of the server's certificate.
    server_secret => "server";
    /// The Secret of the agents' certificate.
    agent_secret => "agent";
    /// The Secret of the replicas' certificate.
    replication_secret => "replication";
    /// The Secret with the connection, for applications.
    app_secret => "app";
    /// The pods' ServiceAccount, Role and RoleBinding.
    instance_account => "instance";
    /// The service-publisher's Role and RoleBinding on the Secrets of this database.
    publisher_role => "publisher";
}

/// The pod with an ordinal.
pub fn pod(name: &str, ordinal: i32) -> String {
    format!("{name}-{ordinal}")
}

/// The claim of the data volume of a pod.
pub fn data_claim(name: &str, ordinal: i32) -> String {
    format!("data-{name}-{ordinal}")
}

/// The claim of the write-ahead log's volume of a pod.
pub fn wal_claim(name: &str, ordinal: i32) -> String {
    format!("wal-{name}-{ordinal}")
}

/// The init Job for a content.
pub fn init_job(name: &str, hash8: &str) -> String {
    format!("{name}-init-{hash8}")
}

/// The identity in the agents' certificate.
pub fn agent_identity(uid: &str) -> String {
    format!("sampledb://{uid}/agent")
}
