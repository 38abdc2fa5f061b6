//! What web pages, and clients without the right, get from the HTTP listener.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::{Reply, Server};
use tidegate::{ManualClock, MemoryStore};
use tidegate_server::{App, HttpOptions, ListenerConfig};

const BOB: &str = r#"{"policy": "demo", "key": "bob"}"#;

/// Sends a body with exactly these header lines.
async fn post(server: &Server, path: &str, fields: &str) -> Reply {
    let mut client = server.connect().await;
    let length = BOB.len();
    let head = format!("POST {path} HTTP/1.1\r\n{fields}content-length: {length}\r\n\r\n");
    client.send(&format!("{head}{BOB}")).await;
    client.reply().await
}

async fn get(server: &Server, path: &str, fields: &str) -> Reply {
    let mut client = server.connect().await;
    client.send(&format!("GET {path} HTTP/1.1\r\n{fields}\r\n")).await;
    client.reply().await
}

#[tokio::test]
async fn attack_16_a_page_of_another_site_spends_nothing_and_gives_nothing_back() {
    let server = Server::start().await;
    for fields in [
        "host: localhost\r\norigin: https://evil.example\r\ncontent-type: text/plain\r\n",
        "host: localhost\r\norigin: null\r\n",
        "host: localhost\r\nsec-fetch-site: cross-site\r\n",
        "host: localhost\r\nsec-fetch-site: same-site\r\n",
        "host: evil.example\r\n",
        "host: evil.example\r\norigin: http://evil.example\r\nsec-fetch-site: same-origin\r\n",
    ] {
        for path in ["/v1/check", "/v1/check/batch", "/v1/refund"] {
            let refused = post(&server, path, fields).await;
            let detail = refused.problem(403);
            assert!(detail.contains("expected"), "{path} {fields}: {detail}");
        }
    }
    let check = server.check(BOB).await;
    assert_eq!(check.json()["remaining"], 9, "nothing was spent before");
}

#[tokio::test]
async fn attack_16_a_name_that_somebody_points_at_us_reads_nothing() {
    let server = Server::start().await;
    for path in ["/metrics", "/readyz", "/docs", "/openapi.json"] {
        let rebound = get(&server, path, "host: evil.example:8080\r\n").await;
        assert!(rebound.problem(403).contains("expected Host: localhost"), "{path}");
        for host in ["localhost:8080", "127.0.0.1", "[::1]:8080", "192.0.2.7:8080"] {
            assert_eq!(get(&server, path, &format!("host: {host}\r\n")).await.status, 200);
        }
        // A request without the header does not come from a browser.
        assert_eq!(get(&server, path, "").await.status, 200, "{path}");
    }
    // Health checks are open to everybody.
    assert_eq!(get(&server, "/healthz", "host: tidegate\r\n").await.status, 200);
}

#[tokio::test]
async fn attack_16_proxies_ask_with_the_fields_of_their_clients() {
    let server = Server::start().await;
    let fields = "host: shop.example\r\norigin: https://other.example\r\n\
                  sec-fetch-site: cross-site\r\nx-forwarded-uri: /\r\n";
    for path in ["/v1/authz", "/v1/authz/cart?x=1"] {
        assert_eq!(get(&server, path, fields).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn names_that_an_operator_lists_are_answered() {
    let options = HttpOptions { hosts: vec!["tidegate.internal".to_owned()] };
    let (config, app) = (ListenerConfig::default(), App::demo(MemoryStore::new()).unwrap());
    let server = Server::run_with(config, options, app, ManualClock::default()).await;
    assert_eq!(post(&server, "/v1/check", "host: Tidegate.internal:8080\r\n").await.status, 200);
    assert_eq!(post(&server, "/v1/check", "host: other.internal\r\n").await.status, 403);
}

#[tokio::test]
async fn our_own_page_and_programs_are_answered() {
    let server = Server::start().await;
    for fields in [
        "",
        "host: localhost:8080\r\n",
        "host: localhost:8080\r\norigin: http://localhost:8080\r\nsec-fetch-site: same-origin\r\n",
        "host: 127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\n",
    ] {
        assert_eq!(post(&server, "/v1/check", fields).await.status, 200, "{fields}");
    }
}

#[tokio::test]
async fn attack_16_nothing_is_given_back_without_the_right_to() {
    let server = Server::with(ListenerConfig::default()).await;
    let refused = post(&server, "/v1/refund", "host: localhost\r\n").await;
    assert!(refused.problem(403).contains("expected serve --allow http:refund"));
    let page = get(&server, "/metrics", "").await.body;
    let counted = "tidegate_refused_total{listener=\"http\",reason=\"forbidden\"} 1\n";
    assert!(page.contains(counted), "{page}");
}

#[tokio::test]
async fn whatever_is_refused_is_counted() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\nx : y\r\n\r\n").await;
    client.drain().await;
    post(&server, "/v1/nothing", "host: localhost\r\n").await.problem(404);
    let mut client = server.connect().await;
    assert_eq!(client.check("{").await.status, 400);
    let denied = r#"{"policy": "demo", "key": "bob", "cost": 11}"#;
    assert_eq!(client.check(denied).await.status, 429, "which is a decision");
    let page = get(&server, "/metrics", "").await.body;
    for (reason, count) in [("malformed", 2), ("not_found", 1)] {
        let line =
            format!("tidegate_refused_total{{listener=\"http\",reason=\"{reason}\"}} {count}\n");
        assert!(page.contains(&line), "{page}");
    }
    assert!(!page.contains("reason=\"overload\""), "{page}");
}
