//! From what the Secrets hold to what they should hold: the rules, and the minting that follows from them.

use jiff::Timestamp;
use sampledb_shared::domain::names;
use sampledb_shared::domain::names::roles;
use sampledb_shared::runtime::entropy;

use super::authority::{self, Authority, OVERLAP};
use super::certificate::{self, Facts, Leaf, Pair};
use super::{Error, SecretData, owner};

/// What was read. A Secret that is not ours counts as absent.
#[derive(Clone, Default)]
pub struct Read {
    /// `<name>-owner`.
    pub owner: Option<SecretData>,
    /// `<name>-ca`.
    pub authority: Option<SecretData>,
    /// `<name>-server`.
    pub server: Option<SecretData>,
    /// `<name>-agent`.
    pub agent: Option<SecretData>,
    /// `<name>-replication`.
    pub replication: Option<SecretData>,
    /// `ca.crt` of the ConfigMap `<name>-trust`.
    pub trust: Option<String>,
}

/// What the certificates and the owner are for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The SampleDB.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// The owner's role.
    pub owner: String,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// Names by which it is reached from outside.
    pub external_names: Vec<String>,
}

/// What the Secrets and the trust ConfigMap should hold. It has no `Debug`.
#[derive(Clone)]
pub struct Material {
    /// `<name>-owner`.
    pub owner: SecretData,
    /// `<name>-ca`.
    pub authority: SecretData,
    /// `<name>-server`.
    pub server: SecretData,
    /// `<name>-agent`.
    pub agent: SecretData,
    /// `<name>-replication`.
    pub replication: SecretData,
    /// `ca.crt`.
    pub trust: String,
    /// When the CA ends.
    pub ca_not_after: Timestamp,
    /// What the server's certificate says.
    pub server_facts: Facts,
    /// When the first of the leaves ends.
    pub first_not_after: Timestamp,
    /// What is new, and why.
    pub minted: Vec<Minted>,
}

/// Something that was made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The Secret.
    pub secret: String,
    /// Why.
    pub why: Why,
}

/// Why something was made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was not there, or could not be read.
    Missing,
    /// Its names or uses are no longer those that are wanted.
    Changed,
    /// Two thirds of its life are over.
    Due,
    /// Nobody trusts who signed it, or the CA that signed it is being replaced.
    Authority,
    /// A person changed the password.
    PasswordChanged,
}

impl Why {
    /// For a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "it was missing or damaged",
            Self::Changed => "the names in it changed",
            Self::Due => "two thirds of its life are over",
            Self::Authority => "the CA was replaced",
            Self::PasswordChanged => "its password was changed",
        }
    }
}

impl Wanted {
    /// The server's certificate: every name under which a client may reach it.
    pub fn server(&self) -> Leaf {
        let Self {
            name,
            namespace,
            cluster_domain,
            ..
        } = self;
        let mut all: Vec<String> = [names::rw(name), format!("{name}-ro"), names::r(name)]
            .into_iter()
            .flat_map(|service| {
                [
                    service.clone(),
                    format!("{service}.{namespace}"),
                    format!("{service}.{namespace}.svc"),
                    format!("{service}.{namespace}.svc.{cluster_domain}"),
                ]
            })
            .collect();
        let pods = format!("*.{}.{namespace}.svc", names::pods(name));
        all.extend([format!("{pods}.{cluster_domain}"), pods, "localhost".into()]);
        all.extend(self.external_names.iter().cloned());
        Leaf {
            common_name: name.clone(),
            names: all.into_iter().collect(),
            uri: None,
            server: true,
            client: false,
        }
    }

    /// The agents' certificate, pinned by its identity.
    pub fn agent(&self) -> Leaf {
        Leaf {
            common_name: roles::AGENT.into(),
            names: [].into(),
            uri: Some(names::agent_identity(&self.uid)),
            server: true,
            client: true,
        }
    }

    /// The replicas' certificate.
    pub fn replication(&self) -> Leaf {
        Leaf {
            common_name: roles::REPLICATION.into(),
            names: [].into(),
            uri: None,
            server: false,
            client: true,
        }
    }
}

/// Why a leaf has to be issued again; `None` when it is kept.
pub fn reissue(there: Option<&Facts>, leaf: &Leaf, authority: &Authority, now: Timestamp) -> Option<Why> {
    let Some(facts) = there else {
        return Some(Why::Missing);
    };
    if !facts.says(leaf) {
        return Some(Why::Changed);
    }
    if !authority.trusts(facts, now) {
        return Some(Why::Authority);
    }
    let by_newest = authority.signed(facts);
    if !by_newest && !authority.is_young(now) {
        return Some(Why::Authority);
    }
    // After a loss of the CA only the new one can sign, and not everybody trusts it yet: wait while that is possible.
    let can_wait = !by_newest && facts.not_after > now + OVERLAP && !is_signer(authority, facts, now);
    (facts.is_due(now) && !can_wait).then_some(Why::Due)
}

/// Whether the CA that signed `leaf` can sign still.
fn is_signer(authority: &Authority, leaf: &Facts, now: Timestamp) -> bool {
    Facts::of(&authority.signer(now).certificate).is_some_and(|ca| leaf.is_issued_by(&ca))
}

