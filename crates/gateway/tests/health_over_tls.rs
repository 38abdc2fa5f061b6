//! Health checks over TLS and HTTP/2, as the service sees them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{Front, GENEROUS, soon};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The `:scheme` and the path of a request.
type Seen = (Option<String>, String);

/// A service that speaks HTTP/2 over TLS for this name, and reports the requests that it gets.
async fn service(name: &str) -> (u16, String, mpsc::UnboundedReceiver<Seen>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![cert.der().clone()], der).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (report, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, report) = (acceptor.clone(), report.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: Request<Incoming>| {
                    let uri = request.uri();
                    let _ = report.send((uri.scheme_str().map(str::to_owned), uri.path().into()));
                    async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))) }
                });
                let builder = http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, cert.pem(), seen)
}

#[tokio::test]
async fn checks_and_requests_over_tls_say_https_in_http2() {
    let (port, cert, mut seen) = service("localhost").await;
    let name = format!("tidegate-health-{}.crt", std::process::id());
    let ca = std::env::temp_dir().join(name);
    std::fs::write(&ca, cert).unwrap();
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: {{ urls: 'https://localhost:{port}', ca: {}, health: {{ path: \
         /healthz, every: 50ms }} }} }} }}\n{GENEROUS}",
        ca.display()
    ))
    .await;
    let https = |path: &str| Some((Some("https".to_owned()), path.to_owned()));
    assert_eq!(soon(seen.recv()).await, https("/healthz"));
    assert_eq!(soon(front.get("/cart")).await.status, 200);
    let request = async {
        loop {
            match seen.recv().await {
                check if check == https("/healthz") => {}
                other => break other,
            }
        }
    };
    assert_eq!(soon(request).await, https("/cart"));
    std::fs::remove_file(ca).unwrap();
}
