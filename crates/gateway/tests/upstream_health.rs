//! Unhealthy, slow and full services: the responses that clients get, and the metrics that operators see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::recorder::{Manner, OK, Recorder};
use support::{Front, GENEROUS, soon};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

fn unavailable() -> Vec<Manner> {
    vec![Manner::AnswerAndClose(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec())]
}

#[tokio::test]
async fn a_service_without_health_checks_does_not_stay_unhealthy() {
    let service = Recorder::with(unavailable()).await;
    let text = |health: &str| {
        format!(
            "gateway: {{ upstreams: {{ up: {{ urls: 'http://{}', max_requests: 9{health} }} }} }}\n\
             {GENEROUS}",
            service.address
        )
    };
    let front = Front::start(&text(", health: { path: /healthz, every: 10ms }")).await;
    soon(async {
        while !front.get("/").await.text().contains("no address is healthy") {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    service.behave(vec![Manner::Answer(OK.to_vec())]);
    front.reload(&text(""));
    assert_eq!(front.get("/").await.status, 200);
}

/// A service that reads the whole request and never responds.
async fn hanging_h2() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async {
                let _ = request.into_body().collect().await;
                std::future::pending::<()>().await;
                Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::new())))
            });
            let builder = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn a_body_that_was_sent_at_once_does_not_double_the_wait() {
    let service = hanging_h2().await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: {{ urls: 'h2c://{service}', timeouts: {{ response: 2s }} }} }} }}\n\
         {GENEROUS}"
    ))
    .await;
    let start = Instant::now();
    let reply = front.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello").await;
    assert!(reply.problem(504).contains("in time"));
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_secs(2) && waited < Duration::from_millis(3_500),
        "{waited:?}"
    );
}

/// The page of metrics. It contains services once the gateway has begun to serve.
async fn page(front: &Front) -> String {
    soon(async {
        loop {
            let page = front.app.metrics_page().await;
            if page.contains("tidegate_upstream_") {
                return page;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// The value of a sample.
async fn value(front: &Front, sample: &str) -> u64 {
    let page = page(front).await;
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {page}")).parse().unwrap()
}

async fn requests(front: &Front, result: &str) -> u64 {
    let labels = format!(r#"{{upstream="up",result="{result}"}}"#);
    value(front, &format!("tidegate_upstream_requests_total{labels}")).await
}

async fn well(front: &Front) -> u64 {
    value(front, r#"tidegate_upstream_well{upstream="up"}"#).await
}

#[tokio::test]
async fn outcomes_of_requests_are_counted_by_service() {
    let garbage = Manner::AnswerAndClose(b"HELLO\r\n\r\n".to_vec());
    let manners = [
        ("ok", 200, Manner::AnswerAndClose(OK.to_vec())),
        ("closed", 502, Manner::Close),
        ("malformed", 502, garbage),
        ("timeout", 504, Manner::Hang),
    ];
    let service = Recorder::start().await;
    let text = |most: u32| {
        format!(
            "gateway: {{ upstreams: {{ up: {{ urls: 'http://{}', max_requests: {most}, \
             timeouts: {{ response: 200ms }} }} }} }}\n{GENEROUS}",
            service.address
        )
    };
    let front = Front::start(&text(9)).await;
    for (result, status, manner) in manners {
        assert_eq!(requests(&front, result).await, 0, "{result}");
        service.behave(vec![manner]);
        assert_eq!(front.get("/").await.status, status, "{result}");
        assert_eq!(requests(&front, result).await, 1, "{result}");
    }
    // Three consecutive requests have failed.
    assert_eq!(well(&front).await, 0);
    assert_eq!(value(&front, r#"tidegate_upstream_addresses{upstream="up"}"#).await, 1);
    service.behave(vec![Manner::AnswerAndClose(OK.to_vec())]);
    assert_eq!(front.get("/").await.status, 200);
    assert_eq!((well(&front).await, requests(&front, "ok").await), (1, 2));
    // The counts survive a change of the service.
    service.behave(vec![Manner::Hang]);
    front.reload(&text(1));
    let (full, slow) = tokio::join!(front.get("/"), front.get("/"));
    assert_eq!(full.status + slow.status, 503 + 504);
    assert_eq!((requests(&front, "full").await, requests(&front, "ok").await), (1, 2));
}

#[tokio::test]
async fn unreachable_and_unhealthy_services_show_in_metrics() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let front = Front::to(gone).await;
    assert_eq!(well(&front).await, 1);
    for _ in 0..3 {
        front.get("/").await.problem(502);
    }
    assert_eq!((well(&front).await, requests(&front, "connect").await), (0, 3));

    let service = Recorder::with(unavailable()).await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: {{ urls: 'http://{}', health: {{ path: /, every: 10ms }} }} }} }}\n\
         {GENEROUS}",
        service.address
    ))
    .await;
    soon(async {
        while well(&front).await != 0 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    front.get("/").await.problem(503);
    assert_eq!(requests(&front, "unwell").await, 1);
    service.behave(vec![Manner::AnswerAndClose(OK.to_vec())]);
    soon(async {
        while well(&front).await != 1 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Other tests check the alert rules and the manual against a server without a gateway; this one adds the
/// gateway's metrics.
#[tokio::test]
async fn metrics_of_services_are_documented_and_those_of_the_rules_exist() {
    let service = Recorder::start().await;
    let page = page(&Front::to(service.address).await).await;
    let deploy = |path: &str| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        std::fs::read_to_string(format!("{root}{path}")).unwrap()
    };
    let named = |text: &str| -> std::collections::BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|it| it.starts_with("tidegate_upstream_")).map(str::to_owned).collect()
    };
    let known = named(&page);
    assert_eq!(known.len(), 3, "{known:?}");
    let manual = deploy("docs/operations.md");
    assert!(known.iter().all(|name| manual.contains(&format!("`{name}"))), "{known:?}");
    let used = named(&deploy("deploy/prometheus/rules.yaml"));
    assert!(!used.is_empty() && used.is_subset(&known), "{used:?}");
}
