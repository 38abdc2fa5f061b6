//! A real gateway on a free port, services behind it, and a client that sends exactly the given bytes.

#![allow(dead_code, reason = "no test file needs all of it")]

pub(crate) mod client;
pub(crate) mod echo;
pub(crate) mod recorder;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate::config::{FileProblems, PolicySource};
use tidegate::{ManualClock, MemoryStore, Store, Timestamp};
use tidegate_gateway::config::SECTIONS;
use tidegate_gateway::{Gateway, serve};
use tidegate_server::{App, ListenerConfig};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) use client::{Client, Reply};

/// A gateway with a clock that only tests advance.
pub(crate) struct Front<S = MemoryStore<ManualClock>> {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) app: Arc<App<S>>,
    pub(crate) gateway: Arc<Gateway>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Front {
    /// A gateway that forwards all requests to one address, with a limit that no test reaches.
    pub(crate) async fn to(upstream: SocketAddr) -> Self {
        Self::start(&format!("gateway: {{ upstreams: {{ up: http://{upstream} }} }}\n{GENEROUS}"))
            .await
    }

    pub(crate) async fn start(text: &str) -> Self {
        Self::with(text, ListenerConfig::default()).await
    }

    /// A gateway with this much memory for data that waits.
    pub(crate) async fn with_memory(text: &str, bytes: usize) -> Self {
        let source = PolicySource::new("test", text).unwrap().with_sections(SECTIONS);
        let app = App::load(&source, MemoryStore::builder().clock(ManualClock::default()).build());
        let app = app.unwrap_or_else(|problems| panic!("{problems}"));
        let gateway = Gateway::new(app.limiter().plan(), None).unwrap().with_memory(bytes);
        Self::through(gateway, app, ListenerConfig::default()).await
    }

    pub(crate) async fn with(text: &str, config: ListenerConfig) -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { clock, ..Self::on(text, store, config).await }
    }
}

impl<S: Store + 'static> Front<S> {
    pub(crate) async fn on(text: &str, store: S, config: ListenerConfig) -> Self {
        let source = PolicySource::new("test", text).unwrap().with_sections(SECTIONS);
        let app = App::load(&source, store).unwrap_or_else(|problems| panic!("{problems}"));
        Self::serving(app, config).await
    }

    pub(crate) async fn serving(app: App<S>, config: ListenerConfig) -> Self {
        let gateway = Gateway::new(app.limiter().plan(), None).unwrap();
        Self::through(gateway, app, config).await
    }

    async fn through(gateway: Gateway, app: App<S>, config: ListenerConfig) -> Self {
        let (app, gateway) = (Arc::new(app), Arc::new(gateway));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (serving, door) = (Arc::clone(&app), Arc::clone(&gateway));
        let shutdown = async { drop(stopped.await) };
        let task = tokio::spawn(serve(listener, serving, door, config, shutdown));
        let clock = ManualClock::default();
        Self { address, clock, app, gateway, stop: Some(stop), task }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends one request on a new connection.
    pub(crate) async fn ask(&self, text: &str) -> Reply {
        let mut client = self.connect().await;
        client.send(text).await;
        client.reply().await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await
    }

    pub(crate) fn reload(&self, text: &str) {
        self.try_reload(text).unwrap_or_else(|problems| panic!("{problems}"));
    }

    pub(crate) fn try_reload(&self, text: &str) -> Result<(), FileProblems> {
        self.app.reload(&PolicySource::new("test", text).unwrap().with_sections(SECTIONS))
    }

    /// How many decisions of a policy had this outcome, from any source.
    pub(crate) async fn decisions(&self, policy: &str, outcome: &str) -> u64 {
        let labels = format!(r#"policy="{policy}",outcome="{outcome}",source="#);
        let page = self.app.metrics_page().await;
        let of_them = |line: &str| {
            let sample = line.strip_prefix("tidegate_decisions_total{")?.strip_prefix(&*labels)?;
            sample.rsplit(' ').next()?.parse::<u64>().ok()
        };
        page.lines().filter_map(of_them).sum()
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the gateway has returned.
    pub(crate) async fn stopped(self) {
        soon(self.task).await.unwrap();
    }
}

/// A gateway to one service, with these policies.
pub(crate) async fn front(upstream: SocketAddr, policies: &str) -> Front {
    Front::start(&with(upstream, "", policies)).await
}

/// A gateway to one service, with more fields of it and these policies.
pub(crate) fn with(upstream: SocketAddr, fields: &str, policies: &str) -> String {
    format!("gateway:\n  upstreams: {{ up: http://{upstream} }}\n{fields}\npolicies: {policies}\n")
}

pub(crate) fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nhost: a\r\n{fields}content-length: 0\r\n\r\n")
}

/// The fields of the request in a service's description.
pub(crate) fn fields(described: &Value, name: &str) -> Vec<String> {
    let all = described["headers"].as_array().unwrap().iter();
    let named = all.filter(|pair| pair[0] == name);
    named.map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
}

/// A policy that never denies in a test.
pub(crate) const GENEROUS: &str = "policies: [{ name: all, key: [ip], limits: [1000000/second] }]";

/// A test that hangs is less useful than one that fails.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("an answer within 30 s")
}
