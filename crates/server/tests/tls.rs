//! TLS: server and client certificates, and what happens when they change.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use support::{Client, soon};
use tidegate::MemoryStore;
use tidegate_server::resp::{self, RespOptions};
use tidegate_server::{
    App, HttpOptions, Listener, ListenerConfig, ListenerTls, TlsFiles, TlsReloadOutcome, serve,
};
use tidegate_testkit::peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;

/// An authority, and a directory for what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
    directory: PathBuf,
}

impl Authority {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let unique = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory =
            std::env::temp_dir().join(format!("tidegate-tls-{}-{}", unique.0, unique.1));
        std::fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.join("ca.crt"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), certificate, directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A certificate with its key, by common name.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Puts a new certificate in place.
    fn issue(&self, name: &str) -> TlsFiles {
        let (certificate, key) = self.sign(name);
        std::fs::write(self.file("server.crt"), certificate.pem()).unwrap();
        std::fs::write(self.file("server.key"), key.serialize_pem()).unwrap();
        let (cert, key) = (self.file("server.crt"), self.file("server.key"));
        TlsFiles { cert, key, client_ca: None }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The demo behind TLS.
async fn start(tls: Arc<ListenerTls>) -> SocketAddr {
    start_with(tls, ListenerConfig::default()).await
}

async fn start_with(tls: Arc<ListenerTls>, config: ListenerConfig) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    let listener = Listener::from(socket).with_tls(tls);
    tokio::spawn(serve(listener, app, config, HttpOptions::default(), std::future::pending()));
    address
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity((certificate, key): (rcgen::Certificate, KeyPair)) -> Identity {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (vec![certificate.der().clone()], key)
}

async fn connect(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    shake_hands(TcpStream::connect(address).await.unwrap(), authority, identity).await
}

async fn shake_hands(
    stream: TcpStream,
    authority: &Authority,
    identity: Option<Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

fn certificate_of(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn requests_are_answered_over_tls() {
    let authority = Authority::new();
    let address = start(Arc::new(ListenerTls::load(authority.issue("one")).unwrap())).await;
    let mut client = Client::over(connect(address, &authority, None).await.unwrap());
    for remaining in [9, 8] {
        assert_eq!(client.check(ALICE).await.json()["remaining"], remaining);
    }
}

#[tokio::test]
async fn an_evicted_client_gets_a_close_notify() {
    let authority = Authority::new();
    let tls = Arc::new(ListenerTls::load(authority.issue("one")).unwrap());
    let long = Duration::from_secs(600);
    let config =
        ListenerConfig { max_connections: 1, header_timeout: long, ..ListenerConfig::default() };
    let address = start_with(tls, config).await;
    // A client that does not even send a handshake.
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut first = connect(address, &authority, None).await.unwrap();
    assert_eq!(soon(silent.read(&mut [0])).await.unwrap(), 0);
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut newcomer = Client::over(connect(address, &authority, None).await.unwrap());
    assert_eq!(newcomer.get("/healthz").await.status, 200);
    // Without close_notify this would be an error.
    let mut said = String::new();
    soon(first.read_to_string(&mut said)).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
}

#[tokio::test]
async fn attack_07_handshakes_that_never_begin_leave_room_for_another_client() {
    let authority = Authority::new();
    let tls = Arc::new(ListenerTls::load(authority.issue("one")).unwrap());
    let long = Duration::from_secs(600);
    let config =
        ListenerConfig { max_connections: 50, header_timeout: long, ..ListenerConfig::default() };
    let address = start_with(tls, config).await;
    let mut silent = Vec::new();
    for number in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"\x16\x03\x01\x02\0\x01").await.unwrap();
        }
        silent.push(stream);
    }
    for number in 2..12 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("127.0.0.{number}:0").parse().unwrap()).unwrap();
        let stream = soon(socket.connect(address)).await.unwrap();
        let mut client = Client::over(shake_hands(stream, &authority, None).await.unwrap());
        assert_eq!(client.get("/healthz").await.status, 200);
    }
}

