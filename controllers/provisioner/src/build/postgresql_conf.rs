//! postgresql.conf: the suite's settings and the user's.

use std::collections::BTreeMap;
use std::fmt::Write;

use sampledb_shared::domain::names::{POSTGRES_PORT, paths};
use sampledb_shared::domain::parameters;

use super::Target;

/// What keeps a setting out of the file, for a person; empty when nothing does.
///
/// The schema refuses these at apply; they are checked again where they would reach a file.
pub fn objections(settings: &BTreeMap<String, String>) -> Vec<String> {
    settings
        .iter()
        .filter_map(|(name, value)| {
            if !parameters::is_name(name) {
                Some(format!(
                    "spec.postgres.parameters: {name:?} is not the name of a PostgreSQL setting"
                ))
            } else if let Some(why) = parameters::reserved_reason(name) {
                Some(format!("spec.postgres.parameters.{name}: {why}"))
            } else if value.contains('\0') {
                Some(format!(
                    "spec.postgres.parameters.{name}: the value contains a NUL character"
                ))
            } else {
                None
            }
        })
        .collect()
}

/// The file. The same SampleDB gives the same bytes.
///
/// The user's settings win over those defaults of the suite that are not reserved; a setting with an objection is
/// left out.
pub fn render(target: &Target<'_>) -> String {
    let mut settings = suite(target);
    for (name, value) in &target.db.spec.postgres.parameters {
        let alone = BTreeMap::from([(name.clone(), value.clone())]);
        if objections(&alone).is_empty() {
            settings.insert(name, value.clone());
        }
    }
    let mut text =
        String::from("# Made by sampledb-provisioner from the SampleDB; a change here is overwritten.\n");
    for (name, value) in settings {
        let _ = writeln!(text, "{name} = {}", quoted(&value));
    }
    text
}

fn suite<'a>(target: &Target<'_>) -> BTreeMap<&'a str, String> {
    let tls = paths::SERVER_TLS;
    [
        // On from the first day, because turning it on later takes a restart; the command succeeds while there is
        // no repository.
        ("archive_mode", "on".to_owned()),
        (
            "archive_command",
            format!("{}/sampledb-runner archive %p %f", paths::BIN),
        ),
        ("cluster_name", target.name.clone()),
        ("hot_standby", "on".into()),
        ("listen_addresses", "*".into()),
        ("log_destination", "stderr".into()),
        ("logging_collector", "off".into()),
        ("max_wal_senders", "10".into()),
        ("password_encryption", "scram-sha-256".into()),
        ("port", POSTGRES_PORT.to_string()),
        // After a crash of one backend the whole server ends, and the runner decides whether it may start again: a
        // server that restarts itself would do so past its fence.
        ("restart_after_crash", "off".into()),
        ("ssl", "on".into()),
        ("ssl_ca_file", format!("{}/ca.crt", paths::TRUST)),
        ("ssl_cert_file", format!("{tls}/tls.crt")),
        ("ssl_key_file", format!("{tls}/tls.key")),
        ("ssl_min_protocol_version", "TLSv1.3".into()),
        ("unix_socket_directories", paths::POSTGRES_SOCKET.into()),
        ("wal_level", "replica".into()),
        ("wal_log_hints", "on".into()),
    ]
    .into()
}

/// A value as PostgreSQL's configuration grammar reads it back: one line, whatever is in it.
fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('\'');
    for c in value.chars() {
        match c {
            '\'' => text.push_str("''"),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(text, "\\{:03o}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    /// What PostgreSQL's guc-file.l makes of a quoted string.
    fn read_back(quoted: &str) -> Option<String> {
        let inner = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
        let mut out = String::new();
        let mut rest = inner.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\'' => {
                    rest.next_if_eq(&'\'')?;
                    out.push('\'');
                }
                '\\' => match rest.next()? {
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    d @ '0'..='7' => {
                        let mut code = d.to_digit(8)?;
                        for _ in 0..2 {
                            if let Some(next) = rest.peek().and_then(|c| c.to_digit(8)) {
                                rest.next();
                                code = code * 8 + next;
                            }
                        }
                        out.push(char::from_u32(code)?);
                    }
                    other => out.push(other),
                },
                '\n' => return None,
                c => out.push(c),
            }
        }
        Some(out)
    }

    proptest! {
        #[test]
        fn a_value_cannot_add_a_line_or_end_its_string(value in "[^\\x00]{0,200}") {
            let quoted = quoted(&value);
            prop_assert!(!quoted.chars().any(|c| c.is_ascii_control()));
            prop_assert_eq!(read_back(&quoted), Some(value));
        }

        #[test]
        fn no_setting_of_the_user_reaches_the_file_under_a_name_of_the_suite(name in "\\PC{0,40}", value in "\\PC{0,40}") {
            let mut db = testing::db();
            db.spec.postgres.parameters.insert(name.clone(), value);
            let text = render(&Target::of(&db));
            let allowed = parameters::is_name(&name) && parameters::reserved_reason(&name).is_none();
            let plain = render(&Target::of(&testing::db()));
            if allowed {
                prop_assert!(text.lines().count() <= plain.lines().count() + 1);
            } else {
                prop_assert_eq!(text, plain);
            }
        }
    }

    #[test]
    fn an_attempt_to_smuggle_a_setting_stays_a_value() {
        let mut db = testing::db();
        let value = "x'\narchive_command = 'curl evil\\".to_owned();
        db.spec
            .postgres
            .parameters
            .insert("application_name".into(), value);
        let text = render(&Target::of(&db));
        assert_eq!(
            text.lines().filter(|l| l.starts_with("archive_command")).count(),
            1
        );
        assert!(
            text.contains(r"application_name = 'x''\narchive_command = ''curl evil\\'"),
            "{text}"
        );
    }

    #[test]
    fn an_operator_who_raises_a_default_of_ours_gets_it() {
        let mut db = testing::db();
        db.spec
            .postgres
            .parameters
            .insert("max_wal_senders".into(), "20".into());
        let text = render(&Target::of(&db));
        assert!(text.contains("max_wal_senders = '20'"));
        assert!(!text.contains("max_wal_senders = '10'"));
    }

    #[test]
    fn a_reserved_setting_is_said_with_its_reason() {
        let settings = BTreeMap::from([
            ("fsync".to_owned(), "off".to_owned()),
            ("Bad Name".to_owned(), String::new()),
        ]);
        assert_eq!(objections(&settings).len(), 2);
        assert!(objections(&settings)[1].contains("an acknowledged transaction could be lost"));
    }

    #[test]
    fn postgresql_conf() {
        insta::assert_snapshot!(render(&Target::of(&testing::db())));
    }
}
