//! Runs `examples/gateway.yaml` against real services.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::Front;
use support::echo::Echo;
use tidegate::Plan;
use tidegate::config::PolicySource;
use tidegate_gateway::config::SECTIONS;

/// The example with the addresses of running services.
async fn example() -> (Front, [Echo; 3]) {
    let echoes = [Echo::start().await, Echo::start().await, Echo::start().await];
    let mut text = include_str!("../../../examples/gateway.yaml").to_owned();
    for (port, echo) in ["3000", "3001", "3002"].iter().zip(&echoes) {
        let written = format!("http://127.0.0.1:{port}");
        assert!(text.contains(&written));
        text = text.replace(&written, &format!("http://{}", echo.address));
    }
    // Standard output is reserved for test results.
    let file = std::env::temp_dir().join(format!("tidegate-example-{}", std::process::id()));
    let text = text.replace("file: \"-\"", &format!("file: {}", file.display()));
    let front = Front::start(&text).await;
    let _ = std::fs::remove_file(file);
    (front, echoes)
}

#[test]
fn the_example_needs_no_hint() {
    let text = include_str!("../../../examples/gateway.yaml");
    let source = PolicySource::new("gateway.yaml", text).unwrap().with_sections(SECTIONS);
    assert_eq!(Plan::compile(&source).unwrap().hints(), [""; 0]);
}

#[tokio::test]
async fn the_example_does_what_it_says() {
    let (front, [pages, one, two]) = example().await;
    let reply = front.get("/index.html").await;
    assert_eq!((reply.status, reply.header("x-frame-options")), (200, Some("DENY")));
    assert_eq!(pages.requests(), 1);
    let reply = front.get("/api/users").await;
    assert!(reply.text().contains("x-gateway"), "{}", reply.text());
    assert!(one.requests() + two.requests() >= 1);

    let login = |status: u16| {
        format!("POST /api/login?status={status} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
    };
    for status in [200, 401, 200, 403, 401, 401, 401] {
        assert_eq!(front.ask(&login(status)).await.status, status);
    }
    let reply = front.ask(&login(200)).await;
    assert_eq!(reply.status, 403);
    assert!(reply.text().starts_with("Too many attempts."));
    assert!(reply.header("retry-after").is_some());

    let complete = |tokens: u64| {
        format!(
            "GET /api/completions?x-tokens={tokens} HTTP/1.1\r\nhost: a\r\nx-api-key: k\r\n\r\n"
        )
    };
    assert_eq!(front.ask(&complete(99_999)).await.status, 200);
    assert_eq!(front.ask(&complete(1)).await.status, 200);
    assert_eq!(front.ask(&complete(1)).await.status, 429);
}
