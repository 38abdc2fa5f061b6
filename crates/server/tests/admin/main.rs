//! The admin listener: who may do what, and what it does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Client, Reply};
use tidegate::config::Source;
use tidegate::{Cost, MemoryStore};
use tidegate_server::admin::{self, AdminConfig, ROUTES, Scope, Tokens};
use tidegate_server::{App, Config};
use tokio::net::{TcpListener, TcpStream};

const FILE: &str = "
store: redis://limiter:hunter2@127.0.0.1/0
policies:
  - { name: api, key: [user], limits: [2/hour] }
  - { name: pair, match: { kind: pair }, key: [tenant, user], limits: [1/hour] }
";

/// A server's admin listener, without the server.
struct Desk {
    address: std::net::SocketAddr,
    app: Arc<App<MemoryStore>>,
}

impl Desk {
    async fn open(tokens: &str) -> Self {
        Self::of(tokens, |app| app).await
    }

    async fn of(tokens: &str, with: impl FnOnce(App<MemoryStore>) -> App<MemoryStore>) -> Self {
        let source = Source::new("limits.yaml", FILE).unwrap();
        let app = Arc::new(with(App::load(&source, MemoryStore::new()).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tokens = Tokens::parse(tokens).unwrap();
        let config = AdminConfig::new(address, tokens, false).unwrap();
        let config = config.setting("store", "redis://limiter:hunter2@127.0.0.1/0");
        let serving =
            admin::serve(listener, app.clone(), config, Config::default(), std::future::pending());
        tokio::spawn(serving);
        Self { address, app }
    }

    async fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> Reply {
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

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let fields = "host: localhost\r\ncontent-type: application/json\r\n";
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, &format!("/admin/v1{path}"), fields, &body).await
    }

    async fn get(&self, path: &str) -> Value {
        let reply = self.ask("GET", path, &Value::Null).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let reply = self.ask("POST", path, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Whether a request of this user passes.
    async fn passes(&self, user: &str) -> bool {
        let plan = self.app.limiter().plan();
        self.app.settle(&plan.charges(&[("user", user)], Cost::ONE)).await.is_allowed()
    }
}

const TOKENS: &str = "
read  rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr
write wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww
admin aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
";

fn token(scope: Scope) -> String {
    scope.name()[..1].repeat(32)
}

#[tokio::test]
async fn every_route_is_closed_to_who_has_no_token_a_wrong_one_or_too_small_a_scope() {
    let desk = Desk::open(TOKENS).await;
    for route in ROUTES {
        let path = route.path.replace("{name}", "api");
        let ask = async |fields: &str| desk.send(route.method, &path, fields, "{}").await;
        let none = ask("host: x\r\n").await;
        assert_eq!(none.header("www-authenticate"), Some("Bearer"), "{route:?}");
        assert!(none.problem(401).starts_with("no token"), "{route:?}");
        for wrong in ["Bearer x", "Bearer ", "Basic eA==", &format!("Bearer {}", "r".repeat(31))] {
            let reply = ask(&format!("host: x\r\nauthorization: {wrong}\r\n")).await;
            assert_eq!(reply.status, 401, "{route:?} {wrong}");
        }
        for scope in Scope::ALL {
            let fields = format!("host: x\r\nauthorization: Bearer {}\r\n", token(scope));
            let reply = ask(&fields).await;
            if scope < route.scope {
                let said = reply.problem(403);
                let (has, needs) = (scope.name(), route.scope.name());
                assert_eq!(said, format!("this token is good for {has}: expected one for {needs}"));
            } else {
                assert!(![401, 403].contains(&reply.status), "{route:?} {reply:?}");
            }
        }
    }
    let unknown = desk.send("GET", "/admin/v1/nothing", "", "").await;
    assert_eq!(unknown.status, 401, "who has no token learns nothing, not even what there is");
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_say_what_is() {
    let desk = Desk::open("").await;
    let unknown = desk.ask("GET", "/nothing", &Value::Null).await;
    assert!(unknown.problem(404).contains("/admin/v1/policies/{name}/mode"));
    let wrong = desk.ask("PUT", "/overrides", &Value::Null).await;
    assert_eq!(wrong.header("allow"), Some("GET, POST, DELETE"));
    wrong.problem(405);
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_use_an_open_listener() {
    let desk = Desk::open("").await;
    let rebound = desk.send("GET", "/admin/v1/config", "host: attacker.example\r\n", "").await;
    assert!(rebound.problem(403).contains("Host: localhost"));
    let form = "host: localhost\r\ncontent-type: text/plain\r\n";
    desk.send("POST", "/admin/v1/reload", form, "").await.problem(415);
}

#[tokio::test]
async fn an_override_is_obeyed_at_once_seen_and_removed() {
    let desk = Desk::open("").await;
    for expected in [true, true, false] {
        assert_eq!(desk.passes("42").await, expected);
    }
    let body =
        json!({ "policy": "api", "key": "user=42", "limits": ["5/hour"], "expires_in": "1h" });
    let set = desk.post("/overrides", body).await;
    assert_eq!(set, json!({ "policy": "api", "expires_in_secs": 3600 }));
    for expected in [true, true, true, false] {
        assert_eq!(desk.passes("42").await, expected, "the count is kept, the limit is another");
    }
    let listed = desk.get("/overrides").await;
    assert_eq!(listed["overrides"][0]["key"], "user=42");
    assert_eq!(listed["overrides"][0]["limits"], json!(["5/hour"]));
    assert!(listed["overrides"][0]["expires_in_secs"].as_u64().unwrap() <= 3_600);
    // A new text keeps it.
    let text = FILE.replace("2/hour", "3/hour");
    desk.app.reload(&Source::new("limits.yaml", text).unwrap()).unwrap();
    assert!(!desk.passes("42").await);
    assert_eq!(desk.get("/policies/api").await["overrides"], 1);

    let which = json!({ "policy": "api", "key": "user=42" });
    assert_eq!(desk.ask("DELETE", "/overrides", &which).await.status, 200);
    assert_eq!(desk.get("/overrides").await["overrides"], json!([]));
    desk.ask("DELETE", "/overrides", &which).await.problem(404);
}

#[tokio::test]
async fn who_is_unlimited_is_seen_as_such() {
    let desk = Desk::open("").await;
    let unlimited =
        json!({ "policy": "api", "key": "user=42", "limits": ["unlimited"], "expires_in": "1h" });
    desk.post("/overrides", unlimited).await;
    for _ in 0..5 {
        assert!(desk.passes("42").await);
    }
    for whom in [json!({ "policy": "api", "key": "42" }), json!({ "attributes": { "user": "42" } })]
    {
        let seen = desk.post("/peek", whom.clone()).await;
        assert_eq!(
            seen["decision"],
            json!({
                "allowed": true, "policy": "api", "reason": "within_limit", "limit": null,
                "remaining": null, "retry_after_ms": null, "reset_after_ms": null,
                "source": "none", "limits": [],
            })
        );
        let reset = desk.post("/reset", whom).await;
        assert_eq!(reset, json!({ "policies": [], "counters": 0 }));
    }
    assert_eq!(desk.get("/policies/api").await["allowed"], 5);
    assert_eq!(desk.get("/status").await["unmatched"], 0);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_as_in_a_file_and_changes_nothing() {
    let desk = Desk::open("").await;
    let body = |key: &str, limit: &str, lasts: &str| json!({ "policy": "api", "key": key, "limits": [limit], "expires_in": lasts });
    for (body, expected) in [
        (body("user=1", "5/minit", "1h"), "unknown unit \"minit\""),
        (body("usr=1", "5/minute", "1h"), "did you mean \"user\"?"),
        (body("user=1", "5/minute", "0s"), "expected more than nothing, at most 400d"),
        (body("user=1", "5/minute", "soon"), "\"soon\""),
    ] {
        let said = desk.ask("POST", "/overrides", &body).await.problem(400);
        assert!(said.contains(expected), "{said}");
    }
    let unknown =
        json!({ "policy": "apo", "key": "user=1", "limits": ["1/s"], "expires_in": "1h" });
    assert!(desk.ask("POST", "/overrides", &unknown).await.problem(404).contains("api"));
    let mode = desk.ask("POST", "/policies/api/mode", &json!({ "mode": "on" })).await;
    assert_eq!(mode.problem(400), "`mode` is \"on\": expected enforce, shadow or off");
    assert_eq!(desk.get("/overrides").await["overrides"], json!([]));
}

#[tokio::test]
async fn a_body_that_makes_no_sense_is_refused_by_its_member() {
    let desk = Desk::open("").await;
    let with = |name: &str, value: Value| {
        let mut body =
            json!({ "policy": "api", "key": "user=1", "limits": ["1/s"], "expires_in": "1h" });
        body[name] = value;
        body
    };
    let limits = "expected a list of limits such as \"5/minute\", or \"unlimited\"";
    for (path, body, member, said) in [
        ("overrides", json!({ "policy": "api", "key": "a" }), "limits", "`limits` is missing: "),
        ("overrides", with("limits", json!(5)), "limits", limits),
        ("overrides", with("limits", json!([5])), "limits", "`limits` is [5]: expected a list"),
        ("overrides", with("key", json!(1)), "key", "`key` is 1: expected a string"),
        ("overrides", with("key", Value::Null), "key", "`key` is null: expected a string"),
        (
            "overrides",
            with("polici", json!("")),
            "polici",
            "`polici` is unknown: expected policy, key, limits or expires_in",
        ),
        ("overrides", with("expires_in", json!("soon")), "expires_in", "is \"soon\": expected"),
        ("policies/api/mode", json!({}), "mode", "`mode` is missing: expected a string"),
        (
            "peek",
            json!({ "attributes": { "user": 1 } }),
            "attributes.user",
            "is 1: expected a string",
        ),
        ("peek", json!({ "attributes": [] }), "attributes", "is []: expected an object whose"),
        ("refund", json!({ "amount": -1 }), "amount", "`amount` is -1: expected a whole number"),
    ] {
        let reply = desk.ask("POST", &format!("/{path}"), &body).await;
        let problem = reply.json();
        assert_eq!((reply.status, &problem["member"]), (400, &json!(member)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    let nothing = desk.ask("POST", "/peek", &json!([])).await.problem(400);
    assert_eq!(
        nothing,
        "the body is []: expected an object with policy, key, attributes and amount"
    );
}

#[tokio::test]
async fn limits_may_be_one_limit_as_in_a_file() {
    let desk = Desk::open("").await;
    let body = |limits: &str| json!({ "policy": "api", "key": "user=42", "limits": limits, "expires_in": "1h" });
    desk.post("/overrides", body("unlimited")).await;
    for _ in 0..5 {
        assert!(desk.passes("42").await);
    }
    desk.post("/overrides", body("1/hour")).await;
    assert!(desk.passes("42").await && !desk.passes("42").await);
}

#[tokio::test]
async fn a_mode_lasts_until_it_is_taken_back() {
    let desk = Desk::open("").await;
    desk.post("/policies/api/mode", json!({ "mode": "shadow", "expires_in": "1h" })).await;
    for _ in 0..5 {
        assert!(desk.passes("42").await);
    }
    let policy = desk.get("/policies/api").await;
    assert_eq!((&policy["mode"], &policy["shadow_denied"]), (&json!("shadow"), &json!(3)));
    assert_eq!(desk.ask("DELETE", "/policies/api/mode", &Value::Null).await.status, 200);
    assert!(!desk.passes("42").await);
}

#[tokio::test]
async fn peeks_take_nothing_resets_and_refunds_give_back() {
    let desk = Desk::open("").await;
    let alice = json!({ "policy": "api", "key": "alice" });
    desk.passes("alice").await;
    let seen = desk.post("/peek", alice.clone()).await;
    assert_eq!(seen["decision"]["remaining"], 1);
    let key = seen["keys"]["api"].as_str().unwrap().to_owned();
    assert!(key.starts_with('#') && key.len() == 17, "{key}");
    desk.passes("alice").await;
    assert!(!desk.passes("alice").await);
    desk.post("/refund", json!({ "policy": "api", "key": "alice", "amount": 1 })).await;
    assert!(desk.passes("alice").await);
    assert!(!desk.passes("alice").await);
    let reset = desk.post("/reset", json!({ "attributes": { "user": "alice" } })).await;
    assert_eq!(reset, json!({ "policies": ["api"], "counters": 1 }));
    assert_eq!(desk.post("/peek", alice).await["decision"]["remaining"], 2);
    let top = desk.get("/top").await;
    assert_eq!(top["busiest"][0]["key"], key, "by the same name as in a peek");
    for (body, expected) in [
        (json!({ "policy": "pair", "key": "x" }), "tells callers apart by tenant and user"),
        (json!({ "key": "x" }), "a key without a policy"),
        (json!({ "attributes": {} }), "no limit applies"),
    ] {
        let said = desk.ask("POST", "/reset", &body).await.problem(400);
        assert!(said.contains(expected), "{said}");
    }
    let pair = json!({ "policy": "pair", "attributes": { "tenant": "t", "user": "u" } });
    assert_eq!(desk.post("/reset", pair).await["counters"], 1);
    let nothing = json!({ "policy": "api", "key": "alice", "amount": 0 });
    desk.ask("POST", "/refund", &nothing).await.problem(400);
}

#[tokio::test]
async fn policies_status_and_top_are_what_happened() {
    let desk = Desk::of("", App::showing_keys).await;
    for _ in 0..3 {
        desk.passes("alice").await;
    }
    desk.passes("bob").await;
    let policies = desk.get("/policies").await;
    assert_eq!(policies["policies"][0]["name"], "api", "the busiest first");
    assert_eq!(policies["policies"][0]["allowed"], 3);
    assert_eq!(policies["policies"][0]["denied"], 1);
    let status: tidegate_wire::admin::Status =
        serde_json::from_value(desk.get("/status").await).unwrap();
    assert_eq!(status.policies.len(), 2);
    assert_eq!(status.policies[0].limits, ["2/1h"]);
    assert_eq!(status.store.keys, Some(2));
    assert!(!status.store.is_remote && !status.store.breaker_open);
    let shown = |keys: &[tidegate_wire::admin::TopKey]| -> Vec<(String, u64)> {
        keys.iter().map(|key| (key.key.clone(), key.count)).collect()
    };
    assert_eq!(shown(&status.top.busiest), [("alice".to_owned(), 3), ("bob".to_owned(), 1)]);
    assert_eq!(shown(&status.top.denied), [("alice".to_owned(), 1)]);
}

#[tokio::test]
async fn no_answer_has_a_secret() {
    let desk = Desk::open(TOKENS).await;
    let fields = format!("host: x\r\nauthorization: Bearer {}\r\n", token(Scope::Admin));
    for route in ROUTES {
        let path = route.path.replace("{name}", "api");
        let reply = desk.send(route.method, &path, &fields, "{}").await;
        let whole = format!("{reply:?}");
        assert!(!whole.contains("hunter2"), "{route:?} {whole}");
        for scope in Scope::ALL {
            assert!(!whole.contains(&token(scope)), "{route:?} {whole}");
        }
    }
    let config = desk.send("GET", "/admin/v1/config", &fields, "").await.json();
    assert_eq!(config["file"], "limits.yaml");
    assert!(config["text"].as_str().unwrap().contains("redis://limiter:***@127.0.0.1/0"));
    assert_eq!(config["settings"]["store"], "redis://limiter:***@127.0.0.1/0");
}

#[tokio::test]
async fn without_a_file_there_is_nothing_to_reload() {
    let desk = Desk::open("").await;
    let said = desk.ask("POST", "/reload", &Value::Null).await.problem(409);
    assert!(said.contains("--config"), "{said}");
}
