//! Which parts of requests and responses pass through the gateway, and in which form.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::{Value, json};
use support::echo::Echo;
use support::recorder::{Manner, Recorder};
use support::{Front, GENEROUS, fields};

#[tokio::test]
async fn a_request_is_written_anew_for_the_service() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let reply = front
        .ask(
            "GET //a/./b/../c?x=1&y=%2f HTTP/1.1\r\nHost: Example.org:8000\r\nX-Kept: 1\r\n\
             Connection: keep-alive\r\nKeep-Alive: 5\r\n\
             Proxy-Connection: keep-alive\r\nX-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n\
             Forwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: evil\r\nProxy: http://evil\r\n\r\n",
        )
        .await;
    assert_eq!(reply.status, 200);
    let seen = reply.json();
    assert_eq!(seen["target"], "/a/c?x=1&y=%2f");
    assert_eq!(seen["version"], "HTTP/1.1");
    let mut headers: Vec<_> = seen["headers"].as_array().unwrap().to_vec();
    headers.sort_by_key(|pair| pair[0].as_str().unwrap().to_owned());
    let expected = json!([
        ["forwarded", "for=127.0.0.1;proto=http;host=\"example.org:8000\""],
        ["host", "example.org:8000"],
        ["x-forwarded-for", "127.0.0.1"],
        ["x-forwarded-host", "example.org:8000"],
        ["x-forwarded-proto", "http"],
        ["x-kept", "1"],
        ["x-real-ip", "127.0.0.1"],
    ]);
    assert_eq!(Value::from(headers), expected);
    assert!(reply.header("ratelimit").unwrap().starts_with("\"all\";r=999999"));
    assert!(reply.header("ratelimit-policy").is_some());
}

#[tokio::test]
async fn a_trusted_proxy_is_believed() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "trusted_proxies: 127.0.0.1\ngateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}",
        echo.address
    ))
    .await;
    let reply = front
        .ask(
            "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 6.6.6.6, 203.0.113.9\r\n\
             x-forwarded-proto: https\r\nx-forwarded-host: public\r\nforwarded: for=203.0.113.9\r\n\r\n",
        )
        .await;
    let seen = reply.json();
    assert_eq!(fields(&seen, "x-forwarded-for"), ["6.6.6.6, 203.0.113.9, 127.0.0.1"]);
    assert_eq!(fields(&seen, "x-real-ip"), ["203.0.113.9"]);
    assert_eq!(fields(&seen, "x-forwarded-proto"), ["https"]);
    assert_eq!(fields(&seen, "x-forwarded-host"), ["public"]);
    let forwarded = "for=203.0.113.9, for=127.0.0.1;proto=http;host=\"a\"";
    assert_eq!(fields(&seen, "forwarded"), [forwarded]);
}

#[tokio::test]
async fn bodies_pass_sized_and_chunked_both_ways() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    for size in [0, 1, 17, 4_096, 70_000, 1 << 20] {
        let body: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n");
        client.send_bytes(&[head.as_bytes(), &body].concat()).await;
        let reply = client.reply().await;
        assert!(reply.is_whole && reply.body == body, "{size} sized");
        assert_eq!(reply.header("content-length"), Some(&*size.to_string()));

        client.send("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for chunk in body.chunks(1_000) {
            let head = format!("{:x}\r\n", chunk.len());
            client.send_bytes(&[head.as_bytes(), chunk, b"\r\n"].concat()).await;
        }
        client.send("0\r\n\r\n").await;
        let reply = client.reply().await;
        assert!(reply.is_whole && reply.body == body, "{size} chunked");
    }
    assert_eq!(echo.connections(), 1, "connections are used again");
}

#[tokio::test]
async fn only_responses_have_trailers() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                  5\r\nhello\r\n0\r\nx-sum: 42\r\ncontent-length: 9\r\n\r\n";
    let service = Recorder::with(vec![Manner::Answer(answer.as_bytes().to_vec())]).await;
    let front = Front::to(service.address).await;
    let request = "POST /echo HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\
                   trailer: x-mine\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\nx-mine: 42\r\n\r\n";
    let reply = front.ask(request).await;
    assert_eq!(reply.text(), "hello");
    assert!(!String::from_utf8(service.take()).unwrap().contains("x-mine"));
    assert_eq!(reply.trailers, [("x-sum".to_owned(), "42".to_owned())]);
}

#[tokio::test]
async fn responses_without_a_body_end_where_they_should() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    for (method, target) in [("HEAD", "/"), ("GET", "/?status=204"), ("GET", "/?status=304")] {
        client.send(&format!("{method} {target} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let reply = client.reply_to(method).await;
        assert!(reply.is_whole);
    }
    assert_eq!(client.get("/x").await.json()["target"], "/x");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    let requests: String =
        (0..50).map(|n| format!("GET /{n} HTTP/1.1\r\nhost: a\r\n\r\n")).collect();
    client.send(&requests).await;
    for n in 0..50 {
        assert_eq!(client.reply().await.json()["target"], format!("/{n}"));
    }
}

#[tokio::test]
async fn whoever_expects_it_is_told_to_continue_once_allowed() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: http://{} }} }}\n\
         policies: [{{ name: one, key: [ip], limits: [1/minute] }}]",
        echo.address
    ))
    .await;
    let head =
        "POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
    let mut client = front.connect().await;
    client.send(head).await;
    assert_eq!(client.line().await, "HTTP/1.1 100 Continue");
    assert_eq!(client.line().await, "");
    client.send("hello").await;
    assert_eq!(client.reply().await.text(), "hello");
    let mut denied = front.connect().await;
    denied.send(head).await;
    assert_eq!(denied.reply().await.status, 429, "and nothing is uploaded");
}

#[tokio::test]
async fn old_clients_are_served() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    client.send("GET /old HTTP/1.0\r\nhost: old.example\r\n\r\n").await;
    let reply = client.reply().await;
    let seen = reply.json();
    assert_eq!(fields(&seen, "host"), ["old.example"]);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn header_rules_change_what_passes() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "gateway:\n  upstreams: {{ up: http://{} }}\n  \
         request_headers: {{ remove: [cookie], set: {{ x-team: blue }}, add: {{ x-hop: gw }} }}\n  \
         response_headers: {{ remove: content-type, set: {{ x-served-by: tidegate }} }}\n{GENEROUS}",
        echo.address
    ))
    .await;
    let reply = front
        .ask("GET / HTTP/1.1\r\nhost: a\r\ncookie: a=b\r\nx-team: red\r\nx-hop: me\r\n\r\n")
        .await;
    assert_eq!(reply.header("x-served-by"), Some("tidegate"));
    assert_eq!(reply.header("content-type"), None);
    let seen = reply.json();
    assert_eq!(fields(&seen, "cookie"), Vec::<String>::new());
    assert_eq!(fields(&seen, "x-team"), ["blue"]);
    assert_eq!(fields(&seen, "x-hop"), ["me", "gw"]);
}
