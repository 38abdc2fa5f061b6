//! A real server on a free port, and a client that sends exact bytes.

#![allow(dead_code, reason = "no test file needs all of it")]

pub(crate) mod remote_store;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate::config::PolicySource;
use tidegate::{ManualClock, MemoryStore, Store, Timestamp};
use tidegate_server::{App, ClientRights, HttpOptions, ListenerConfig, serve};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The demo policy on a clock that stands still, at the beginning of a minute.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let (clock, store) = standing_still();
        let app = App::demo(store).unwrap().with_rights(ClientRights::ALL);
        Self::run(ListenerConfig::default(), app, clock).await
    }

    pub(crate) async fn with(config: ListenerConfig) -> Self {
        let (clock, store) = standing_still();
        Self::run(config, App::demo(store).unwrap(), clock).await
    }

    /// With these policies instead of the demo.
    pub(crate) async fn of(policies: &str) -> Self {
        let (clock, store) = standing_still();
        let source = PolicySource::new("limits.yaml", policies).unwrap();
        let app = App::load(&source, store).unwrap().with_rights(ClientRights::ALL);
        Self::run(ListenerConfig::default(), app, clock).await
    }

    /// With any store.
    pub(crate) async fn run<S: Store + 'static>(
        config: ListenerConfig,
        app: App<S>,
        clock: ManualClock,
    ) -> Self {
        Self::run_with(config, HttpOptions::default(), app, clock).await
    }

    pub(crate) async fn run_with<S: Store + 'static>(
        config: ListenerConfig,
        options: HttpOptions,
        app: App<S>,
        clock: ManualClock,
    ) -> Self {
        let app = Arc::new(app);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(serve(listener, app, config, options, stopped));
        Self { address, clock, stop: Some(stop), task }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).await.unwrap())
    }

    pub(crate) async fn check(&self, body: &str) -> Reply {
        self.connect().await.check(body).await
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has returned.
    pub(crate) async fn stopped(self) {
        soon(self.task).await.unwrap();
    }
}

fn standing_still() -> (ManualClock, MemoryStore<ManualClock>) {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
    (clock.clone(), MemoryStore::builder().clock(clock).build())
}

pub(crate) struct Client(BufStream<Box<dyn Wire>>);

pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Client {
    pub(crate) fn over(stream: impl Wire + 'static) -> Self {
        Self(BufStream::new(Box::new(stream)))
    }

    /// Reads the next bytes, of this length.
    pub(crate) async fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        soon(self.0.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Sends bytes to a server that may have closed. Returns whether that succeeded.
    pub(crate) async fn try_send(&mut self, text: &str) -> bool {
        self.try_send_bytes(text.as_bytes()).await
    }

    pub(crate) async fn try_send_bytes(&mut self, bytes: &[u8]) -> bool {
        let said = async { self.0.write_all(bytes).await.is_ok() && self.0.flush().await.is_ok() };
        soon(said).await
    }

    /// Closes the sending side.
    pub(crate) async fn finish(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Reads until the server closes.
    pub(crate) async fn drain(&mut self) {
        self.read_rest(&mut Vec::new()).await;
    }

    /// The same, and keeps it.
    pub(crate) async fn read_rest(&mut self, rest: &mut Vec<u8>) {
        // A reset is as closed as an orderly end.
        let _ = soon(self.0.read_to_end(rest)).await;
    }

    pub(crate) async fn check(&mut self, body: &str) -> Reply {
        self.send(&post(body)).await;
        self.reply().await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send(&post_to(path, body)).await;
        self.reply().await
    }

    /// A request without a body, with these header lines.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, fields: &str) -> Reply {
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n")).await;
        self.reply().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        self.reply().await
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        soon(self.read_reply()).await
    }

    /// The whole answer to the byte, except for its one date.
    pub(crate) async fn dateless(&mut self) -> String {
        let (mut text, mut dates, mut length) = (String::new(), 0, 0);
        loop {
            let mut line = String::new();
            soon(self.0.read_line(&mut line)).await.unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim_end().parse().unwrap();
            }
            match line.starts_with("date: ") {
                true => dates += 1,
                false => text += &line,
            }
            if line == "\r\n" {
                break;
            }
        }
        assert_eq!(dates, 1, "{text}");
        text + &String::from_utf8(self.bytes(length).await).unwrap()
    }

    /// The status of an answer of which only the head is read.
    pub(crate) async fn status(&mut self) -> u16 {
        soon(self.line()).await.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The value of a header further down in that head.
    pub(crate) async fn header(&mut self, name: &str) -> String {
        loop {
            let line = soon(self.line()).await;
            assert!(!line.is_empty(), "no {name}");
            if let Some(value) = line.strip_prefix(&format!("{name}: ")) {
                return value.to_owned();
            }
        }
    }

    /// Whether the server has closed the connection, without sending anything more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        // A reset is as closed as an orderly end.
        soon(self.0.read_u8()).await.is_err()
    }

    /// Whether the server has closed the connection without a reset, without sending anything more.
    pub(crate) async fn has_ended(&mut self) -> bool {
        let error = soon(self.0.read_u8()).await.expect_err("the end");
        error.kind() == std::io::ErrorKind::UnexpectedEof
    }

    /// Whether the server sends nothing for a while.
    pub(crate) async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(200), self.0.fill_buf()).await.is_err()
    }

    async fn read_reply(&mut self) -> Reply {
        let status = self.line().await.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut reply = Reply { status, headers, body: String::new() };
        let length = reply.header("content-length").unwrap_or("0").parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        reply.body = String::from_utf8(body).unwrap();
        reply
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| &value[..])
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The detail of a problem, after checking that the answer is one with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["type"], "about:blank");
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string());
        problem["detail"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn post(body: &str) -> String {
    post_to("/v1/check", body)
}

fn post_to(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A test should fail rather than wait forever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), future).await.expect("an answer within 10 s")
}
