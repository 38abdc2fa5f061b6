//! The typed client of `tidegate-client` with a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use support::Server;
use tidegate::{DecisionReason, DecisionSource, Span};
use tidegate_client::remote::{
    OnServerError, RemoteCheck, RemoteDecision, RemoteError, RemoteLimiter,
};
use tokio::net::TcpListener;

fn client(server: &Server) -> RemoteLimiter {
    // Longer than a busy machine needs.
    let patience = Duration::from_secs(30);
    RemoteLimiter::new(&format!("http://{}/", server.address)).unwrap().deadline(patience)
}

#[tokio::test]
async fn a_client_checks_peeks_and_refunds() {
    let server = Server::start().await;
    let limits = client(&server);
    let alice = RemoteCheck::policy("demo", "alice");
    let decision = limits.check(&alice).await;
    assert!(decision.is_allowed());
    assert_eq!((decision.policy(), decision.limit()), (Some("demo"), Some(10)));
    assert_eq!((decision.remaining(), decision.retry_after()), (Some(9), None));
    assert_eq!(decision.reason(), Some(DecisionReason::WithinLimit));
    assert_eq!(decision.source(), Some(DecisionSource::Store));
    assert_eq!((decision.limits().len(), decision.limits()[0].window_ms), (1, 60_000));

    let decision = limits.check(&alice.clone().cost(10)).await;
    assert!(!decision.is_allowed() && decision.error().is_none());
    let wait = decision.retry_after().unwrap();
    assert!(wait > Duration::from_secs(60), "{wait:?}");
    assert_eq!(limits.peek(&alice).await.unwrap().remaining(), Some(9));
    assert_eq!(limits.refund(&alice).await.unwrap().remaining(), Some(10));
    server.clock.advance(Span::from(wait));
    assert!(limits.check(&alice.cost(10)).await.is_allowed());
}

#[tokio::test]
async fn a_client_asks_by_attributes_and_in_batches() {
    let text = "policies: [{ name: a, match: { path: /search }, key: [user], limits: [2/hour] }]";
    let server = Server::of(text).await;
    let limits = client(&server);
    let search = |user: &str| RemoteCheck::attributes([("user", user), ("path", "/search")]);
    let other = RemoteCheck::attributes([("user", "1"), ("path", "/")]);
    assert_eq!(limits.check(&other).await.reason(), Some(DecisionReason::NoPolicy));
    let nobody = RemoteCheck::policy("nobody", "1");
    let checks = [search("1").cost(2), search("1"), nobody, search("2")];
    let results = limits.check_all(&checks).await.unwrap();
    let allowed: Vec<_> =
        results.iter().map(|it| it.as_ref().ok().map(RemoteDecision::is_allowed)).collect();
    assert_eq!(allowed, [Some(true), Some(false), None, Some(true)]);
    let Err(RemoteError::Refused { status: 404, detail }) = &results[2] else {
        panic!("{:?}", results[2])
    };
    assert!(detail.contains("nobody"), "{detail}");
}

#[tokio::test]
async fn without_a_server_the_client_decides() {
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let limits = RemoteLimiter::new(&url).unwrap().deadline(Duration::from_millis(50));
    let check = RemoteCheck::policy("demo", "alice");
    let decision = limits.check(&check).await;
    assert!(decision.is_allowed());
    assert!(matches!(decision.error(), Some(RemoteError::Timeout(_))), "{decision:?}");
    let decision = limits.clone().on_error(OnServerError::Closed).check(&check).await;
    assert!(!decision.is_allowed());
    assert_eq!(decision.source(), Some(DecisionSource::Fallback));
    assert!(limits.try_check(&check).await.is_err());
}
