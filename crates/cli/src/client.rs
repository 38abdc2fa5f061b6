//! A small HTTP client for a running server: one request per connection.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use crate::client_error;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetServer {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl FromStr for TargetServer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                bail!("no path: expected unix:/path");
            }
            return Ok(Self::Unix(path.into()));
        }
        let uri: Uri = text.parse().map_err(|error| anyhow!("{error}: expected {A_URL}"))?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => bail!("expected {A_URL}"),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            bail!("unexpected path: expected {A_URL} alone");
        }
        let host = uri.host().filter(|host| !host.is_empty()).context("no host")?.to_owned();
        Ok(Self::Tcp { host, port: uri.port_u16().unwrap_or(port), tls })
    }
}

impl fmt::Display for TargetServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, tls: false } => write!(f, "http://{host}:{port}"),
            Self::Tcp { host, port, tls: true } => write!(f, "https://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Posts a JSON body and returns the answer, bounded in time and size.
pub(crate) async fn post(
    server: &TargetServer,
    path: &str,
    credentials: &OperatorCredentials,
    body: String,
) -> anyhow::Result<(StatusCode, String)> {
    request(server, Method::POST, path, credentials, Some(body)).await
}

/// The server that a command asks, and the certificate to present to it.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The server: http://host:port, https://host:port or unix:/path
    #[arg(
        long,
        env = "TIDEGATE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: TargetServer,
    /// A certificate to present to a server that asks for one, with its chain (PEM)
    #[arg(long, env = "TIDEGATE_CERT", value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "TIDEGATE_CERT_KEY", value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
}

impl ServerArgs {
    pub(crate) fn credentials(&self) -> OperatorCredentials {
        let identity = self.cert.clone().zip(self.cert_key.clone());
        OperatorCredentials { token: None, identity }
    }
}

/// How an operator or a client authenticates to a server.
#[derive(Debug)]
pub(crate) struct OperatorCredentials {
    pub(crate) token: Option<String>,
    /// The files of a certificate with its chain, and of its key (PEM).
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Gets a path with an operator's credentials.
pub(crate) async fn get(
    server: &TargetServer,
    path: &str,
    credentials: &OperatorCredentials,
) -> anyhow::Result<(StatusCode, String)> {
    request(server, Method::GET, path, credentials, None).await
}

/// Sends a request with an operator's credentials. What changes something has JSON as its type, even if
/// it has no body: the admin listener insists on it.
pub(crate) async fn request(
    server: &TargetServer,
    method: Method,
    path: &str,
    credentials: &OperatorCredentials,
    body: Option<String>,
) -> anyhow::Result<(StatusCode, String)> {
    let changes = method != Method::GET;
    let body = Full::new(Bytes::from(body.unwrap_or_default()));
    let mut request = Request::builder().method(method).uri(path).body(body)?;
    if changes {
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
    }
    if let Some(token) = &credentials.token {
        let mut field = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| anyhow!("the token contains control characters"))?;
        field.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, field);
    }
    send(server, credentials, request).await
}

async fn send(
    server: &TargetServer,
    credentials: &OperatorCredentials,
    request: FullBodyRequest,
) -> anyhow::Result<(StatusCode, String)> {
    let exchange = async {
        match server {
            TargetServer::Unix(socket) => {
                exchange(UnixStream::connect(socket).await?, "localhost", request).await
            }
            TargetServer::Tcp { host, port, tls } => {
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                let stream =
                    TcpStream::connect((bare, *port)).await.map_err(client_error::connect_error)?;
                let authority = format!("{host}:{port}");
                if *tls {
                    exchange(connect_tls(stream, bare, credentials).await?, &authority, request)
                        .await
                } else {
                    exchange(stream, &authority, request).await
                }
            }
        }
    };
    timeout(ANSWER_TIMEOUT, exchange)
        .await
        .map_err(|_| anyhow!("no answer within {ANSWER_TIMEOUT:?}"))?
}

type FullBodyRequest = Request<Full<Bytes>>;

/// Connects over TLS. The server is verified against this system's certificates, or those in
/// `SSL_CERT_FILE`.
async fn connect_tls(
    stream: TcpStream,
    host: &str,
    credentials: &OperatorCredentials,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let config = match &credentials.identity {
        None => trusted_roots().with_no_client_auth(),
        Some((cert, key)) => {
            let unreadable = |path: &PathBuf| format!("cannot use {}", path.display());
            let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
            let chain = chain.with_context(|| unreadable(cert))?;
            let private = PrivateKeyDer::from_pem_file(key).with_context(|| unreadable(key))?;
            trusted_roots()
                .with_client_auth_cert(chain, private)
                .with_context(|| unreadable(cert))?
        }
    };
    let name = ServerName::try_from(host.to_owned())?;
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    connecting.await.map_err(|error| client_error::tls_error(host, error))
}

/// A TLS client configuration that trusts the authorities of this system.
pub(crate) fn trusted_roots() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ClientConfig::builder().with_root_certificates(roots)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    mut request: FullBodyRequest,
) -> anyhow::Result<(StatusCode, String)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its errors also reach the sender, which reports them.
    tokio::spawn(async { drop(connection.await) });
    request.headers_mut().insert(HOST, HeaderValue::try_from(host)?);
    let response = sender.send_request(request).await.map_err(client_error::http_error)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let bytes = body.map_err(|error| io::Error::other(error.to_string()))?.to_bytes();
    Ok((status, String::from_utf8(bytes.into()).context("the answer is not valid UTF-8")?))
}

const A_URL: &str = "http://host:port, https://host:port or unix:/path";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_shown() {
        for (text, shown) in [
            ("http://localhost", "http://localhost:80"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
            ("https://limits.example.com", "https://limits.example.com:443"),
            ("unix:/run/tidegate.sock", "unix:/run/tidegate.sock"),
            ("unix:///run/tidegate.sock", "unix:/run/tidegate.sock"),
        ] {
            assert_eq!(text.parse::<TargetServer>().unwrap().to_string(), shown);
        }
        for text in
            ["", "localhost:8080", "ftp://x", "http://", "http://x/v1", "unix:", "http://a b"]
        {
            assert!(text.parse::<TargetServer>().is_err(), "{text}");
        }
    }
}
