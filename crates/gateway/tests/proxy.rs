//! What passes through, and how.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::echo::Echo;
use support::recorder::{Manner, Recorder};
use support::{Front, GENEROUS, soon};
use tidegate_server::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The fields of a request that a service has described.
fn fields(described: &Value, name: &str) -> Vec<String> {
    let all = described["headers"].as_array().unwrap().iter();
    let named = all.filter(|pair| pair[0] == name);
    named.map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_request_is_written_anew_for_the_service() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let reply = front
        .ask(
            "GET //a/./b/../c?x=1&y=%2f HTTP/1.1\r\nHost: Example.org:8000\r\nX-Kept: 1\r\n\
             Connection: keep-alive, X-Private\r\nX-Private: 1\r\nKeep-Alive: 5\r\n\
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
        ["forwarded", "for=127.0.0.1;proto=http;host=\"Example.org:8000\""],
        ["host", "Example.org:8000"],
        ["x-forwarded-for", "127.0.0.1"],
        ["x-forwarded-host", "Example.org:8000"],
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
async fn trailers_pass_both_ways() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let request = "POST /echo HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\
                   trailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\nx-sum: 42\r\ncontent-length: 9\r\n\r\n";
    let reply = front.ask(request).await;
    assert_eq!(reply.text(), "hello");
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
    client.send("GET /old HTTP/1.0\r\n\r\n").await;
    let reply = client.reply().await;
    let seen = reply.json();
    assert_eq!(fields(&seen, "host"), [echo.address.to_string()]);
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

#[tokio::test]
async fn routes_lead_by_host_path_method_and_field() {
    let (one, two) = (Echo::start().await, Echo::start().await);
    let front = Front::start(&format!(
        "gateway:\n  upstreams: {{ one: http://{}, two: {{ urls: http://{}, preserve_host: false }} }}\n  \
         routes:\n  - {{ name: a, match: {{ host: '*.example.org', path: /api/** }}, upstream: one }}\n  \
         - {{ name: b, match: {{ method: [PUT, DELETE] }}, upstream: two }}\n  \
         - {{ name: c, match: {{ 'header:x-beta': '1' }}, upstream: two }}\n{GENEROUS}",
        one.address, two.address
    ))
    .await;
    let reply = front.ask("GET /api/x HTTP/1.1\r\nhost: A.Example.org:80\r\n\r\n").await;
    assert_eq!((reply.status, one.requests(), two.requests()), (200, 1, 0));
    let reply = front.ask("PUT /api/x HTTP/1.1\r\nhost: other\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!((one.requests(), two.requests()), (1, 1));
    assert_eq!(fields(&reply.json(), "host"), [two.address.to_string()]);
    front.ask("GET /x HTTP/1.1\r\nhost: a\r\nx-beta: 1\r\n\r\n").await;
    assert_eq!((one.requests(), two.requests()), (1, 2));
    assert!(front.get("/nowhere").await.problem(404).contains("no route"));
}

#[tokio::test]
async fn several_addresses_share_the_requests_and_one_that_is_down_is_left_out() {
    let (one, two) = (Echo::start().await, Echo::start().await);
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: ['http://{}', 'http://{}', 'http://{gone}'] }} }}\n{GENEROUS}",
        one.address, two.address
    ))
    .await;
    let mut client = front.connect().await;
    for _ in 0..60 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(one.requests() + two.requests(), 60);
    assert!(one.requests() >= 20 && two.requests() >= 20);
}

