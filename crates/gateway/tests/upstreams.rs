//! The choice of a service for a request, and of one of its addresses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::echo::Echo;
use support::recorder::{Manner, Recorder};
use support::{Front, GENEROUS, fields, soon};
use tokio::net::TcpListener;

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
    let refused = "tidegate_refused_total{listener=\"gateway\",reason=\"not_found\"} 1\n";
    assert!(front.app.metrics_page().await.contains(refused));
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
async fn an_address_that_does_not_answer_keeps_nobody_from_asking_the_others() {
    let silent = Recorder::with(vec![Manner::Hang]).await;
    let well = Recorder::start().await;
    // The timeout is longer than the test can take.
    let _front = Front::start(&format!(
        "gateway:\n  upstreams:\n    up: {{ urls: ['http://{}', 'http://{}'], \
         health: {{ path: /healthz, every: 50ms, timeout: 5m }} }}\n{GENEROUS}",
        silent.address, well.address
    ))
    .await;
    soon(async {
        while well.connections() == 0 || silent.connections() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
