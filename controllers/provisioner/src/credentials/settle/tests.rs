use jiff::SignedDuration;

use super::*;
use crate::testing;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn read(material: &Material) -> Read {
    Read {
        owner: Some(material.owner.clone()),
        authority: Some(material.authority.clone()),
        server: Some(material.server.clone()),
        agent: Some(material.agent.clone()),
        replication: Some(material.replication.clone()),
        trust: Some(material.trust.clone()),
    }
}

fn again(material: &Material, now: Timestamp) -> Material {
    settle(&read(material), &testing::wanted(), now).unwrap()
}

fn minted(material: &Material) -> Vec<(String, Why)> {
    material
        .minted
        .iter()
        .map(|m| (m.secret.clone(), m.why))
        .collect()
}

fn facts(data: &SecretData) -> Facts {
    Facts::of(data.text("tls.crt").unwrap()).unwrap()
}

fn first() -> Material {
    settle(&Read::default(), &testing::wanted(), testing::now()).unwrap()
}

/// As a client does it: some certificate of the bundle signed the leaf, and the leaf is in its time.
fn verifies(leaf: &Facts, trust: &str, now: Timestamp) -> bool {
    let signed = certificate::bundle(trust)
        .iter()
        .any(|(_, ca)| ca.is_ca && ca.not_after > now && leaf.is_issued_by(ca));
    signed && leaf.not_before <= now && now < leaf.not_after
}

#[test]
fn every_secret_is_minted_once() {
    let first = first();
    assert_eq!(first.minted.len(), 5);
    assert!(minted(&again(&first, testing::now() + DAY)).is_empty());
}

#[test]
fn the_servers_certificate_has_every_name_a_client_uses() {
    let mut wanted = testing::wanted();
    wanted.external_names = vec!["orders.example.com".into(), "192.0.2.7".into()];
    let material = settle(&Read::default(), &wanted, testing::now()).unwrap();
    let server = facts(&material.server);
    insta::assert_yaml_snapshot!(server.names);
    assert!(server.server && !server.client);
    let agent = facts(&material.agent);
    assert_eq!(agent.common_name, "sampledb_agent");
    assert!(
        agent
            .names
            .contains(&format!("sampledb://{}/agent", testing::UID))
            && agent.server
            && agent.client
    );
    let replication = facts(&material.replication);
    assert_eq!(
        (replication.common_name.as_str(), replication.server),
        ("sampledb_replication", false)
    );
    for leaf in [server, agent, replication] {
        assert!(verifies(&leaf, &material.trust, testing::now()));
        assert_eq!(leaf.not_after, testing::now() + certificate::LEAF);
    }
}

#[test]
fn a_tls_client_accepts_the_server() {
    use std::sync::Arc;

    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    let material = first();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(material.trust.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let leaf = CertificateDer::from_pem_slice(material.server.text("tls.crt").unwrap().as_bytes()).unwrap();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(testing::now().as_second() as u64));
    for name in [
        "orders-rw",
        "orders-rw.shop.svc.cluster.local",
        "orders-0.orders-pods.shop.svc",
        "localhost",
    ] {
        let server = ServerName::try_from(name).unwrap();
        assert!(
            verifier.verify_server_cert(&leaf, &[], &server, &[], now).is_ok(),
            "{name}"
        );
    }
    let other = ServerName::try_from("other-rw.shop.svc").unwrap();
    assert!(verifier.verify_server_cert(&leaf, &[], &other, &[], now).is_err());
}

#[test]
fn a_leaf_is_renewed_at_two_thirds_and_the_ca_stays() {
    let first = first();
    let second = again(&first, testing::now() + DAY * 61);
    let renewed: Vec<_> = minted(&second);
    assert_eq!(renewed.len(), 3);
    assert!(renewed.iter().all(|(_, why)| *why == Why::Due));
    assert!(second.authority == first.authority && second.trust == first.trust);
    assert!(second.server.text("tls.key") != first.server.text("tls.key"));
}

