//! Reads and parses the certificate and key files of a TLS listener.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{Error as RustlsError, RootCertStore, ServerConfig};

/// The paths of a listener's certificates and key, all in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by its chain.
    pub cert: PathBuf,
    /// The private key of the server's certificate.
    pub key: PathBuf,
    /// The authorities that issue client certificates, if clients must present one.
    pub client_ca: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A file does not contain what it should.
    #[error("{}: {problem}: expected {expected}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        problem: String,
        /// What the file should contain.
        expected: &'static str,
    },
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
pub(super) struct TlsContents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Shows nothing, since the contents include a private key.
impl std::fmt::Debug for TlsContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsContents(..)")
    }
}

impl TlsFiles {
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca).cloned().collect()
    }

    pub(super) fn read(&self) -> Result<TlsContents, TlsFileError> {
        Ok(TlsContents {
            cert: read(&self.cert)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }
}

impl TlsContents {
    /// Builds the TLS configuration.
    pub(super) fn parse(&self, files: &TlsFiles) -> Result<ServerConfig, TlsFileError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&files.cert, &error, A_CERTIFICATE))?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(text)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, text)? {
                    roots.add(certificate).map_err(|error| wrong(path, &error, A_CERTIFICATE))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier =
                    verifier.build().map_err(|error| wrong(path, &error, A_CERTIFICATE))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let chain = certificates(&files.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| wrong(&files.key, &error, A_KEY))?;
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            RustlsError::InconsistentKeys(_) => {
                wrong(&files.key, &"the key of another certificate", THE_KEY)
            }
            error => wrong(&files.cert, &error, A_CERTIFICATE),
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    std::fs::read(path).map_err(|error| TlsFileError::Unreadable { path: path.to_owned(), error })
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(wrong(path, &"contains no certificate", A_CERTIFICATE))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, &error, A_CERTIFICATE)),
    }
}

fn wrong(path: &Path, problem: &dyn std::fmt::Display, expected: &'static str) -> TlsFileError {
    TlsFileError::Wrong { path: path.to_owned(), problem: problem.to_string(), expected }
}

const A_CERTIFICATE: &str = "PEM with -----BEGIN CERTIFICATE-----";
const A_KEY: &str = "PEM with -----BEGIN PRIVATE KEY-----";
const THE_KEY: &str = "the private key of the first certificate";
