//! Which settings of PostgreSQL the user may choose, and which are the suite's.

/// Why a setting cannot be chosen by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The setting.
    pub name: &'static str,
    /// Why, and what to use instead.
    pub why: &'static str,
}

const fn reserved(name: &'static str, why: &'static str) -> Reserved {
    Reserved { name, why }
}

const FILES: &str = "where the server's files are is the suite's";
const NETWORK: &str = "how the server is reached is the suite's; see spec.services";
const REPLICATION: &str = "replication is the election's";
const PROGRAM: &str = "it runs a program or loads code inside the server";
const TLS: &str = "certificates and TLS are the suite's";
const DEBUGGING: &str = "it is for debugging PostgreSQL itself, and the suite's own sessions suffer too";
const DURABILITY: &str = "an acknowledged transaction could be lost";

/// The settings that cannot be chosen, and why. Refused at apply by a rule made from this table.
pub const RESERVED: &[Reserved] = &[
    reserved("allow_system_table_mods", PROGRAM),
    reserved("allow_in_place_tablespaces", FILES),
    reserved("archive_cleanup_command", PROGRAM),
    reserved("archive_command", "archiving is the backup-scheduler's"),
    reserved("archive_library", "archiving is the backup-scheduler's"),
    reserved("archive_mode", "archiving is the backup-scheduler's"),
    reserved("archive_timeout", "archiving is the backup-scheduler's"),
    reserved("authentication_timeout", NETWORK),
    reserved("bonjour", NETWORK),
    reserved("bonjour_name", NETWORK),
    reserved("cluster_name", "it is the pod's name"),
    reserved("config_file", FILES),
    reserved("data_directory", FILES),
    reserved("data_sync_retry", DURABILITY),
    reserved("db_user_namespace", NETWORK),
    reserved("dynamic_library_path", PROGRAM),
    reserved("event_source", FILES),
    reserved("exit_on_error", DEBUGGING),
    reserved("external_pid_file", FILES),
    reserved("extension_control_path", PROGRAM),
    reserved("fsync", DURABILITY),
    reserved("full_page_writes", DURABILITY),
    reserved("hba_file", FILES),
    reserved("hot_standby", REPLICATION),
    reserved("ident_file", FILES),
    reserved("ignore_checksum_failure", DURABILITY),
    reserved("ignore_invalid_pages", DURABILITY),
    reserved("ignore_system_indexes", DEBUGGING),
    reserved("include", FILES),
    reserved("include_dir", FILES),
    reserved("include_if_exists", FILES),
    reserved("jit_provider", PROGRAM),
    reserved("listen_addresses", NETWORK),
    reserved("local_preload_libraries", PROGRAM),
    reserved("log_destination", "logs go to the container's output"),
    reserved("log_directory", "logs go to the container's output"),
    reserved("log_filename", "logs go to the container's output"),
    reserved("logging_collector", "logs go to the container's output"),
    reserved("oauth_validator_libraries", PROGRAM),
    reserved("password_encryption", "passwords are SCRAM-SHA-256"),
    reserved("port", NETWORK),
    reserved("post_auth_delay", DEBUGGING),
    reserved("pre_auth_delay", DEBUGGING),
    reserved("primary_conninfo", REPLICATION),
    reserved("primary_slot_name", REPLICATION),
    reserved("promote_trigger_file", REPLICATION),
    reserved("recovery_end_command", PROGRAM),
    reserved("recovery_min_apply_delay", REPLICATION),
    reserved("recovery_target", REPLICATION),
    reserved("recovery_target_action", REPLICATION),
    reserved("recovery_target_inclusive", REPLICATION),
    reserved("recovery_target_lsn", REPLICATION),
    reserved("recovery_target_name", REPLICATION),
    reserved("recovery_target_time", REPLICATION),
    reserved("recovery_target_timeline", REPLICATION),
    reserved("recovery_target_xid", REPLICATION),
    reserved("restart_after_crash", "the runner restarts the server"),
    reserved("restore_command", PROGRAM),
    reserved("send_abort_for_crash", DEBUGGING),
    reserved("send_abort_for_kill", DEBUGGING),
    reserved("session_preload_libraries", PROGRAM),
    reserved("shared_preload_libraries", PROGRAM),
    reserved("ssl", TLS),
    reserved("ssl_ca_file", TLS),
    reserved("ssl_cert_file", TLS),
    reserved("ssl_ciphers", TLS),
    reserved("ssl_crl_dir", TLS),
    reserved("ssl_crl_file", TLS),
    reserved("ssl_dh_params_file", TLS),
    reserved("ssl_ecdh_curve", TLS),
    reserved("ssl_groups", TLS),
    reserved("ssl_key_file", TLS),
    reserved("ssl_max_protocol_version", TLS),
    reserved("ssl_min_protocol_version", TLS),
    reserved("ssl_passphrase_command", PROGRAM),
    reserved("ssl_passphrase_command_supports_reload", PROGRAM),
    reserved("ssl_prefer_server_ciphers", TLS),
    reserved("synchronous_commit", DURABILITY),
    reserved("synchronous_standby_names", REPLICATION),
    reserved("sync_replication_slots", REPLICATION),
    reserved("synchronized_standby_slots", REPLICATION),
    reserved("syslog_facility", "logs go to the container's output"),
    reserved("syslog_ident", "logs go to the container's output"),
    reserved("unix_socket_directories", NETWORK),
    reserved("unix_socket_group", NETWORK),
    reserved("unix_socket_permissions", NETWORK),
    reserved("wal_level", REPLICATION),
    reserved("wal_log_hints", REPLICATION),
    reserved("zero_damaged_pages", DURABILITY),
];

/// Why `name` cannot be chosen; `None` when it can.
pub fn reserved_reason(name: &str) -> Option<&'static str> {
    RESERVED.iter().find(|r| r.name == name).map(|r| r.why)
}

/// Whether `name` is a name of a setting: what the schema admits, checked again where it reaches a file.
pub fn is_name(name: &str) -> bool {
    let part = |p: &str| {
        p.len() <= 63
            && p.starts_with(|c: char| c.is_ascii_lowercase())
            && p.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    match name.split_once('.') {
        Some((extension, setting)) => part(extension) && part(setting),
        None => part(name),
    }
}
