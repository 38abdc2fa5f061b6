//! Malformed bodies over HTTP: the corpus, and mutations of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::{Client, Server};
use tidegate_testkit::Mutator;

const PATHS: [&str; 3] = ["/v1/check", "/v1/check/batch", "/v1/refund"];

#[tokio::test]
async fn no_body_breaks_the_server() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let mut mutator = Mutator::new("bodies");
    for body in mutator.corpus().to_vec() {
        for path in PATHS {
            ask(&mut client, path, &body).await;
        }
    }
    for path in PATHS.into_iter().cycle() {
        if !mutator.goes_on() {
            break;
        }
        let mut body = mutator.input();
        body.truncate(60_000);
        ask(&mut client, path, &body).await;
    }
}

async fn ask(client: &mut Client, path: &str, body: &[u8]) {
    let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send_bytes(&[head.as_bytes(), body].concat()).await;
    let reply = client.reply().await;
    let shown = String::from_utf8_lossy(body);
    assert!(matches!(reply.status, 200 | 400 | 404 | 429), "{path} {shown}: {reply:?}");
    // Every answer is JSON, and a refusal is short.
    let answer = reply.json();
    assert!(answer.is_object(), "{path} {shown}: {reply:?}");
    let detail = answer["detail"].as_str().unwrap_or_default();
    assert!(reply.status == 200 || !detail.is_empty() && detail.len() < 1_000, "{shown}");
}
