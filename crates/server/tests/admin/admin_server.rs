//! A server's admin listener, and a client for it.

use std::sync::Arc;

use serde_json::Value;
use tidegate::config::PolicySource;
use tidegate::{ChargeIntent, Cost, MemoryStore};
use tidegate_server::admin::{self, AdminConfig, AdminScope, AdminTokens};
use tidegate_server::{App, ListenerConfig};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Client, Reply};

pub(crate) const FILE: &str = "
store: redis://limiter:hunter2@127.0.0.1/0
store_password: hunter2
# request_headers: { set: { x-internal-key: \"hunter2\" }, add: { x-other: hunter2 } }
policies:
  - { name: api, key: [user], limits: [2/hour] }
  - { name: pair, match: { kind: pair }, key: [tenant, user], limits: [1/hour] }
";

/// A server's admin listener, without the server.
pub(crate) struct AdminServer {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) app: Arc<App<MemoryStore>>,
}

impl AdminServer {
    pub(crate) async fn open(tokens: &str) -> Self {
        Self::of(tokens, |app| app).await
    }

    /// As if every client had presented an operator's certificate.
    pub(crate) async fn known() -> Self {
        Self::with("", true, |app| app).await
    }

    pub(crate) async fn of(
        tokens: &str,
        with: impl FnOnce(App<MemoryStore>) -> App<MemoryStore>,
    ) -> Self {
        Self::with(tokens, false, with).await
    }

    async fn with(
        tokens: &str,
        knows_clients: bool,
        with: impl FnOnce(App<MemoryStore>) -> App<MemoryStore>,
    ) -> Self {
        let source = PolicySource::new("limits.yaml", FILE).unwrap();
        let app = Arc::new(with(App::load(&source, MemoryStore::new()).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tokens = AdminTokens::parse(tokens).unwrap();
        let config = AdminConfig::new(address, tokens, knows_clients).unwrap();
        let config = config.setting("store", "redis://limiter:hunter2@127.0.0.1/0");
        let serving = admin::serve(
            listener,
            app.clone(),
            config,
            ListenerConfig::default(),
            std::future::pending(),
        );
        tokio::spawn(serving);
        Self { address, app }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut client = Client::over(stream);
        let length = body.len();
        client
            .send(&format!(
                "{method} {path} HTTP/1.1\r\n{fields}content-length: {length}\r\n\r\n{body}"
            ))
            .await;
        client.reply().await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let fields = "host: localhost\r\ncontent-type: application/json\r\n";
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, &format!("/admin/v1{path}"), fields, &body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let reply = self.ask("GET", path, &Value::Null).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let reply = self.ask("POST", path, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Whether a request by this user passes.
    pub(crate) async fn passes(&self, user: &str) -> bool {
        let plan = self.app.limiter().plan();
        self.app
            .decide(&plan.charges(&[("user", user)], Cost::ONE), ChargeIntent::Take)
            .await
            .is_allowed()
    }
}

pub(crate) const TOKENS: &str = "
read  rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr
write wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww
admin aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
";

pub(crate) fn token(scope: AdminScope) -> String {
    scope.name()[..1].repeat(32)
}
