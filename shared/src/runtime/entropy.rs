//! Randomness from the operating system, and the type of what must never be shown.

use std::fmt;

/// A value that must not be shown: it is neither printed nor serialised unless it is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Sensitive(String);

impl Sensitive {
    /// Keeps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself: only to hand it to where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[sensitive]")
    }
}

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("no randomness from the operating system: {0}")]
pub struct EntropyError(#[from] getrandom::Error);

/// `N` random bytes.
pub fn bytes<const N: usize>() -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Fills `bytes`.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place that asks the operating system"
)]
pub fn fill(bytes: &mut [u8]) -> Result<(), EntropyError> {
    Ok(getrandom::fill(bytes)?)
}

/// The shortest password: 22 letters of 62 are more than 128 bits.
pub const SHORTEST_PASSWORD: usize = 22;

/// A password of letters and digits, each as likely as any other; at least [`SHORTEST_PASSWORD`] long, whatever was
/// asked for. Letters and digits alone need no quoting in a URI, in SQL or in a shell.
pub fn password(length: usize) -> Result<Sensitive, EntropyError> {
    let length = length.max(SHORTEST_PASSWORD);
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let random = bytes::<32>()?;
        text.extend(random.iter().filter_map(|b| letter(*b)).take(length - text.len()));
    }
    Ok(Sensitive(text))
}

/// The letter for a byte; none for the bytes past the last whole multiple of 62, which would favour some.
fn letter(byte: u8) -> Option<char> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    (byte < 248).then(|| char::from(LETTERS[usize::from(byte % 62)]))
}

/// Eight random bytes in hexadecimal, to tell two of something apart. Without randomness: zeros.
pub(crate) fn short_id() -> String {
    crate::domain::hex::hex(&bytes::<8>().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_password_cannot_be_guessed_and_needs_no_quoting() {
        let one = password(8).unwrap();
        assert_eq!(
            one.expose().len(),
            SHORTEST_PASSWORD,
            "never shorter than 128 bits"
        );
        assert!(one.expose().chars().all(|c| c.is_ascii_alphanumeric()));
        assert_ne!(one, password(8).unwrap());
        assert_eq!(password(64).unwrap().expose().len(), 64);
    }

    #[test]
    fn no_letter_is_likelier_than_another() {
        let mut counts = BTreeMap::new();
        for byte in 0..=255u8 {
            if let Some(c) = letter(byte) {
                *counts.entry(c).or_insert(0) += 1;
            }
        }
        assert_eq!(counts.len(), 62);
        assert!(counts.values().all(|n| *n == 4));
    }

    #[test]
    fn a_password_is_never_printed() {
        assert_eq!(format!("{:?}", Sensitive::new("secret")), "[sensitive]");
    }
}
