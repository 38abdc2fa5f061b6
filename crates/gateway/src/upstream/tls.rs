//! TLS to services. It always uses `ring`, whatever default provider the process has installed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_server::NamedFiles;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::UpstreamFailure;

/// The TLS configuration that verifies services.
pub(crate) type UpstreamTlsConfig = Arc<ClientConfig>;

/// The reason why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub(crate) struct UpstreamTlsError {
    path: String,
    why: String,
}

/// Verifies services with the certificates of a file, or else with the system's.
pub(crate) fn client(
    ca: Option<&Path>,
    files: &mut NamedFiles,
) -> Result<UpstreamTlsConfig, UpstreamTlsError> {
    let wrong = |path: Option<PathBuf>, why: String| UpstreamTlsError {
        path: path.map_or_else(|| "TLS".to_owned(), |path| path.display().to_string()),
        why,
    };
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let unreadable = |error: &dyn std::fmt::Display| {
                wrong(Some(path.to_owned()), format!("cannot read certificates: {error}"))
            };
            let text = files.read(path).map_err(|error| unreadable(&error))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
            if roots.is_empty() {
                return Err(unreadable(&"expected at least one"));
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(None, error.to_string()))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Secures a connection to `host`. Also returns whether it uses HTTP/2.
pub(crate) async fn secure(
    stream: TcpStream,
    host: &str,
    config: UpstreamTlsConfig,
) -> Result<(TlsStream<TcpStream>, bool), UpstreamFailure> {
    let failed = |why: String| UpstreamFailure::Connect(format!("TLS: {why}"));
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| failed(format!("{host:?} is not a valid server name")))?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    Ok((stream, is_h2))
}

const H2: &[u8] = b"h2";