#[test]
fn a_new_name_is_in_the_certificate_at_once() {
    let first = first();
    let mut wanted = testing::wanted();
    wanted.external_names.push("orders.example.com".into());
    let second = settle(&read(&first), &wanted, testing::now() + DAY).unwrap();
    assert_eq!(minted(&second), [("orders-server".to_owned(), Why::Changed)]);
}

#[test]
fn nobody_meets_a_ca_that_was_not_trusted_for_a_week() {
    let (mut material, start) = (first(), testing::now());
    let mut trusted_since = std::collections::BTreeMap::from([(material.trust.clone(), start)]);
    // A look a day around the replacement, which is due after two thirds of five years; else one a month.
    for day in (1..1190)
        .step_by(30)
        .chain(1190..1320)
        .chain((1320..2200).step_by(30))
    {
        let now = start + DAY * day;
        material = again(&material, now);
        for (text, _) in certificate::bundle(&material.trust) {
            trusted_since.entry(text).or_insert(now);
        }
        for data in [&material.server, &material.agent, &material.replication] {
            let leaf = facts(data);
            assert!(verifies(&leaf, &material.trust, now), "day {day}");
            let ca = certificate::bundle(&material.trust)
                .into_iter()
                .find(|(_, ca)| leaf.is_issued_by(ca))
                .unwrap();
            let since = trusted_since
                .iter()
                .find(|(text, _)| Facts::of(text) == Some(ca.1.clone()))
                .unwrap()
                .1;
            assert!(
                *since == start || now.duration_since(*since) >= OVERLAP,
                "day {day}"
            );
        }
    }
    assert!(trusted_since.len() >= 2, "the CA was replaced in these six years");
}

#[test]
fn a_lost_ca_breaks_no_connection() {
    let before = first();
    let now = testing::now() + DAY * 30;
    let lost = Read {
        authority: None,
        ..read(&before)
    };
    let mut material = settle(&lost, &testing::wanted(), now).unwrap();
    assert_eq!(minted(&material), [("orders-ca".to_owned(), Why::Missing)]);
    assert_eq!(certificate::bundle(&material.trust).len(), 2);
    for day in 1..60 {
        let now = now + DAY * day;
        material = again(&material, now);
        let leaf = facts(&material.server);
        assert!(verifies(&leaf, &material.trust, now), "day {day}");
        let old = leaf.is_issued_by(&Facts::of(&before.trust).unwrap());
        assert_eq!(old, day < 7, "day {day}");
    }
}

#[test]
fn a_certificate_smuggled_into_the_trust_list_is_not_taken_over() {
    let before = first();
    let evil = certificate::authority("evil", testing::now()).unwrap();
    let lost = Read {
        authority: None,
        trust: Some(format!("{}{}", before.trust, evil.certificate)),
        ..read(&before)
    };
    let material = settle(&lost, &testing::wanted(), testing::now() + DAY).unwrap();
    assert!(material.trust.contains(before.trust.trim()));
    assert!(!material.trust.contains(evil.certificate.trim()));
}

#[test]
fn a_damaged_secret_is_made_anew() {
    let first = first();
    let server = SecretData::from([
        ("tls.crt", first.server.text("tls.crt").unwrap().to_owned()),
        ("tls.key", first.agent.text("tls.key").unwrap().to_owned()),
    ]);
    let second = settle(
        &Read {
            server: Some(server),
            ..read(&first)
        },
        &testing::wanted(),
        testing::now(),
    )
    .unwrap();
    assert_eq!(minted(&second), [("orders-server".to_owned(), Why::Missing)]);
}

#[test]
fn a_password_changed_by_hand_stays() {
    let first = first();
    let verifier = first.owner.text("verifier").unwrap().to_owned();
    let edited = owner::data("app", "mine".into(), verifier);
    let second = settle(
        &Read {
            owner: Some(edited),
            ..read(&first)
        },
        &testing::wanted(),
        testing::now(),
    )
    .unwrap();
    assert_eq!(
        minted(&second),
        [("orders-owner".to_owned(), Why::PasswordChanged)]
    );
    assert_eq!(second.owner.text("password"), Some("mine"));
    assert!(owner::verifies(second.owner.text("verifier").unwrap(), "mine"));
}
