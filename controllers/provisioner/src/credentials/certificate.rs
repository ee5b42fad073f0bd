//! Certificates: what one should say, what one says, and issuing it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use sampledb_shared::domain::hex::hex;
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

use super::Error;

/// How long a leaf is good for.
pub const LEAF: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long the CA is good for.
pub const CA: SignedDuration = SignedDuration::from_hours(5 * 365 * 24);
/// A certificate begins this long before it is issued, for clocks that are behind.
pub const BACKDATED: SignedDuration = SignedDuration::from_mins(10);

/// A certificate and its key, as PEM. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Pair {
    /// The parts that Secrets of TLS have; `None` when one is missing, cannot be read, or does not fit the other.
    pub fn of(certificate: &str, key: &str) -> Option<(Self, Facts)> {
        let facts = Facts::of(certificate)?;
        let fits = KeyPair::from_pem(key).ok()?.public_key_raw() == facts.public_key;
        fits.then(|| {
            (
                Self {
                    certificate: certificate.into(),
                    key: key.into(),
                },
                facts,
            )
        })
    }
}

/// What a leaf should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The common name: for a client, the role of PostgreSQL.
    pub common_name: String,
    /// The names of the server, and addresses among them.
    pub names: BTreeSet<String>,
    /// The identity.
    pub uri: Option<String>,
    /// Whether a server shows it.
    pub server: bool,
    /// Whether a client shows it.
    pub client: bool,
}

impl Leaf {
    /// Its alternative names as [`Facts`] has them.
    fn alternative_names(&self) -> BTreeSet<String> {
        self.names.iter().cloned().chain(self.uri.clone()).collect()
    }
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// From when on.
    pub not_before: Timestamp,
    /// Until when.
    pub not_after: Timestamp,
    /// The common name; empty when there is none.
    pub common_name: String,
    /// The alternative names, addresses and URIs.
    pub names: BTreeSet<String>,
    /// For servers.
    pub server: bool,
    /// For clients.
    pub client: bool,
    /// Whether it may issue others.
    pub is_ca: bool,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The certificate as DER.
    der: Vec<u8>,
    public_key: Vec<u8>,
}

impl Facts {
    /// Of the first certificate in a PEM text; `None` when there is none or it cannot be read.
    pub fn of(pem: &str) -> Option<Self> {
        Pem::iter_from_buffer(pem.as_bytes()).find_map(|block| Self::of_der(&block.ok()?.contents))
    }

    fn of_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let time = |t: x509_parser::time::ASN1Time| Timestamp::from_second(t.timestamp()).ok();
        let names = certificate.subject_alternative_name().ok()?;
        let names = names
            .iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
                GeneralName::IPAddress(bytes) => match *bytes {
                    [a, b, c, d] => Some(IpAddr::from([*a, *b, *c, *d]).to_string()),
                    bytes => <[u8; 16]>::try_from(bytes)
                        .ok()
                        .map(|b| IpAddr::from(b).to_string()),
                },
                _ => None,
            });
        let usage = certificate
            .extended_key_usage()
            .ok()?
            .map(|e| (e.value.server_auth, e.value.client_auth));
        let common_name = certificate
            .subject()
            .iter_common_name()
            .next()
            .and_then(|n| n.as_str().ok())
            .unwrap_or("");
        Some(Self {
            not_before: time(certificate.validity().not_before)?,
            not_after: time(certificate.validity().not_after)?,
            common_name: common_name.into(),
            names: names.collect(),
            server: usage.is_some_and(|u| u.0),
            client: usage.is_some_and(|u| u.1),
            is_ca: certificate.is_ca(),
            serial: hex(certificate.raw_serial()),
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
            der: der.to_vec(),
        })
    }

    /// Whether `issuer` signed it.
    pub fn is_issued_by(&self, issuer: &Self) -> bool {
        let parsed = (
            x509_parser::parse_x509_certificate(&self.der),
            x509_parser::parse_x509_certificate(&issuer.der),
        );
        let (Ok((_, own)), Ok((_, issuer))) = parsed else {
            return false;
        };
        own.verify_signature(Some(issuer.public_key())).is_ok()
    }

    /// Whether it says what `leaf` should.
    pub fn says(&self, leaf: &Leaf) -> bool {
        self.common_name == leaf.common_name
            && self.names == leaf.alternative_names()
            && (self.server, self.client) == (leaf.server, leaf.client)
    }

    /// Whether two thirds of its life are over.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let life = self.not_after.duration_since(self.not_before);
        now.duration_since(self.not_before) >= life * 2 / 3
    }
}

/// The certificates of a PEM text, each as its own text with its facts; what cannot be read is left out.
pub fn bundle(pem: &str) -> Vec<(String, Facts)> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END)
        .filter_map(|text| {
            let text = format!("{}\n", text.get(text.find("-----BEGIN")?..)?);
            Facts::of(&text).map(|facts| (text, facts))
        })
        .collect()
}

/// A new CA.
pub fn authority(common_name: &str, now: Timestamp) -> Result<Pair, Error> {
    let mut params = params(common_name, now, now + CA)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = key(common_name)?;
    let certificate = params
        .self_signed(&key)
        .map_err(|source| issue(common_name, source))?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// A new leaf with a new key, signed by `authority`; it never outlives it.
pub fn leaf(leaf: &Leaf, authority: &Pair, now: Timestamp) -> Result<Pair, Error> {
    let subject = &leaf.common_name;
    let failed = |source| issue(subject, source);
    let end = Facts::of(&authority.certificate).map_or(now + LEAF, |ca| ca.not_after.min(now + LEAF));
    let mut params = params(subject, now, end)?;
    for name in &leaf.names {
        params.subject_alt_names.push(match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.as_str().try_into().map_err(failed)?),
        });
    }
    if let Some(uri) = &leaf.uri {
        params
            .subject_alt_names
            .push(SanType::URI(uri.as_str().try_into().map_err(failed)?));
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = [
        leaf.server.then_some(ExtendedKeyUsagePurpose::ServerAuth),
        leaf.client.then_some(ExtendedKeyUsagePurpose::ClientAuth),
    ]
    .into_iter()
    .flatten()
    .collect();
    let signer = KeyPair::from_pem(&authority.key).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signer).map_err(failed)?;
    let key = key(subject)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn params(common_name: &str, now: Timestamp, end: Timestamp) -> Result<CertificateParams, Error> {
    let time = |t: Timestamp| OffsetDateTime::from_unix_timestamp(t.as_second()).map_err(|_| Error::Time(t));
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = time(now - BACKDATED)?;
    params.not_after = time(end)?;
    Ok(params)
}

fn key(subject: &str) -> Result<KeyPair, Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| issue(subject, source))
}

fn issue(subject: &str, source: rcgen::Error) -> Error {
    Error::Issue {
        subject: subject.into(),
        source,
    }
}
