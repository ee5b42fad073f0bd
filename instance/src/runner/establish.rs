//! The SQL that the runner itself runs, as `postgres` over the local socket: fixed statements, into which only names
//! and a verifier go, each checked against its grammar.

use sampledb_shared::domain::names::roles;

use crate::control::Establish;

/// Options of each session: nothing that a database's owner defined is called, no statement (a verifier is in one)
/// is logged, and nothing waits for ever.
pub const SESSION: &str = "-c search_path=pg_catalog -c default_transaction_read_only=off -c client_min_messages=error -c log_statement=none \
    -c log_min_duration_statement=-1 -c log_min_error_statement=panic -c log_duration=off \
    -c statement_timeout=30s -c lock_timeout=10s";

/// A row for each line of the access files on disk that PostgreSQL would not accept. Both views read the files when
/// asked, so this goes before the reload.
pub const ACCESS_ERRORS: &str = "\
SELECT 'pg_hba.conf, line ' || line_number || ': ' || error FROM pg_hba_file_rules WHERE error IS NOT NULL;
SELECT 'pg_ident.conf, line ' || line_number || ': ' || error FROM pg_ident_file_mappings WHERE error IS NOT NULL;
";

/// A value that does not fit its grammar.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; nothing was done")]
pub struct Wrong(&'static str);

fn is_identifier(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn is_base64(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    let body = text.trim_end_matches('=');
    lengths.contains(&text.len())
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

/// `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`; both keys are 32 bytes.
fn is_verifier(text: &str) -> bool {
    let parts = || {
        let (iterations, rest) = text.strip_prefix("SCRAM-SHA-256$")?.split_once(':')?;
        let (salt, keys) = rest.split_once('$')?;
        let (stored, server) = keys.split_once(':')?;
        Some((iterations, salt, stored, server))
    };
    parts().is_some_and(|(iterations, salt, stored, server)| {
        (4..=7).contains(&iterations.len())
            && iterations.bytes().all(|b| b.is_ascii_digit())
            && !iterations.starts_with('0')
            && is_base64(salt, 16..=128)
            && is_base64(stored, 44..=44)
            && is_base64(server, 44..=44)
    })
}

/// The script for `psql`. Running it again changes nothing but the owner's verifier.
pub fn script(wish: &Establish) -> Result<String, Wrong> {
    let Establish {
        database,
        owner,
        verifier,
    } = wish;
    let reserved = ["postgres", "all", "public", "none"].contains(&owner.as_str())
        || owner.starts_with("pg_")
        || owner.starts_with("sampledb_");
    if !is_identifier(owner) || reserved {
        return Err(Wrong("the owner's name is none that a role may have"));
    }
    if !is_verifier(verifier) {
        return Err(Wrong("the owner's verifier is no SCRAM-SHA-256 verifier"));
    }
    let (agent, replication) = (roles::AGENT, roles::REPLICATION);
    let mut statements: Vec<String> = [agent, replication, owner]
        .into_iter()
        .map(|role| {
            format!(
                "SELECT 'CREATE ROLE \"{role}\"' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') \\gexec"
            )
        })
        .collect();
    statements.push(format!(
        "ALTER ROLE \"{agent}\" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD NULL;
GRANT pg_monitor, pg_signal_backend, pg_checkpoint TO \"{agent}\";
ALTER ROLE \"{replication}\" LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD NULL;
CREATE SCHEMA IF NOT EXISTS sampledb;
CREATE TABLE IF NOT EXISTS sampledb.opening
    (term bigint PRIMARY KEY, instance text NOT NULL, at timestamptz NOT NULL DEFAULT now());
GRANT USAGE ON SCHEMA sampledb TO \"{agent}\";
GRANT SELECT, INSERT, UPDATE ON sampledb.opening TO \"{agent}\";
GRANT CONNECT ON DATABASE postgres TO \"{agent}\";
ALTER ROLE \"{owner}\" LOGIN NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '{verifier}';"
    ));
    if let Some(database) = database {
        let own = [
            "postgres",
            "template0",
            "template1",
            "all",
            "replication",
            "sameuser",
            "samerole",
            "samegroup",
        ];
        if !is_identifier(database) || own.contains(&database.as_str()) {
            return Err(Wrong("the database's name is none that a database may have"));
        }
        statements.push(format!(
            "SELECT 'CREATE DATABASE \"{database}\" OWNER \"{owner}\"' \
             WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{database}') \\gexec
ALTER DATABASE \"{database}\" OWNER TO \"{owner}\";
REVOKE ALL ON DATABASE \"{database}\" FROM PUBLIC;
GRANT ALL ON DATABASE \"{database}\" TO \"{owner}\";"
        ));
    }
    Ok(statements.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIER: &str = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=";

    fn wish(database: Option<&str>, owner: &str, verifier: &str) -> Establish {
        Establish {
            database: database.map(Into::into),
            owner: owner.into(),
            verifier: verifier.into(),
        }
    }

    #[test]
    fn a_new_database_gets_its_roles() {
        insta::assert_snapshot!(script(&wish(Some("app"), "app_owner", VERIFIER)).unwrap());
    }

    #[test]
    fn no_value_becomes_sql_and_no_internal_role_is_handed_out() {
        for owner in [
            "",
            "a b",
            "a\"; DROP ROLE x; --",
            "A",
            "1a",
            "postgres",
            "pg_x",
            "sampledb_agent",
            "ä",
        ] {
            assert!(script(&wish(None, owner, VERIFIER)).is_err(), "{owner:?}");
        }
        for database in ["", "postgres", "template1", "a-b", "a'b", "a\nb"] {
            assert!(
                script(&wish(Some(database), "app", VERIFIER)).is_err(),
                "{database:?}"
            );
        }
        let quoted = VERIFIER.replace("AA==", "A'==");
        let short = VERIFIER.replace("BBA=", "A=");
        let weak = VERIFIER.replace("4096", "1");
        for verifier in ["", "secret", "md5abc", &quoted, &short, &weak] {
            assert!(script(&wish(None, "app", verifier)).is_err(), "{verifier:?}");
        }
    }
}
