//! Clients that disconnect early pay for the work that the service does for them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use support::{Front, front, soon};
use tidegate::{ChargeIntent, Cost};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// A service that holds all requests until it is released, and then answers them alike.
struct Service {
    address: SocketAddr,
    seen: mpsc::UnboundedReceiver<()>,
    word: watch::Sender<Option<String>>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ((sees, seen), (word, heard)) =
            (mpsc::unbounded_channel(), watch::channel(None::<String>));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (sees, mut heard) = (sees.clone(), heard.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.unwrap());
                    }
                    sees.send(()).unwrap();
                    let word = heard.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                    let _ = stream.write_all(word.as_bytes()).await;
                });
            }
        });
        Self { address, seen, word }
    }

    fn say(&self, status: u16, fields: &str) {
        let text = format!("HTTP/1.1 {status} x\r\n{fields}content-length: 0\r\n\r\n");
        self.word.send_replace(Some(text));
    }

    /// Closes without a response.
    fn close(&self) {
        self.word.send_replace(Some(String::new()));
    }

    /// Clients send requests, and disconnect once the service works on them. Returns when the gateway has
    /// noticed.
    async fn left_by(&mut self, clients: usize, front: &Front) {
        for _ in 0..clients {
            let mut client = front.connect().await;
            client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
            soon(self.seen.recv()).await.unwrap();
            client.0.shutdown().await.unwrap();
            assert!(client.is_closed().await);
        }
    }
}

/// The remaining quota of this client.
async fn left(front: &Front) -> Option<u64> {
    let plan = front.app.limiter().plan();
    let charges = plan.charges(&[("ip", "127.0.0.1")], Cost::PEEK);
    front.app.limiter().decide(&charges, ChargeIntent::Take).await.remaining()
}

async fn until_left(front: &Front, expected: u64) {
    soon(async {
        while left(front).await != Some(expected) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

const TOKENS: &str = "[{ name: tokens, key: [ip], limits: [1000/hour], algorithm: sliding-log, \
                      cost: { response_header: x-tokens, default: 10 } }]";

#[tokio::test]
async fn attack_14_twenty_clients_that_hang_up_are_all_charged() {
    let mut service = Service::start().await;
    let front = front(service.address, TOKENS).await;
    service.left_by(20, &front).await;
    assert_eq!(left(&front).await, Some(980));
    service.say(200, "x-tokens: 50\r\n");
    until_left(&front, 0).await;
    assert_eq!(front.get("/").await.status, 429);
}

#[tokio::test]
async fn attack_14_a_failed_attempt_counts_and_blocks_though_the_client_has_gone() {
    let mut service = Service::start().await;
    let policy = "[{ name: logins, key: [ip], limits: [3/minute], algorithm: sliding-log, \
                  block_for: 1h, cost: { response_status: 401 } }]";
    let front = front(service.address, policy).await;
    service.left_by(3, &front).await;
    service.say(401, "");
    let blocked = async {
        loop {
            let reply = front.get("/").await;
            let wait = reply.header("retry-after").and_then(|it| it.parse::<u64>().ok());
            if reply.status == 429 && wait > Some(3_500) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(blocked).await;
}

#[tokio::test]
async fn attack_14_what_does_not_count_is_given_back_though_the_client_has_gone() {
    let mut service = Service::start().await;
    let policy = "[{ name: logins, key: [ip], limits: [3/minute], algorithm: sliding-log, \
                  cost: { response_status: 401 } }]";
    let front = front(service.address, policy).await;
    service.left_by(3, &front).await;
    assert_eq!(left(&front).await, Some(0));
    service.say(200, "");
    until_left(&front, 3).await;
}

#[tokio::test]
async fn attack_14_a_response_that_never_comes_costs_what_a_silent_one_would() {
    let service = Service::start().await;
    let front = front(service.address, TOKENS).await;
    service.close();
    assert_eq!(front.get("/").await.status, 502);
    assert_eq!(left(&front).await, Some(990));
}