#[tokio::test]
async fn addresses_that_say_they_are_unwell_get_no_requests() {
    let (well, ill) = (Echo::start().await, Recorder::start().await);
    ill.behave(vec![Manner::Answer(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_vec())]);
    let front = Front::start(&format!(
        "gateway:\n  upstreams:\n    up: {{ urls: ['http://{}', 'http://{}'], \
         health: {{ path: /healthz, every: 50ms }} }}\n{GENEROUS}",
        well.address, ill.address
    ))
    .await;
    soon(async {
        while ill.connections() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    ill.take();
    for _ in 0..20 {
        assert_eq!(front.get("/").await.status, 200);
    }
    let heard = String::from_utf8(ill.take()).unwrap();
    assert!(!heard.contains("GET / "), "{heard}");
}

#[tokio::test]
async fn a_connection_becomes_a_tunnel_when_both_sides_want_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                      upgrade: echo\r\nx-more: 1\r\n\r\nfirst words";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let front = Front::to(address).await;
    let mut client = front.connect().await;
    // Bytes that come early belong to the tunnel; they look like a request on purpose.
    client
        .send(
            "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: echo\r\n\
             x-key: 1\r\n\r\nGET / HTTP/1.1\n\n",
        )
        .await;
    assert_eq!(client.line().await, "HTTP/1.1 101 Switching Protocols");
    let mut fields = Vec::new();
    loop {
        match client.line().await {
            line if line.is_empty() => break,
            line => fields.push(line.to_ascii_lowercase()),
        }
    }
    assert!(fields.contains(&"upgrade: echo".to_owned()), "{fields:?}");
    assert!(fields.contains(&"x-more: 1".to_owned()), "{fields:?}");
    let mut words = vec![0; 11 + 16];
    soon(client.0.read_exact(&mut words)).await.unwrap();
    assert_eq!(words, b"first wordsGET / HTTP/1.1\n\n");
    client.send("\0\x01binary\r\n\r\n").await;
    let mut back = vec![0; 12];
    soon(client.0.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, b"\0\x01binary\r\n\r\n");
    drop(client);
    let head = soon(service).await.unwrap();
    assert!(head.contains("connection: upgrade\r\nupgrade: echo\r\n"), "{head}");
}

#[tokio::test]
async fn an_upgrade_that_is_declined_is_a_request_like_any_other() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    for protocol in ["websocket", "h2c"] {
        client
            .send(&format!(
                "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\n\
                 upgrade: {protocol}\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n\
                 GET /next HTTP/1.1\r\nhost: a\r\n\r\n"
            ))
            .await;
        assert_eq!(client.reply().await.json()["target"], "/ws");
        assert_eq!(client.reply().await.json()["target"], "/next");
    }
}

#[tokio::test]
async fn a_service_that_switches_unasked_is_not_followed() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    let service = Recorder::with(vec![Manner::Answer(switch.to_vec())]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    assert!(client.get("/").await.problem(502).contains("unasked"));
}

#[tokio::test]
async fn a_stopping_gateway_finishes_what_it_has_begun() {
    let echo = Echo::start().await;
    let mut front = Front::to(echo.address).await;
    let (mut busy, mut idle) = (front.connect().await, front.connect().await);
    assert_eq!(idle.get("/").await.status, 200);
    busy.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello").await;
    assert!(!busy.is_silent().await, "the head of the response comes at once");
    front.stop();
    assert!(idle.is_closed().await);
    assert!(TcpStream::connect(front.address).await.is_err());
    busy.send("world").await;
    assert_eq!(busy.reply().await.text(), "helloworld");
    assert!(busy.is_closed().await);
    front.stopped().await;
}

#[tokio::test]
async fn slow_and_silent_clients_are_cut_off() {
    let echo = Echo::start().await;
    let short = Duration::from_millis(300);
    let config = Config { header_timeout: short, idle_timeout: short, ..Config::default() };
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    let front = Front::with(&text, config).await;
    let (mut silent, mut slow) = (front.connect().await, front.connect().await);
    let mut late = front.connect().await;
    slow.send("GET / HTTP/1.1\r\nhost:").await;
    assert_eq!(late.get("/").await.status, 200);
    late.send("GET /").await;
    assert!(slow.is_closed().await);
    assert!(silent.is_closed().await);
    assert!(late.is_closed().await);
    let mut idle = front.connect().await;
    assert_eq!(idle.get("/").await.status, 200);
    assert!(idle.is_closed().await);
}
