//! Limits are exact under concurrent load: 64 connections, 20,000 callers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::{Client, Front, soon};
use tidegate::{MemoryStore, RedisStore, Store};
use tidegate_server::ListenerConfig;
use tidegate_testkit::Redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const CONNECTIONS: usize = 64;
const CALLERS: usize = 20_000;
/// The quota of each caller, and the number of its requests.
const ALLOWED: u32 = 2;
const TRIED: usize = 3;
/// Requests that are pipelined on a connection.
const DEPTH: usize = 16;

/// A service that only counts.
async fn service() -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&served);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                let mut buffer = vec![0; 8 << 10];
                // A connection carries one request at a time, without a body.
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    if buffer[..count].ends_with(b"\r\n\r\n") {
                        counter.fetch_add(1, Ordering::Relaxed);
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        if stream.write_all(answer).await.is_err() {
                            break;
                        }
                    }
                }
            });
        }
    });
    (address, served)
}

async fn hammer<S: Store + 'static>(store: S) {
    let (upstream, served) = service().await;
    let text = format!(
        "gateway: {{ upstreams: {{ up: http://{upstream} }} }}\n\
         policies: [{{ name: p, key: ['header:x-user'], limits: [{ALLOWED}/day], \
         store_deadline: 10s, on_store_error: closed }}]"
    );
    let front = Front::on(&text, store, ListenerConfig::default()).await;
    let admitted: Arc<Vec<AtomicU32>> = Arc::new((0..CALLERS).map(|_| AtomicU32::new(0)).collect());
    let mut callers: Vec<usize> = (0..CALLERS * TRIED).map(|number| number % CALLERS).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut callers);
    let mut clients = Vec::new();
    for part in callers.chunks(callers.len().div_ceil(CONNECTIONS)) {
        let (part, admitted) = (part.to_vec(), Arc::clone(&admitted));
        let mut client = Client::connect(front.address).await;
        clients.push(tokio::spawn(async move {
            for batch in part.chunks(DEPTH) {
                let requests: String = batch
                    .iter()
                    .map(|user| format!("GET / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n"))
                    .collect();
                client.send(&requests).await;
                for user in batch {
                    match client.reply().await.status {
                        200 => drop(admitted[*user].fetch_add(1, Ordering::Relaxed)),
                        429 => {}
                        status => panic!("{status}"),
                    }
                }
            }
        }));
    }
    assert_eq!(clients.len(), CONNECTIONS);
    for client in clients {
        tokio::time::timeout(Duration::from_secs(300), client).await.unwrap().unwrap();
    }
    let wrong = admitted.iter().filter(|count| count.load(Ordering::Relaxed) != ALLOWED).count();
    assert_eq!(wrong, 0, "callers who were not admitted {ALLOWED} times");
    let expected = u32::try_from(CALLERS).unwrap() * ALLOWED;
    assert_eq!(served.load(Ordering::Relaxed), expected);
    soon(async { drop(front) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_under_load() {
    hammer(MemoryStore::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_under_load_with_redis() {
    let redis = Redis::start();
    let config = redis.url().parse().unwrap();
    let store =
        RedisStore::builder(config).secret("test").deadline(Duration::from_secs(10)).build();
    hammer(store).await;
}
