//! A server with several workers, and listeners of every kind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use support::{Client, post, soon};
use tidegate::MemoryStore;
use tidegate_server::{App, BoundAddress, ListenAddress, ListenerConfig, Server, Transport};
use tidegate_testkit::peer;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;

/// The demo on these addresses.
struct Running {
    places: Vec<BoundAddress>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// With two workers.
    fn start(addresses: &[&str], config: ListenerConfig) -> Self {
        Self::with_workers(2, addresses, config)
    }

    fn with_workers(workers: usize, addresses: &[&str], config: ListenerConfig) -> Self {
        let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
        let mut server = Server::new(app, config, NonZeroUsize::new(workers).unwrap());
        let open = |address: &&str| {
            let address: ListenAddress = address.parse().unwrap();
            server.open(Transport::Http, &address, None).unwrap()
        };
        let places = addresses.iter().map(open).collect();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { places, stop, ended }
    }

    async fn connect(&self, door: usize) -> Client {
        connect(&self.places[door]).await.unwrap()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        soon(self.ended).await.unwrap().unwrap();
    }
}

async fn connect(place: &BoundAddress) -> std::io::Result<Client> {
    Ok(match place {
        BoundAddress::Tcp(address) => Client::over(TcpStream::connect(address).await?),
        BoundAddress::Unix(path) => Client::over(UnixStream::connect(path).await?),
    })
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-doors-{}-{name}.sock", std::process::id()))
}

#[tokio::test]
async fn all_workers_and_listeners_share_counters() {
    let path = socket("together");
    let unix = format!("unix:{}", path.display());
    let running = Running::start(&["127.0.0.1:0", &unix], ListenerConfig::default());
    let mut statuses = Vec::new();
    for connection in 0..32 {
        let mut client = running.connect(connection % 2).await;
        statuses.push(client.check(ALICE).await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10);
    assert!(statuses[10..].iter().all(|status| *status == 429));
    running.stop().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn workers_share_one_connection_limit() {
    let config = ListenerConfig { max_connections: 3, ..ListenerConfig::default() };
    let running = Running::start(&["127.0.0.1:0"], config);
    let (seated, _) = who_have_begun(&running, 3).await;
    // On either worker.
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut client = running.connect(0).await;
        client.send("GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n").await;
        waiting.push(client);
    }
    for client in &mut waiting {
        assert!(client.is_silent().await);
    }
    drop(seated);
    for mut client in waiting {
        assert_eq!(client.reply().await.status, 200);
    }
    running.stop().await;
}

#[tokio::test]
async fn idle_clients_of_any_worker_are_evicted() {
    let config = ListenerConfig { max_connections: 3, ..ListenerConfig::default() };
    let running = Running::start(&["127.0.0.1:0"], config);
    let mut seated = Vec::new();
    for _ in 0..3 {
        let mut client = running.connect(0).await;
        client.check(ALICE).await;
        seated.push(client);
    }
    for _ in 0..8 {
        let mut client = running.connect(0).await;
        assert_eq!(client.get("/healthz").await.status, 200);
        seated.push(client);
    }
    let page = seated[10].get("/metrics").await.body;
    let value = |name: &str| -> u64 {
        let sample = format!("{name}{{listener=\"{}\"", running.places[0]);
        let lines = page.lines().filter(|line| line.starts_with(&sample));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    // If a connection is slow to close, another one is evicted too; the order is tested with one worker.
    assert!(value("tidegate_connections_made_way_total") >= 8, "{page}");
    assert!(value("tidegate_connections") <= 3, "{page}");
    drop(seated);
    running.stop().await;
}

#[tokio::test]
async fn all_listeners_close_together_and_finish_open_requests() {
    let unix = format!("unix:{}", socket("drain").display());
    let running = Running::start(&["127.0.0.1:0", &unix], ListenerConfig::default());
    let (mut clients, rest) = who_have_begun(&running, 8).await;
    let Running { stop, ended, .. } = running;
    stop.send(()).unwrap();
    for client in &mut clients {
        client.send(&rest).await;
        assert_eq!(client.reply().await.status, 200);
        // Notified before or after its answer, depending on microseconds.
        assert!(client.is_closed().await);
    }
    soon(ended).await.unwrap().unwrap();
}

/// One worker, because its listener is one socket: with several, the first of them to close may
/// refuse a client while the second has not been notified yet.
#[tokio::test]
async fn a_refused_connection_means_that_open_ones_were_told_to_end() {
    let running = Running::with_workers(1, &["127.0.0.1:0"], ListenerConfig::default());
    let (mut clients, rest) = who_have_begun(&running, 4).await;
    let Running { places, stop, ended } = running;
    stop.send(()).unwrap();
    soon(async { while connect(&places[0]).await.is_ok() {} }).await;
    for client in &mut clients {
        client.send(&rest).await;
        let reply = client.reply().await;
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(client.is_closed().await);
    }
    soon(ended).await.unwrap().unwrap();
}

/// Clients at every listener that have sent all of a request except its end, and that end.
async fn who_have_begun(running: &Running, count: usize) -> (Vec<Client>, String) {
    let request = post(ALICE);
    let (begun, rest) = request.split_at(request.len() - 5);
    let mut clients = Vec::new();
    for connection in 0..count {
        let mut client = running.connect(connection % running.places.len()).await;
        client.send(begun).await;
        clients.push(client);
    }
    for client in &mut clients {
        assert!(client.is_silent().await);
    }
    (clients, rest.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_finds_a_unix_socket() {
    let Some(curl) = peer("curl") else { return };
    let path = socket("curl");
    let running = Running::start(&[&format!("unix:{}", path.display())], ListenerConfig::default());
    let mut command = Command::new(curl);
    command.args(["-s", "--max-time", "10", "--unix-socket"]).arg(&path);
    let output = command.args(["http://localhost/v1/check", "-d", ALICE]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(r#""remaining":9"#), "{said}");
    running.stop().await;
}
