//! TLS to Redis, with `ring` whatever other provider the process has installed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use tidegate_store::StoreErrorKind;

use super::failure::RedisFailure;
use crate::RedisConfig;

/// Secures a connection to `host`.
pub(super) async fn secure(
    stream: TcpStream,
    host: &str,
    config: &Arc<RedisConfig>,
) -> Result<TlsStream<TcpStream>, RedisFailure> {
    // Certificates are read each time, so that new ones are noticed. That may take a while, so it
    // does not belong on a thread that others are waiting for.
    let files = Arc::clone(config);
    let client = tokio::task::spawn_blocking(move || client_config(&files))
        .await
        .map_err(|_| misconfigured("the certificates could not be read".to_owned()))?
        .map_err(misconfigured)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        misconfigured(format!("{host:?} is not a host name that a certificate can have"))
    })?;
    TlsConnector::from(Arc::new(client))
        .connect(name, stream)
        .await
        .map_err(|error| handshake_failure(&error))
}

/// A handshake that failed because of its content will fail again until an operator acts; one that
/// was cut off may not.
fn handshake_failure(error: &io::Error) -> RedisFailure {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match cause.is_some() {
        true => misconfigured(format!("TLS: {error}")),
        false => RedisFailure::not_run(StoreErrorKind::Unreachable, format!("TLS: {error}")),
    }
}

fn misconfigured(message: String) -> RedisFailure {
    RedisFailure::not_run(StoreErrorKind::Misconfigured, message)
}

fn client_config(config: &RedisConfig) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots(config.ca_file.as_deref())?);
    match &config.client_cert {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            let key_der = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable(key, &e))?;
            builder
                .with_client_auth_cert(certificates(cert)?, key_der)
                .map_err(|error| format!("{} with {}: {error}", cert.display(), key.display()))
        }
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        // Some of the system's certificates may be unreadable or odd; the others will do.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unreadable(path, &error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, &error))?;
    match found.is_empty() {
        true => Err(format!("{}: contains no certificate", path.display())),
        false => Ok(found),
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
