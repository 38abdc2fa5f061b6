//! The client of an OpenTelemetry collector: one gRPC call, framed by hand over hyper's HTTP/2.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_wire::otlp::{EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::transport::grpc::message;

/// The address of a collector, and how it is verified.
///
/// ```
/// use tidegate_server::trace::TraceCollector;
///
/// let collector: TraceCollector = "http://127.0.0.1:4317".parse()?;
/// assert!(!collector.is_secure());
/// assert!("127.0.0.1:4317".parse::<TraceCollector>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct TraceCollector {
    authority: Authority,
    is_secure: bool,
    tls: Option<Arc<ClientConfig>>,
}

/// Why an export of spans failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// The collector cannot be reached.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The collector does not answer.
    #[error("sent no response within {0:?}")]
    Silent(Duration),
    /// The collector answers with an error, or not as a collector should.
    #[error("answered {0}")]
    Refused(String),
}

impl TraceCollector {
    /// Whether the collector is reached over TLS.
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Sets the TLS configuration that verifies the collector, for an `https` URL.
    #[must_use]
    pub fn verified_by(self, mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { tls: Some(Arc::new(config)), ..self }
    }
}

impl FromStr for TraceCollector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?}: {why}: expected http://host:4317 or https://");
        let uri: Uri = text.parse().map_err(|_| wrong("not a URL"))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("unknown scheme")),
        };
        let authority = uri.authority().cloned().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| wrong("no host"))?;
        if authority.as_str().contains('@') {
            // The URL is not repeated: it may contain a password.
            return Err("a user name in a collector's URL: expected http://host:4317".to_owned());
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("unexpected path or query"));
        }
        Ok(Self { authority, is_secure, tls: None })
    }
}

impl fmt::Display for TraceCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// A collector, and the connection to it while there is one.
#[derive(Debug)]
pub(super) struct CollectorLink {
    collector: TraceCollector,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl CollectorLink {
    pub(super) const fn to(collector: TraceCollector) -> Self {
        Self { collector, open: None }
    }

    /// Sends spans; returns how many of them were not accepted.
    pub(super) async fn export(
        &mut self,
        spans: &ExportTraceServiceRequest,
    ) -> Result<u64, CollectorError> {
        let mut open = match self.open.take() {
            Some(open) if open.is_ready() => open,
            _ => self.collector.connect().await?,
        };
        let request = self.collector.request(message::encode(spans))?;
        let response = open.send_request(request).await;
        let response = response.map_err(|error| unreachable(&error))?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(CollectorError::Refused(format!("{}, which is not gRPC", head.status)));
        }
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| CollectorError::Refused(error.to_string()))?;
        let trailers = body
            .trailers()
            .filter(|trailers| trailers.contains_key(STATUS))
            .unwrap_or(&head.headers);
        check_grpc_status(trailers)?;
        // The connection can be used again, even if spans were rejected.
        self.open = Some(open);
        let answer = message::decode::<ExportTraceServiceResponse>(body.to_bytes(), MAX_ANSWER);
        let partial = answer.ok().and_then(|answer| answer.partial_success);
        let refused = partial.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(refused).unwrap_or(0))
    }
}

impl fmt::Display for CollectorLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collector.fmt(f)
    }
}

impl TraceCollector {
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, CollectorError> {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let default = if self.is_secure { 443 } else { 4_317 };
        let port = self.authority.port_u16().unwrap_or(default);
        let stream = TcpStream::connect((host, port)).await.map_err(|error| unreachable(&error))?;
        let _ = stream.set_nodelay(true);
        match &self.tls {
            Some(config) if self.is_secure => {
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|error| unreachable(&error))?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
                handshake(stream.map_err(|error| unreachable(&error))?).await
            }
            None if self.is_secure => {
                Err(unreachable(&"no certificate authorities are configured"))
            }
            _ => handshake(stream).await,
        }
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, CollectorError> {
        Request::post(format!("{self}{EXPORT}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|error| unreachable(&error))
    }
}

async fn handshake<IO>(stream: IO) -> Result<SendRequest<Full<Bytes>>, CollectorError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let opened = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (open, connection) = opened.map_err(|error| unreachable(&error))?;
    // Errors of the connection surface in its requests.
    tokio::spawn(async { drop(connection.await) });
    Ok(open)
}

fn check_grpc_status(trailers: &HeaderMap) -> Result<(), CollectorError> {
    let field = |name| trailers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    match (field(STATUS), field("grpc-message")) {
        (Some("0"), _) => Ok(()),
        (Some(code), message) => {
            let message = message.unwrap_or("no message");
            Err(CollectorError::Refused(format!("gRPC status {code}: {message}")))
        }
        (None, _) => Err(CollectorError::Refused("without a gRPC status".to_owned())),
    }
}

fn unreachable(error: &dyn fmt::Display) -> CollectorError {
    CollectorError::Unreachable(error.to_string())
}

const STATUS: &str = "grpc-status";
const MAX_ANSWER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read_and_shown() {
        for text in ["http://localhost", "http://[::1]:4317", "https://otel.example.com:4317"] {
            assert_eq!(text.parse::<TraceCollector>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "not a URL"),
            ("localhost:4317", "unknown scheme"),
            ("grpc://localhost:4317", "unknown scheme"),
            ("http://localhost:4318/v1/traces", "unexpected path"),
            ("http://localhost:4317/?a=b", "unexpected path"),
            ("http://me:secret@localhost", "a user name"),
        ] {
            let error = text.parse::<TraceCollector>().unwrap_err();
            assert!(error.contains(why) && error.contains("expected http://host:4317"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
