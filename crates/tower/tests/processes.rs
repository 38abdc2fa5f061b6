//! Two processes with one Redis: they admit the limit together, not each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

#[path = "../examples/shared.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod shared;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate_testkit::Redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The variable with the address of Redis for child processes; the parent does not have it.
const URL: &str = "TIDEGATE_TOWER_REDIS";

/// Not a test: the program of the child processes.
#[tokio::test]
#[ignore = "is started by the test below"]
async fn serve() {
    let Ok(url) = std::env::var(URL) else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("\nlistening {}", listener.local_addr().unwrap());
    // Slow machines have slow tests, which is not what this is about.
    let app = shared::app(&url, Duration::from_secs(5)).unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await.unwrap();
}

/// A server in its own process, which ends when this value is dropped.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(redis: &Redis) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serve", "--ignored", "--nocapture", "--test-threads=1"])
            .env(URL, redis.url())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening ")?.parse().ok())
            .expect("an address");
        Self { process, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn get(address: SocketAddr) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn two_processes_together_admit_the_limit() {
    let redis = Redis::start();
    let servers = [Server::start(&redis), Server::start(&redis)];
    let mut tasks = tokio::task::JoinSet::new();
    for turn in 0..60 {
        tasks.spawn(get(servers[turn % 2].address));
    }
    let answers = tasks.join_all().await;
    let count = |status: &str| answers.iter().filter(|answer| answer.contains(status)).count();
    assert_eq!((count("HTTP/1.1 200"), count("HTTP/1.1 429")), (10, 50));
}
