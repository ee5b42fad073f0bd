//! Which certificates of the API server are trusted: those that the pod's CA file signs, as it is at each handshake. No
//! handshake is shortened by what an earlier one agreed on, because the certificate is not looked at then.
//!
//! The kubelet replaces the file when the cluster's CA changes; a process that read it once would be locked out.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Why the API server cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no file.
    #[error("the CA file {} cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It does not hold certificates.
    #[error("the CA file {} holds no certificates that can be used: {why}", file.display())]
    Useless {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

/// TLS towards a server whose certificate the CAs in `file` signed. The client shows no certificate.
pub(crate) fn tls(file: PathBuf) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let cas = Cas::load(file.clone(), Arc::clone(&provider))?;
    let useless = |why: rustls::Error| TrustError::Useless {
        file,
        why: why.to_string(),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(useless)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(cas))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The CAs of a file.
#[derive(Debug)]
struct Cas {
    file: PathBuf,
    provider: Arc<CryptoProvider>,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    text: Vec<u8>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Cas {
    fn load(file: PathBuf, provider: Arc<CryptoProvider>) -> Result<Self, TrustError> {
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(source) => return Err(TrustError::Unreadable { file, source }),
        };
        match verifier(&text, &provider) {
            Ok(verifier) => Ok(Self {
                file,
                provider,
                loaded: Mutex::new(Loaded { text, verifier }),
            }),
            Err(why) => Err(TrustError::Useless { file, why }),
        }
    }

    /// By the file as it is now; while that cannot be used, as it was.
    fn now(&self) -> Arc<WebPkiServerVerifier> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::read(&self.file) {
            Ok(text) if text != loaded.text => match verifier(&text, &self.provider) {
                Ok(verifier) => *loaded = Loaded { text, verifier },
                Err(why) => {
                    tracing::warn!(event = "ca_useless", file = %self.file.display(), why, "the CAs before are trusted further");
                }
            },
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(event = "ca_unreadable", file = %self.file.display(), %error, "the CAs before are trusted further");
            }
        }
        Arc::clone(&loaded.verifier)
    }
}

fn verifier(text: &[u8], provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|e| e.to_string())?;
        roots.add(certificate).map_err(|e| e.to_string())?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|e| e.to_string())
}

impl ServerCertVerifier for Cas {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.now()
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    struct Ca {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Ca {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            Self {
                pem,
                issuer: Issuer::new(params, key),
            }
        }

        fn leaf(&self) -> CertificateDer<'static> {
            let params = CertificateParams::new(vec!["api".to_owned()]).unwrap();
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap().der().clone()
        }
    }

    fn trusts(cas: &Cas, ca: &Ca) -> bool {
        let name = ServerName::try_from("api").unwrap();
        cas.verify_server_cert(&ca.leaf(), &[], &name, &[], UnixTime::now())
            .is_ok()
    }

    #[test]
    fn a_replaced_ca_is_trusted_at_once_and_the_one_before_no_more() {
        let file = std::env::temp_dir().join(format!("sampledb-ca-{}", std::process::id()));
        let (before, after) = (Ca::new(), Ca::new());
        std::fs::write(&file, &before.pem).unwrap();
        let cas = Cas::load(file.clone(), Arc::new(ring::default_provider())).unwrap();
        assert!(trusts(&cas, &before) && !trusts(&cas, &after));

        std::fs::write(&file, format!("{}{}", before.pem, after.pem)).unwrap();
        assert!(
            trusts(&cas, &before) && trusts(&cas, &after),
            "both, as in a rotation"
        );
        std::fs::write(&file, &after.pem).unwrap();
        assert!(!trusts(&cas, &before) && trusts(&cas, &after));

        std::fs::write(&file, "half a certif").unwrap();
        assert!(trusts(&cas, &after), "a file that cannot be used changes nothing");
        std::fs::remove_file(&file).unwrap();
        assert!(trusts(&cas, &after), "nor does one that is gone");
    }

    #[test]
    fn without_a_ca_nothing_is_trusted_and_it_is_said() {
        let error = tls("/nowhere/ca.crt".into()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.crt"), "{error}");
        let file = std::env::temp_dir().join(format!("sampledb-no-ca-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let error = tls(file.clone()).unwrap_err();
        assert!(error.to_string().contains("no certificates"), "{error}");
        std::fs::remove_file(&file).unwrap();
    }
}
