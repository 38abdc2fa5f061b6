//! Who gets in, and what nobody gets to see.

use serde_json::Value;
use tidegate_server::admin::{ROUTES, Scope};

use crate::desk::{Desk, TOKENS, token};

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
async fn attack_15_values_of_headers_are_not_shown_to_who_may_only_look() {
    let desk = Desk::open(TOKENS).await;
    let fields = format!("host: x\r\nauthorization: Bearer {}\r\n", token(Scope::Read));
    let config = desk.send("GET", "/admin/v1/config", &fields, "").await.json();
    let text = config["text"].as_str().unwrap();
    assert!(text.contains("set: { x-internal-key: *** }, add: { x-other: *** }"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}
