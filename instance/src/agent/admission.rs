//! Which connection is the runner's.
//!
//! Programs started by SQL have the runner's uid, so a connection proves itself with the key that the first one got.
//! The key is asked for as long as somebody with it may come: [`GRACE_MS`] after a connection without one arrived.

/// How long a connection without a key waits for one with it.
pub const GRACE_MS: u64 = 2000;

/// What is done with a connection that said Hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is the runner; whoever was before is not any more. `new_key` when it gets one.
    Admit {
        /// Whether it gets a new key.
        new_key: bool,
    },
    /// It is asked again when the grace is over.
    Hold,
    /// It is not the runner.
    Turn {
        /// Why, for the log.
        away: &'static str,
    },
}

/// Decides. `known` is the agent's key, `shown` the connection's; `connected` whether the runner is connected now;
/// `waited` how long this connection has waited, in milliseconds.
pub fn admit(known: Option<&str>, shown: Option<&str>, connected: bool, waited: u64) -> Admission {
    match (known, shown) {
        (Some(known), Some(shown)) if same(known, shown) => Admission::Admit { new_key: false },
        // The agent's folder is new (the pod is), and the runner older than it: it has a key nobody can check.
        (None, _) if !connected => Admission::Admit { new_key: true },
        (_, Some(_)) => Admission::Turn {
            away: "it shows a wrong key",
        },
        (_, None) if connected => Admission::Turn {
            away: "the runner is connected already",
        },
        (_, None) if waited >= GRACE_MS => Admission::Admit { new_key: true },
        (_, None) => Admission::Hold,
    }
}

/// Compares without telling by its time how much was right.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NEW: Admission = Admission::Admit { new_key: true };
    const KNOWN: Admission = Admission::Admit { new_key: false };

    #[rstest]
    #[case::the_first_connection_wins(None, None, false, 0, NEW)]
    #[case::a_program_of_sql_beside_the_runner(Some("k"), None, true, 9000, Admission::Turn { away: "the runner is connected already" })]
    #[case::a_guessed_key(Some("k"), Some("x"), false, 9000, Admission::Turn { away: "it shows a wrong key" })]
    #[case::the_runner_after_the_agents_restart(Some("k"), Some("k"), false, 0, KNOWN)]
    #[case::the_runner_over_a_dead_connection(Some("k"), Some("k"), true, 0, KNOWN)]
    #[case::a_new_container_waits(Some("k"), None, false, 1999, Admission::Hold)]
    #[case::a_new_container_gets_in(Some("k"), None, false, 2000, NEW)]
    fn who_is_the_runner(
        #[case] known: Option<&str>,
        #[case] shown: Option<&str>,
        #[case] connected: bool,
        #[case] waited: u64,
        #[case] expected: Admission,
    ) {
        assert_eq!(admit(known, shown, connected, waited), expected);
    }
}
