//! What is done about a changed configuration, certificate or password while the database serves.

use crate::control::Configuration;
use crate::postgres::log_line;

/// What is known.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The configuration that is asked for; absent while it was not seen.
    pub wanted: Option<&'a Configuration>,
    /// The hash of the one in force.
    pub in_force: Option<&'a str>,
    /// The hash of the one PostgreSQL refused.
    pub rejected: Option<&'a str>,
    /// The restart that is asked for.
    pub restart_wanted: Option<&'a str>,
    /// The restart that was done.
    pub restart_done: Option<&'a str>,
    /// The server's certificate is a new one.
    pub certificates_changed: bool,
    /// The owner's password is a new one.
    pub owner_changed: bool,
    /// Changes of the configuration and restarts wait.
    pub paused: bool,
}

/// The one thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Have PostgreSQL read its certificates.
    Reload,
    /// Bring the owner's password up to date.
    Establish,
    /// Offer the configuration to PostgreSQL.
    Configure,
    /// What was refused is not asked for any more.
    Forgive,
    /// Restart PostgreSQL.
    Restart,
}

/// Decides. Certificates and passwords are not changes of a person's mind: they go on while paused.
pub fn step(inputs: &Inputs<'_>) -> Step {
    if inputs.certificates_changed {
        return Step::Reload;
    }
    if inputs.owner_changed {
        return Step::Establish;
    }
    if inputs.paused {
        return Step::Nothing;
    }
    if let Some(wanted) = inputs.wanted {
        let hash = Some(wanted.hash.as_str());
        if inputs.in_force != hash && inputs.rejected != hash {
            return Step::Configure;
        }
        if inputs.in_force == hash && inputs.rejected.is_some() {
            return Step::Forgive;
        }
    }
    if inputs.restart_wanted.is_some() && inputs.restart_wanted != inputs.restart_done {
        return Step::Restart;
    }
    Step::Nothing
}

/// Whether a start failed because of the configuration, from PostgreSQL's words.
pub fn is_about_configuration(error: &str) -> bool {
    [
        "parameter",
        "configuration file",
        "shared memory",
        "postgresql.conf",
        "pg_hba.conf",
        "pg_ident.conf",
    ]
    .iter()
    .any(|w| error.contains(w))
}

/// PostgreSQL's words as lines for `status.instances[].parameterErrors`: without time and process number, which would
/// make the same error a new one, and without the line that only counts the others.
pub fn lines(error: &str) -> Vec<String> {
    let all: Vec<&str> = error
        .lines()
        .map(log_line::message)
        .filter(|l| !l.is_empty())
        .collect();
    let told: Vec<&str> = all
        .iter()
        .copied()
        .filter(|l| !l.ends_with("contains errors"))
        .collect();
    let lines = if told.is_empty() { all } else { told };
    lines
        .into_iter()
        .take(16)
        .map(|l| sampledb_shared::domain::conditions::truncated(l, 1024))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn configuration(hash: &str) -> Configuration {
        Configuration {
            hash: hash.into(),
            files: std::collections::BTreeMap::new(),
        }
    }

    fn quiet() -> Inputs<'static> {
        Inputs {
            wanted: None,
            in_force: Some("a"),
            rejected: None,
            restart_wanted: None,
            restart_done: None,
            certificates_changed: false,
            owner_changed: false,
            paused: false,
        }
    }

    #[rstest]
    #[case::nothing_is_done_without_a_change("a", None, false, Step::Nothing)]
    #[case::a_change_is_offered("b", None, false, Step::Configure)]
    #[case::what_was_refused_is_not_offered_again("b", Some("b"), false, Step::Nothing)]
    #[case::a_correction_is_offered("c", Some("b"), false, Step::Configure)]
    #[case::going_back_clears_the_error("a", Some("b"), false, Step::Forgive)]
    #[case::paused_waits("b", None, true, Step::Nothing)]
    fn a_configuration(
        #[case] hash: &str,
        #[case] rejected: Option<&str>,
        #[case] paused: bool,
        #[case] expected: Step,
    ) {
        let wanted = configuration(hash);
        assert_eq!(
            step(&Inputs {
                wanted: Some(&wanted),
                rejected,
                paused,
                ..quiet()
            }),
            expected
        );
    }

    #[rstest]
    #[case::asked_once(Some("1"), None, false, Step::Restart)]
    #[case::done_once(Some("1"), Some("1"), false, Step::Nothing)]
    #[case::asked_again(Some("2"), Some("1"), false, Step::Restart)]
    #[case::the_annotation_was_removed(None, Some("1"), false, Step::Nothing)]
    #[case::paused_waits(Some("2"), Some("1"), true, Step::Nothing)]
    fn a_restart(
        #[case] wanted: Option<&str>,
        #[case] done: Option<&str>,
        #[case] paused: bool,
        #[case] expected: Step,
    ) {
        assert_eq!(
            step(&Inputs {
                restart_wanted: wanted,
                restart_done: done,
                paused,
                ..quiet()
            }),
            expected
        );
    }

    #[test]
    fn a_restart_comes_after_the_configuration_that_needs_it() {
        let wanted = configuration("b");
        let inputs = Inputs {
            wanted: Some(&wanted),
            restart_wanted: Some("1"),
            ..quiet()
        };
        assert_eq!(step(&inputs), Step::Configure);
    }

    #[test]
    fn a_paused_database_still_gets_its_certificates_and_password() {
        assert_eq!(
            step(&Inputs {
                paused: true,
                certificates_changed: true,
                ..quiet()
            }),
            Step::Reload
        );
        assert_eq!(
            step(&Inputs {
                paused: true,
                owner_changed: true,
                ..quiet()
            }),
            Step::Establish
        );
    }

    #[test]
    fn the_same_error_reads_the_same_each_time() {
        let said = "2026-12-02 01:33:16.640 GMT [26527] LOG:  unrecognized configuration parameter \"x\" in file \
                    \"postgresql.conf\" line 15\n2026-12-02 01:33:16.643 GMT [26527] FATAL:  configuration file \
                    \"postgresql.conf\" contains errors\n";
        assert_eq!(
            lines(said),
            ["unrecognized configuration parameter \"x\" in file \"postgresql.conf\" line 15"]
        );
        assert_eq!(lines("FATAL:  configuration file \"a\" contains errors").len(), 1);
        assert_eq!(lines("pg_hba.conf: no"), ["pg_hba.conf: no"]);
    }

    #[test]
    fn a_full_disk_is_not_blamed_on_the_configuration() {
        assert!(is_about_configuration(
            "FATAL:  invalid value for parameter \"work_mem\": \"x\""
        ));
        assert!(!is_about_configuration(
            "FATAL:  could not write lock file: No space left on device"
        ));
    }
}