/// Small buffers on both sides, so that TLS has to keep some of the answers.
#[tokio::test]
async fn a_redis_client_that_reads_slowly_gets_every_answer() {
    const COMMANDS: usize = 2_000;
    let authority = Authority::new();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(8 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let socket = socket.listen(8).unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener::from(socket)
        .with_tls(Arc::new(ListenerTls::load(authority.issue("one")).unwrap()));
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    tokio::spawn(resp::serve(
        listener,
        app,
        ListenerConfig::default(),
        RespOptions::default(),
        std::future::pending(),
    ));

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let stream = shake_hands(socket.connect(address).await.unwrap(), &authority, None).await;
    let (mut reader, mut writer) = tokio::io::split(stream.unwrap());
    let echo = format!("ECHO {}\r\n", "x".repeat(300));
    let sent = tokio::spawn(async move {
        writer.write_all(echo.repeat(COMMANDS).as_bytes()).await.unwrap();
        writer.flush().await.unwrap();
        writer
    });
    let (mut left, mut piece) = (COMMANDS * "$300\r\n\r\n".len() + COMMANDS * 300, [0; 8 << 10]);
    while left > 0 {
        left -= soon(reader.read(&mut piece)).await.unwrap();
        // The server is always ahead, and can never write all of its answers.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    sent.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_agrees_on_http_2_and_on_http_1() {
    let Some(curl) = peer("curl") else { return };
    let authority = Authority::new();
    let address = start(Arc::new(ListenerTls::load(authority.issue("one")).unwrap())).await;
    for (version, spoken) in [("--http2", " 2"), ("--http1.1", " 1.1")] {
        let mut command = Command::new(&curl);
        command.args(["-s", "--max-time", "10", version, "-w", " %{http_version}", "--cacert"]);
        command.arg(authority.file("ca.crt")).args(["-d", ALICE]);
        let output =
            command.arg(format!("https://localhost:{}/v1/check", address.port())).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(r#""allowed":true"#) && said.ends_with(spoken), "{said}");
    }
}

#[tokio::test]
async fn without_a_certificate_nobody_is_let_in_where_one_is_wanted() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let client_ca = Some(authority.file("ca.crt"));
    let tls = ListenerTls::load(TlsFiles { client_ca, ..authority.issue("one") }).unwrap();
    assert!(tls.wants_certificates());
    let address = start(Arc::new(tls)).await;
    for identity in [None, Some(identity(stranger.sign("mallory")))] {
        // The server's refusal arrives after the client considers the handshake complete.
        if let Ok(stream) = connect(address, &authority, identity).await {
            let mut client = Client::over(stream);
            client.try_send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert!(client.is_closed().await);
        }
    }
    let ours = identity(authority.sign("billing"));
    let mut client = Client::over(connect(address, &authority, Some(ours)).await.unwrap());
    assert_eq!(client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_new_certificate_is_used_and_a_bad_one_is_not() {
    let authority = Authority::new();
    let tls = Arc::new(ListenerTls::load(authority.issue("one")).unwrap());
    let address = start(Arc::clone(&tls)).await;
    let open = connect(address, &authority, None).await.unwrap();
    let one = certificate_of(&open);
    assert!(matches!(tls.reload(), TlsReloadOutcome::Unchanged));

    authority.issue("two");
    assert!(matches!(tls.reload(), TlsReloadOutcome::Changed));
    let two = certificate_of(&connect(address, &authority, None).await.unwrap());
    assert_ne!(one, two);

    for (file, text, said) in [
        ("server.crt", "nonsense", "contains no certificate"),
        (
            "server.key",
            &*KeyPair::generate().unwrap().serialize_pem(),
            "the key of another certificate",
        ),
    ] {
        authority.issue("three");
        std::fs::write(authority.file(file), text).unwrap();
        let TlsReloadOutcome::Refused(error) = tls.reload() else { panic!("{file} is taken") };
        let error = error.to_string();
        assert!(error.contains(file) && error.contains(said), "{error}");
        assert!(error.contains("expected"), "{error}");
        // The problem is reported once.
        assert!(matches!(tls.reload(), TlsReloadOutcome::Unchanged));
        assert_eq!(certificate_of(&connect(address, &authority, None).await.unwrap()), two);
    }
    std::fs::remove_file(authority.file("server.key")).unwrap();
    assert!(matches!(tls.reload(), TlsReloadOutcome::Refused(_)));
    assert!(matches!(tls.reload(), TlsReloadOutcome::Unchanged));
    // Open connections are not affected.
    assert_eq!(Client::over(open).get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_certificate_is_followed() {
    let authority = Authority::new();
    let tls = Arc::new(ListenerTls::load(authority.issue("one")).unwrap());
    let (told, mut news) = tokio::sync::mpsc::unbounded_channel();
    let follow = Arc::clone(&tls).follow(move |reloaded| {
        told.send(matches!(reloaded, TlsReloadOutcome::Changed)).unwrap();
    });
    let follow = tokio::spawn(follow);
    let issued = [authority.sign("two"), authority.sign("three")];
    for (certificate, key) in issued {
        // The way certbot does it: the files are replaced, one after the other.
        replace(&authority.file("server.key"), &key.serialize_pem());
        replace(&authority.file("server.crt"), &certificate.pem());
        tls.wake().notify_one();
        // The new key may be read first with the old certificate, and be refused.
        while !soon(news.recv()).await.unwrap() {}
    }
    follow.abort();
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn a_client_of_another_protocol_is_rejected() {
    let authority = Authority::new();
    let address = start(Arc::new(ListenerTls::load(authority.issue("one")).unwrap())).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], b"\x16\x03\x01\xff\xff"] {
        let mut plain = Client::over(TcpStream::connect(address).await.unwrap());
        plain.try_send_bytes(bytes).await;
        plain.drain().await;
    }
    // And TLS to a listener without it.
    let server = support::Server::start().await;
    assert!(connect(server.address, &authority, None).await.is_err());
    let mut client = Client::over(connect(address, &authority, None).await.unwrap());
    assert_eq!(client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_handshake_that_takes_for_ever_keeps_nobody_waiting() {
    let authority = Authority::new();
    let address = start(Arc::new(ListenerTls::load(authority.issue("one")).unwrap())).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut client = Client::over(connect(address, &authority, None).await.unwrap());
    assert_eq!(client.get("/healthz").await.status, 200);
    // Silent clients are closed in time, too.
    assert!(Client::over(silent.pop().unwrap()).is_closed().await);
}

#[test]
fn files_that_are_not_there_are_named() {
    let (cert, key) = (PathBuf::from("/nowhere/a.crt"), PathBuf::from("/nowhere/a.key"));
    let error = ListenerTls::load(TlsFiles { cert, key, client_ca: None }).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nowhere/a.crt: "), "{error}");
}
