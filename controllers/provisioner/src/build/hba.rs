//! pg_hba.conf and pg_ident.conf: who may log in, in the order that is the policy.

use std::fmt::Write;

use sampledb_shared::api::postgres::{HbaConnection, HbaMethod, HbaRule};
use sampledb_shared::domain::names::roles::{AGENT, REPLICATION, SUPERUSER};

/// The file: the suite's own roles first, then their refusal by any other way, then the user's entries, then
/// everyone over TLS with a password.
pub fn render(rules: &[HbaRule]) -> String {
    let mut text =
        String::from("# Made by sampledb-provisioner from the SampleDB; a change here is overwritten.\n");
    let own = [
        format!("local all {} peer", name(SUPERUSER)),
        "local all,replication all reject".into(),
        format!("hostssl all {} 127.0.0.1/32 cert", name(AGENT)),
        format!("hostssl all {} ::1/128 cert", name(AGENT)),
        format!("hostssl replication {} all cert", name(REPLICATION)),
        format!(
            "host all,replication {},{},{} all reject",
            name(SUPERUSER),
            name(AGENT),
            name(REPLICATION)
        ),
    ];
    for line in own
        .into_iter()
        .chain(rules.iter().filter_map(line))
        .chain(["hostssl all all all scram-sha-256".to_owned()])
    {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// pg_ident.conf: no maps. A certificate's common name is the role's name.
pub const IDENT: &str =
    "# Made by sampledb-provisioner: no maps; the common name of a certificate is the role.\n";

/// The user's entry; `None` when a part of it is not what the schema admits, so that nothing but one whole entry
/// can come of it.
fn line(rule: &HbaRule) -> Option<String> {
    let method = match rule.method {
        HbaMethod::ScramSha256 => "scram-sha-256",
        HbaMethod::Cert => "cert",
        HbaMethod::Reject => "reject",
    };
    // PostgreSQL refuses a file that asks for a certificate where there may be no TLS.
    let connection = match (rule.connection, rule.method) {
        (HbaConnection::Hostssl, _) | (_, HbaMethod::Cert) => "hostssl",
        (HbaConnection::Host, _) => "host",
    };
    let reserved = |user: &String| user == SUPERUSER || user.starts_with("sampledb_");
    let address = !rule.address.is_empty()
        && (rule.address == "all"
            || rule
                .address
                .chars()
                .all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/')));
    if !address || rule.users.iter().any(reserved) {
        return None;
    }
    Some(format!(
        "{connection} {} {} {} {method}",
        list(&rule.databases)?,
        list(&rule.users)?,
        rule.address
    ))
}

fn list(names: &[String]) -> Option<String> {
    let ok = |n: &String| {
        n.len() <= 63
            && n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && n.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '-'))
    };
    if names.is_empty() || !names.iter().all(ok) {
        return None;
    }
    Some(
        names
            .iter()
            .map(|n| if n == "all" { n.clone() } else { name(n) })
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Quoted, so that no name is taken for a keyword.
fn name(name: &str) -> String {
    format!("\"{name}\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(users: &[&str], method: HbaMethod) -> HbaRule {
        HbaRule {
            connection: HbaConnection::Host,
            databases: vec!["all".into()],
            users: users.iter().map(|u| (*u).to_owned()).collect(),
            address: "10.0.0.0/8".into(),
            method,
        }
    }

    #[test]
    fn the_order_lets_nobody_in_as_the_suite() {
        let text = render(&[
            rule(&["app", "all"], HbaMethod::ScramSha256),
            rule(&["bot"], HbaMethod::Cert),
        ]);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn an_entry_for_a_role_of_the_suite_is_left_out() {
        for user in ["postgres", "sampledb_agent", "sampledb_replication"] {
            assert_eq!(render(&[rule(&[user], HbaMethod::ScramSha256)]), render(&[]));
        }
    }

    proptest! {
        #[test]
        fn an_entry_cannot_add_another_line_or_word(user in "\\PC{0,20}|.{0,20}", database in ".{0,20}", address in ".{0,20}") {
            let text = render(&[HbaRule {
                connection: HbaConnection::Hostssl, databases: vec![database], users: vec![user], address, method: HbaMethod::Reject,
            }]);
            let lines = text.lines().count() - render(&[]).lines().count();
            prop_assert!(lines <= 1);
            if lines == 1 {
                let entry = text.lines().rev().nth(1).unwrap_or_default();
                prop_assert_eq!(entry.split_whitespace().count(), 5, "{}", entry);
            }
        }
    }
}
