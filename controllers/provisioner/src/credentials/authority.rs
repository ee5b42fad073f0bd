//! The CA, and its replacement with an overlap.
//!
//! The Secret holds the newest CA (`tls.crt`, `tls.key`) and those before it that are still trusted (`previous.crt`,
//! and `previous.key` of the first of them). A new CA is trusted at once and signs only after [`OVERLAP`], so that
//! everybody has learnt of it before they meet it.

use jiff::{SignedDuration, Timestamp};
use sampledb_shared::domain::names;

use super::certificate::{self, Facts, Pair};
use super::{Error, SecretData};

/// How long a new CA is only trusted before it signs.
pub const OVERLAP: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The CA.
#[derive(Clone)]
pub struct Authority {
    current: Pair,
    facts: Facts,
    /// The certificates that are still trusted, the newest first.
    previous: Vec<(String, Facts)>,
    /// The key of the first of them.
    previous_key: Option<String>,
}

/// What is to be done about the CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// There is none, or it cannot be read.
    First,
    /// Two thirds of its life are over.
    Successor,
}

impl Authority {
    /// From its Secret; `None` when it is not there or damaged.
    pub fn of(data: &SecretData) -> Option<Self> {
        let (current, facts) = Pair::of(data.text("tls.crt")?, data.text("tls.key")?)?;
        let previous = certificate::bundle(data.text("previous.crt").unwrap_or_default());
        let previous_key = data.text("previous.key").map(str::to_owned);
        facts.is_ca.then_some(Self {
            current,
            facts,
            previous,
            previous_key,
        })
    }

    /// What is to be done.
    pub fn need(there: Option<&Self>, now: Timestamp) -> Need {
        match there {
            None => Need::First,
            Some(authority) if authority.facts.is_due(now) => Need::Successor,
            Some(_) => Need::Nothing,
        }
    }

    /// A first one. `trusted` are the certificates of a CA that was lost, by which leaves in use are signed.
    pub fn first(name: &str, trusted: Vec<(String, Facts)>, now: Timestamp) -> Result<Self, Error> {
        let current = certificate::authority(&common_name(name, now), now)?;
        let facts = Facts::of(&current.certificate).ok_or(Error::Time(now))?;
        Ok(Self {
            current,
            facts,
            previous: trusted,
            previous_key: None,
        })
    }

    /// Its successor, which trusts it.
    pub fn successor(&self, name: &str, now: Timestamp) -> Result<Self, Error> {
        let mut previous = vec![(self.current.certificate.clone(), self.facts.clone())];
        previous.extend(
            self.previous
                .iter()
                .filter(|(_, facts)| facts.not_after > now)
                .cloned(),
        );
        Ok(Self {
            previous_key: Some(self.current.key.clone()),
            ..Self::first(name, previous, now)?
        })
    }

    /// What its Secret holds.
    pub fn data(&self) -> SecretData {
        let mut data = SecretData::from([
            ("tls.crt", self.current.certificate.clone()),
            ("tls.key", self.current.key.clone()),
        ]);
        if !self.previous.is_empty() {
            let certificates = self.previous.iter().map(|(text, _)| text.as_str()).collect();
            data.0
                .extend(SecretData::from([("previous.crt", certificates)]).0);
        }
        if let Some(key) = &self.previous_key {
            data.0.extend(SecretData::from([("previous.key", key.clone())]).0);
        }
        data
    }

    /// What is trusted: the newest first, nothing that has ended.
    pub fn trust(&self, now: Timestamp) -> String {
        let previous = self
            .previous
            .iter()
            .filter(|(_, facts)| facts.not_after > now)
            .map(|(text, _)| text.as_str());
        [self.current.certificate.as_str()]
            .into_iter()
            .chain(previous)
            .collect()
    }

    /// When the newest one ends.
    pub fn not_after(&self) -> Timestamp {
        self.facts.not_after
    }

    /// Whether it is too new to sign: not everybody may have learnt of it.
    pub fn is_young(&self, now: Timestamp) -> bool {
        !self.previous.is_empty() && now < self.facts.not_before + certificate::BACKDATED + OVERLAP
    }

    /// The one that signs now: the one before while the newest is young and the key of the one before is there.
    pub fn signer(&self, now: Timestamp) -> Pair {
        let previous = self.previous.first().zip(self.previous_key.as_ref());
        previous
            .filter(|_| self.is_young(now))
            .and_then(|((certificate, _), key)| Pair::of(certificate, key))
            .filter(|(_, facts)| facts.not_after > now + OVERLAP)
            .map_or_else(|| self.current.clone(), |(pair, _)| pair)
    }

    /// Whether the newest one signed `leaf`.
    pub fn signed(&self, leaf: &Facts) -> bool {
        leaf.is_issued_by(&self.facts)
    }

    /// Whether any that is trusted signed `leaf`.
    pub fn trusts(&self, leaf: &Facts, now: Timestamp) -> bool {
        self.signed(leaf)
            || self
                .previous
                .iter()
                .any(|(_, ca)| ca.not_after > now && leaf.is_issued_by(ca))
    }
}

/// A common name of at most 64 characters that tells two CAs of a database apart.
fn common_name(name: &str, now: Timestamp) -> String {
    let day = now.strftime("%Y%m%d");
    format!("{name} {} {day}", names::ca_secret("").trim_start_matches('-'))
}
