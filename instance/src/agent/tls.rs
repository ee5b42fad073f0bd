//! TLS to PostgreSQL: the CA of the trust folder, the agent's certificate, and which certificate the server shows.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sampledb_shared::domain::hex::hex;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or is not PEM.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The files do not fit together.
    #[error("the certificates in {0} cannot be used: {1}")]
    Unusable(PathBuf, String),
}

/// The serial number of the certificate that the server showed last, in hexadecimal.
#[derive(Clone, Debug, Default)]
pub struct Shown(Arc<Mutex<Option<String>>>);

impl Shown {
    /// The serial number.
    pub fn serial(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The way to a server that shows a certificate of the CA in `ca`; `own` is a folder with tls.crt and tls.key.
/// Files are read now: a new connection uses new certificates.
pub fn client(ca: &Path, own: Option<&Path>) -> Result<(ClientConfig, Shown), TlsError> {
    let unusable = |error: String| TlsError::Unusable(ca.to_owned(), error);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|e| unusable(e.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|e| unusable(e.to_string()))?;
    let shown = Shown::default();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Recorder {
            verifier,
            shown: shown.clone(),
        }));
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(folder) => {
            let path = folder.join("tls.key");
            let key =
                PrivateKeyDer::from_pem_file(&path).map_err(|source| TlsError::File { path, source })?;
            builder
                .with_client_auth_cert(certificates(&folder.join("tls.crt"))?, key)
                .map_err(|e| TlsError::Unusable(folder.to_owned(), e.to_string()))?
        }
    };
    Ok((config, shown))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |source| TlsError::File {
        path: path.to_owned(),
        source,
    };
    CertificateDer::pem_file_iter(path)
        .map_err(error)?
        .collect::<Result<_, _>>()
        .map_err(error)
}

/// Verifies as usual and keeps the serial number of what was verified.
#[derive(Debug)]
struct Recorder {
    verifier: Arc<WebPkiServerVerifier>,
    shown: Shown,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .verifier
            .verify_server_cert(end_entity, intermediates, server_name, ocsp, now)?;
        if let Ok((_, certificate)) = X509Certificate::from_der(end_entity) {
            let serial = hex(certificate.raw_serial());
            *self.shown.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(serial);
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