/// What the Secrets should hold: what they do hold, and what had to be minted.
pub fn settle(read: &Read, wanted: &Wanted, now: Timestamp) -> Result<Material, Error> {
    let mut minted = Vec::new();
    let authority = settle_authority(read, wanted, now, &mut minted)?;
    let trust = authority.trust(now);
    let mut first_not_after = None::<Timestamp>;
    let mut settle_leaf =
        |there: Option<&SecretData>, leaf: Leaf, secret: String| -> Result<(SecretData, Facts), Error> {
            let there = there.and_then(|data| Pair::of(data.text("tls.crt")?, data.text("tls.key")?));
            let why = reissue(there.as_ref().map(|(_, facts)| facts), &leaf, &authority, now);
            let pair = match (why, there) {
                (None, Some((pair, _))) => pair,
                (why, _) => {
                    minted.push(Minted {
                        secret,
                        why: why.unwrap_or(Why::Missing),
                    });
                    certificate::leaf(&leaf, &authority.signer(now), now)?
                }
            };
            let facts = Facts::of(&pair.certificate).ok_or(Error::Time(now))?;
            let not_after = facts.not_after;
            first_not_after = Some(first_not_after.map_or(not_after, |first| first.min(not_after)));
            let data = SecretData::from([
                ("tls.crt", pair.certificate),
                ("tls.key", pair.key),
                ("ca.crt", trust.clone()),
            ]);
            Ok((data, facts))
        };
    let name = &wanted.name;
    let (server, server_facts) =
        settle_leaf(read.server.as_ref(), wanted.server(), names::server_secret(name))?;
    let (agent, _) = settle_leaf(read.agent.as_ref(), wanted.agent(), names::agent_secret(name))?;
    let (replication, _) = settle_leaf(
        read.replication.as_ref(),
        wanted.replication(),
        names::replication_secret(name),
    )?;
    let owner = settle_owner(read, wanted, &mut minted)?;
    Ok(Material {
        owner,
        authority: authority.data(),
        server,
        agent,
        replication,
        trust,
        ca_not_after: authority.not_after(),
        first_not_after: first_not_after.unwrap_or(server_facts.not_after),
        server_facts,
        minted,
    })
}

fn settle_authority(
    read: &Read,
    wanted: &Wanted,
    now: Timestamp,
    minted: &mut Vec<Minted>,
) -> Result<Authority, Error> {
    let there = read.authority.as_ref().and_then(Authority::of);
    let secret = names::ca_secret(&wanted.name);
    match (Authority::need(there.as_ref(), now), there) {
        (authority::Need::Successor, Some(there)) => {
            minted.push(Minted {
                secret,
                why: Why::Due,
            });
            there.successor(&wanted.name, now)
        }
        (_, Some(there)) => Ok(there),
        (_, None) => {
            minted.push(Minted {
                secret,
                why: Why::Missing,
            });
            Authority::first(&wanted.name, still_in_use(read, now), now)
        }
    }
}

/// The certificates of a lost CA that must stay trusted: those that signed a leaf in use, and no others, because
/// anybody who may edit ConfigMaps could have written into the list.
fn still_in_use(read: &Read, now: Timestamp) -> Vec<(String, Facts)> {
    let leaves: Vec<Facts> = [&read.server, &read.agent, &read.replication]
        .into_iter()
        .filter_map(|data| Facts::of(data.as_ref()?.text("tls.crt")?))
        .collect();
    let known = [&read.server, &read.agent]
        .into_iter()
        .filter_map(|data| data.as_ref()?.text("ca.crt"));
    let mut found: Vec<(String, Facts)> = Vec::new();
    for (text, facts) in known.chain(read.trust.as_deref()).flat_map(certificate::bundle) {
        let signed = leaves.iter().any(|leaf| leaf.is_issued_by(&facts));
        if facts.is_ca && facts.not_after > now && signed && !found.iter().any(|(_, other)| *other == facts) {
            found.push((text, facts));
        }
    }
    found
}

fn settle_owner(read: &Read, wanted: &Wanted, minted: &mut Vec<Minted>) -> Result<SecretData, Error> {
    let there = read.owner.as_ref();
    let text = |key: &str| {
        there
            .and_then(|data| data.text(key))
            .unwrap_or_default()
            .to_owned()
    };
    let secret = names::owner_secret(&wanted.name);
    let (password, verifier) = match owner::need(there) {
        owner::Need::Nothing => (text("password"), text("verifier")),
        owner::Need::Verifier => {
            minted.push(Minted {
                secret,
                why: Why::PasswordChanged,
            });
            let verifier = owner::verifier(&text("password"));
            (text("password"), verifier)
        }
        owner::Need::Password => {
            minted.push(Minted {
                secret,
                why: Why::Missing,
            });
            let password = entropy::password(owner::PASSWORD_LENGTH)?.expose().to_owned();
            let verifier = owner::verifier(&password);
            (password, verifier)
        }
    };
    Ok(owner::data(&wanted.owner, password, verifier))
}

#[cfg(test)]
mod tests;
