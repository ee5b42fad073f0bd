//! Passwords, keys and certificates: what the Secrets hold, and what has to be made anew.
//!
//! A Secret that is there is the truth. Only what is missing, damaged, due or no longer fitting is minted, and it is
//! minted while looking, so that the decision stays a function of what was seen.

pub mod authority;
pub mod certificate;
pub mod owner;
pub mod settle;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

pub use settle::{Material, Minted, Read, Wanted, Why, settle};

/// The content of a Secret. It has no `Debug` and is never logged.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretData(BTreeMap<String, Vec<u8>>);

impl SecretData {
    /// From what the API server gave.
    pub fn of(data: Option<BTreeMap<String, ByteString>>) -> Self {
        Self(
            data.unwrap_or_default()
                .into_iter()
                .map(|(key, value)| (key, value.0))
                .collect(),
        )
    }

    /// For the API server.
    pub fn to_bytes(&self) -> BTreeMap<String, ByteString> {
        self.0
            .iter()
            .map(|(key, value)| (key.clone(), ByteString(value.clone())))
            .collect()
    }

    /// The text under a key; `None` when it is not there or not text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| std::str::from_utf8(value).ok())
    }
}

impl<const N: usize> From<[(&str, String); N]> for SecretData {
    fn from(entries: [(&str, String); N]) -> Self {
        Self(
            entries
                .into_iter()
                .map(|(key, text)| (key.to_owned(), text.into_bytes()))
                .collect(),
        )
    }
}

/// Why something could not be minted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate.
    #[error("cannot issue the certificate of {subject}: {source}")]
    Issue {
        /// Of whom.
        subject: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// A time that no certificate can hold.
    #[error("cannot write the time {0} into a certificate")]
    Time(jiff::Timestamp),
    /// Randomness.
    #[error(transparent)]
    Entropy(#[from] sampledb_shared::runtime::entropy::EntropyError),
}
