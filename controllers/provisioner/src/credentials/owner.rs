//! The owner's name, password and verifier.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

use super::SecretData;

/// Rounds of a verifier: what [`verifier`] takes, and PostgreSQL itself by default (`scram_iterations`). A verifier of another
/// number is not asked whether it fits but made anew: whoever may edit the Secret could else keep the controller busy
/// for as long as they like.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();

/// Characters in a minted password.
pub const PASSWORD_LENGTH: usize = 32;

/// What is to be minted for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// A verifier: the password is new, or a person changed it.
    Verifier,
    /// A password, and so a verifier.
    Password,
}

/// What is missing from the Secret. A password that is there is kept, whoever chose it.
pub fn need(there: Option<&SecretData>) -> Need {
    let Some(password) = there
        .and_then(|data| data.text("password"))
        .filter(|p| !p.is_empty())
    else {
        return Need::Password;
    };
    let verifier = there.and_then(|data| data.text("verifier")).unwrap_or_default();
    if verifies(verifier, password) {
        Need::Nothing
    } else {
        Need::Verifier
    }
}

/// What PostgreSQL keeps of a password.
pub fn verifier(password: &str) -> String {
    postgres_protocol::password::scram_sha_256(password.as_bytes())
}

/// The Secret's content.
pub fn data(username: &str, password: String, verifier: String) -> SecretData {
    SecretData::from([
        ("username", username.to_owned()),
        ("password", password),
        ("verifier", verifier),
    ])
}

/// Whether `verifier` (`SCRAM-SHA-256$iterations:salt$stored:server`) is one of `password`.
pub fn verifies(verifier: &str, password: &str) -> bool {
    stored_key(verifier, password).unwrap_or(false)
}

fn stored_key(verifier: &str, password: &str) -> Option<bool> {
    let (parameters, keys) = verifier.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
    let (iterations, salt) = parameters.split_once(':')?;
    let (stored, server) = keys.split_once(':')?;
    if iterations.parse() != Ok(ITERATIONS) {
        return None;
    }
    let salt = STANDARD.decode(salt).ok()?;
    let prepared = stringprep::saslprep(password).map_or(password.into(), std::borrow::Cow::into_owned);
    let mut salted = [0; 32];
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        ITERATIONS,
        &salt,
        prepared.as_bytes(),
        &mut salted,
    );
    let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client = hmac::sign(&salted, b"Client Key");
    Some(
        digest::digest(&digest::SHA256, client.as_ref()).as_ref() == STANDARD.decode(stored).ok()?
            && hmac::sign(&salted, b"Server Key").as_ref() == STANDARD.decode(server).ok()?,
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("plain")]
    #[case("pässwörd")]
    #[case("soft\u{ad}hyphen")]
    #[case("tab\tand\u{7}bell")]
    fn a_password_is_not_rehashed_at_every_look(#[case] password: &str) {
        let verifier = verifier(password);
        assert!(verifies(&verifier, password));
        assert!(!verifies(&verifier, "another"));
        assert!(need(Some(&data("app", password.into(), verifier))) == Need::Nothing);
    }

    #[test]
    fn a_password_changed_by_hand_is_kept_and_gets_its_verifier() {
        let edited = data("app", "chosen".into(), verifier("before"));
        assert_eq!(need(Some(&edited)), Need::Verifier);
        assert_eq!(need(Some(&SecretData::default())), Need::Password);
        assert_eq!(need(None), Need::Password);
    }

    #[rstest]
    #[case("")]
    #[case("SCRAM-SHA-256$")]
    #[case("SCRAM-SHA-256$0:AAAA$AAAA:AAAA")]
    #[case("SCRAM-SHA-256$4294967295:AAAA$AAAA:AAAA")]
    #[case("SCRAM-SHA-256$x:AAAA$AAAA:AAAA")]
    #[case("md5abc")]
    fn a_damaged_verifier_is_made_anew(#[case] verifier: &str) {
        assert!(!verifies(verifier, "p"));
    }
}
