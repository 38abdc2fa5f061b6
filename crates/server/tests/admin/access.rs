//! Access to the admin listener: tokens, certificates, browsers, and masked secrets.

use serde_json::Value;
use tidegate_server::admin::{AdminScope, ROUTES};

use crate::admin_server::{AdminServer, TOKENS, token};

#[tokio::test]
async fn every_route_is_closed_to_who_has_no_token_a_wrong_one_or_too_small_a_scope() {
    for route in ROUTES {
        // Guessing is throttled.
        let admin = AdminServer::open(TOKENS).await;
        let path = route.path.replace("{name}", "api");
        let ask = async |fields: &str| admin.send(route.method, &path, fields, "{}").await;
        let none = ask("host: x\r\n").await;
        assert_eq!(none.header("www-authenticate"), Some("Bearer"), "{route:?}");
        assert!(none.problem(401).starts_with("no token"), "{route:?}");
        for wrong in ["Bearer x", "Bearer ", "Basic eA==", &format!("Bearer {}", "r".repeat(31))] {
            let reply = ask(&format!("host: x\r\nauthorization: {wrong}\r\n")).await;
            assert_eq!(reply.status, 401, "{route:?} {wrong}");
        }
        for scope in AdminScope::ALL {
            let fields = format!(
                "host: x\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\n",
                token(scope)
            );
            let reply = ask(&fields).await;
            if scope < route.scope {
                let said = reply.problem(403);
                let (has, needs) = (scope.name(), route.scope.name());
                assert_eq!(said, format!("this token has scope {has}: expected scope {needs}"));
            } else {
                assert!(![401, 403].contains(&reply.status), "{route:?} {reply:?}");
            }
        }
    }
    let admin = AdminServer::open(TOKENS).await;
    let unknown = admin.send("GET", "/admin/v1/nothing", "", "").await;
    assert_eq!(unknown.status, 401, "who has no token learns nothing, not even what there is");
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_say_what_is() {
    let admin = AdminServer::open("").await;
    let unknown = admin.ask("GET", "/nothing", &Value::Null).await;
    assert!(unknown.problem(404).contains("/admin/v1/policies/{name}/mode"));
    let wrong = admin.ask("PUT", "/overrides", &Value::Null).await;
    assert_eq!(wrong.header("allow"), Some("GET, POST, DELETE"));
    wrong.problem(405);
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_use_an_open_listener() {
    let admin = AdminServer::open("").await;
    let rebound = admin.send("GET", "/admin/v1/config", "host: attacker.example\r\n", "").await;
    assert!(rebound.problem(403).contains("Host: localhost"));
    let form = "host: localhost\r\ncontent-type: text/plain\r\n";
    admin.send("POST", "/admin/v1/reload", form, "").await.problem(415);
}

#[tokio::test]
async fn no_answer_has_a_secret() {
    let admin = AdminServer::open(TOKENS).await;
    let fields = format!(
        "host: x\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\n",
        token(AdminScope::Admin)
    );
    for route in ROUTES {
        let path = route.path.replace("{name}", "api");
        let reply = admin.send(route.method, &path, &fields, "{}").await;
        let whole = format!("{reply:?}");
        assert!(!whole.contains("hunter2"), "{route:?} {whole}");
        for scope in AdminScope::ALL {
            assert!(!whole.contains(&token(scope)), "{route:?} {whole}");
        }
    }
    let config = admin.send("GET", "/admin/v1/config", &fields, "").await.json();
    assert_eq!(config["file"], "limits.yaml");
    assert!(config["text"].as_str().unwrap().contains("redis://limiter:***@127.0.0.1/0"));
    assert_eq!(config["settings"]["store"], "redis://limiter:***@127.0.0.1/0");
}

#[tokio::test]
async fn attack_09_a_page_in_a_browser_changes_nothing_whoever_it_comes_with() {
    // With certificates, which an operator's browser presents automatically; and with tokens.
    let with_certificates = AdminServer::known().await;
    let with_tokens = AdminServer::open(TOKENS).await;
    let json = "host: tide.example:9090\r\ncontent-type: application/json\r\n";
    let bearer = format!("authorization: Bearer {}\r\n", token(AdminScope::Admin));
    for (admin, known) in [(&with_certificates, ""), (&with_tokens, &*bearer)] {
        for (fields, status) in [
            (
                "host: evil.example\r\norigin: https://evil.example\r\ncontent-type: text/plain\r\n",
                415,
            ),
            ("host: tide.example:9090\r\ncontent-type: text/plain\r\n", 415),
            ("host: tide.example:9090\r\n", 415),
            (&format!("{json}origin: https://evil.example\r\n"), 403),
            (&format!("{json}origin: null\r\n"), 403),
            (&format!("{json}sec-fetch-site: cross-site\r\n"), 403),
            (&format!("{json}sec-fetch-site: same-site\r\n"), 403),
        ] {
            for route in ROUTES.iter().filter(|route| route.method != "GET") {
                let (path, body) = (route.path.replace("{name}", "api"), r#"{"mode": "off"}"#);
                let reply =
                    admin.send(route.method, &path, &format!("{known}{fields}"), body).await;
                reply.problem(status);
            }
        }
        let mode = admin.send("GET", "/admin/v1/policies/api", &format!("{known}{json}"), "").await;
        assert_eq!(mode.json()["mode"], "enforce");
        let same = format!("{known}{json}sec-fetch-site: same-origin\r\n");
        let path = "/admin/v1/policies/api/mode";
        let changed = admin.send("POST", path, &same, r#"{"mode": "shadow"}"#).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }
}

#[tokio::test]
async fn attack_09_tokens_can_be_guessed_only_so_often_and_failures_are_counted() {
    let admin = AdminServer::open(TOKENS).await;
    let ask = async |token: &str| {
        let fields = format!("host: x\r\nauthorization: Bearer {token}\r\n");
        admin.send("GET", "/admin/v1/status", &fields, "").await
    };
    let mut refused = 0;
    for _ in 0..200 {
        let reply = ask(&"x".repeat(32)).await;
        match reply.status {
            401 => refused += 1,
            429 => assert!(reply.header("retry-after").is_some()),
            other => panic!("{other}"),
        }
    }
    assert!((20..200).contains(&refused), "{refused}");
    let counted = format!(
        "tidegate_refused_total{{listener=\"admin\",reason=\"unauthenticated\"}} {refused}\n"
    );
    assert!(admin.app.metrics_page().await.contains(&counted));
}

#[tokio::test]
async fn attack_15_secrets_in_the_file_are_not_shown_to_who_may_only_look() {
    let admin = AdminServer::open(TOKENS).await;
    let fields = format!("host: x\r\nauthorization: Bearer {}\r\n", token(AdminScope::Read));
    let config = admin.send("GET", "/admin/v1/config", &fields, "").await.json();
    let text = config["text"].as_str().unwrap();
    // Also in a part of the file that is commented out.
    assert!(text.contains("store_password: ***\n# request_headers: ***\n"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}
