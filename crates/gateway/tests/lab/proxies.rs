//! Other proxies in front of every witness, with Tidegate as their rate limit service: `examples/proxies` as
//! shipped, except for ports and timeouts.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tidegate::config::PolicySource;
use tidegate_server::{App, HttpOptions, ListenerConfig, serve};
use tidegate_testkit::{Daemon, free_port, peer};
use tokio::net::TcpListener;

use crate::gateway::words;
use crate::lane::{Lane, Run};
use crate::ledger::Ledger;
use crate::request::Request;
use crate::switch::Switch;
use crate::wire::{self, Protocol};
use crate::witness::witnesses;

/// A proxy, and how it is started with its example.
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    pub(crate) files: &'static [&'static str],
    pub(crate) arguments: &'static [&'static str],
    /// Whether it forwards the trailers of a request, which Tidegate then cannot see.
    pub(crate) forwards_trailers: bool,
}

impl Proxy {
    /// One proxy serves all witnesses, one after the other.
    pub(crate) async fn search(&self, run: &Run) {
        let Some(program) = peer(self.name) else { return };
        let ledger = Arc::new(Ledger::default());
        let (app, authz) = authz(Arc::clone(&ledger)).await;
        let switch = Switch::start().await;
        let web = free_port();
        let daemon = Daemon::start(&program, |directory, command| {
            self.write_files(directory, [web, authz, switch.port]);
            command.args(self.arguments);
            if self.name == "nginx" {
                command.arg(nginx_alone());
            }
        });
        let _daemon = tokio::task::block_in_place(|| daemon.listening_on(web));
        let address = ([127, 0, 0, 1], web).into();
        let (mut outcomes, mut all_words) = (Vec::new(), Vec::new());
        for witness in tokio::task::block_in_place(witnesses) {
            switch.lead_to(witness.address);
            let policies = format!("{}{POLICIES}", witness.settings());
            app.reload(&PolicySource::new("lab", policies).unwrap()).unwrap();
            wait_until_served(address).await;
            let (name, words) = (format!("{}, {}", self.name, witness.name), words(witness));
            let (ledger, protocol) = (Arc::clone(&ledger), Protocol::Http1);
            let sends_trailers = !self.forwards_trailers;
            let lane =
                Lane { name, address, protocol, ledger, words: words.clone(), sends_trailers };
            outcomes.push(lane.search(run).await);
            all_words.push(words);
        }
        run.judge(&outcomes, &all_words);
    }

    fn write_files(&self, directory: &Path, ports: [u16; 3]) {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/proxies");
        for file in self.files {
            let mut text = std::fs::read_to_string(example.join(self.name).join(file)).unwrap();
            for (port, ours) in ["8000", "8080", "9000"].into_iter().zip(ports) {
                text = text.replace(port, &ours.to_string());
            }
            // The speed of a busy machine is not under test.
            for (patience, ours) in [
                ("timeout 100ms", "timeout 20s"),
                ("PATIENCE = 100", "PATIENCE = 20000"),
                ("timeout: 0.1s", "timeout: 20s"),
            ] {
                text = text.replace(patience, ours);
            }
            std::fs::write(directory.join(file), text).unwrap();
        }
    }
}

/// A proxy may listen before it has its routes, and may keep connections to the previous witness.
async fn wait_until_served(address: std::net::SocketAddr) {
    let plain = Request::new("GET", "/login", "api.test");
    let mut tries = 0;
    while wire::ask(address, Protocol::Http1, &plain).await.first() != Some(&b'{') {
        tries += 1;
        assert!(tries < 1000, "the proxy serves nothing");
        tokio::task::yield_now().await;
    }
}

/// Runs without a master process, whose workers would survive when it is killed.
fn nginx_alone() -> String {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    // In tests the directory may belong to root.
    let user = if is_root { " user root root;" } else { "" };
    format!("daemon off; master_process off;{user}")
}

/// The server that the proxies query, and its port.
async fn authz(ledger: Arc<Ledger>) -> (Arc<App<Arc<Ledger>>>, u16) {
    let app = App::load(&PolicySource::new("lab", POLICIES).unwrap(), ledger).unwrap();
    let app = Arc::new(app);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = Arc::clone(&app);
    let (config, options) = (ListenerConfig::default(), HttpOptions::default());
    tokio::spawn(serve(listener, serving, config, options, std::future::pending()));
    (app, port)
}

/// One policy for each clause of the law. No limit is ever reached.
const POLICIES: &str = r#"
trusted_proxies: [127.0.0.1]
policies:
  - { name: route, key: [method, path], limits: [1000000/hour] }
  - { name: login, match: { method: POST, path: /login }, key: [ip], limits: [1000000/hour] }
  - { name: host, key: [host], limits: [1000000/hour] }
  - { name: key, key: ["header:x-api-key"], limits: [1000000/hour] }
  - { name: token, key: [api_key], limits: [1000000/hour] }
  - { name: user, key: ["query:user"], limits: [1000000/hour] }
  - { name: session, key: ["cookie:sid"], limits: [1000000/hour] }
"#;
