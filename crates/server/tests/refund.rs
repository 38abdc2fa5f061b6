//! `POST /v1/refund`, as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::future::ready;
use support::Server;
use tidegate::{
    Charge, ManualClock, Promise, SettleResult, Span, Store, StoreError, StoreErrorKind, Timestamp,
    Verdicts,
};
use tidegate_server::{App, ClientRights, ListenerConfig};

const PATH: &str = "/v1/refund";

#[tokio::test]
async fn a_refund_can_be_spent_again() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let all = r#"{"policy": "demo", "key": "alice", "cost": 10}"#;
    assert_eq!(client.check(all).await.status, 200);
    assert_eq!(client.check(all).await.status, 429);
    let body = r#"{"policy": "demo", "key": "alice", "amount": 4}"#;
    let reply = client.post(PATH, body).await;
    assert_eq!(reply.status, 200);
    assert_eq!((&reply.json()["remaining"], &reply.json()["allowed"]), (&4.into(), &true.into()));
    let reply = client.post(PATH, r#"{"attributes": {"key": "alice"}}"#).await;
    assert_eq!(reply.json()["remaining"], 5, "one unless said");
    let reply = client.post(PATH, r#"{"policy": "demo", "key": "alice", "amount": 0}"#).await;
    assert_eq!(reply.json()["remaining"], 5);
    let reply = client.post(PATH, r#"{"policy": "demo", "key": "alice", "amount": 99}"#).await;
    assert_eq!(reply.json()["remaining"], 10, "never more than there was");
    assert_eq!(client.check(all).await.status, 200);
}

#[tokio::test]
async fn a_refund_that_makes_no_sense_is_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for (body, status, member) in [
        (r#"{"policy": "none", "key": "a"}"#, 404, "policy"),
        (r#"{"policy": "demo", "key": "a", "amount": -1}"#, 400, "amount"),
        (r#"{"policy": "demo", "key": "a", "amount": 1e20}"#, 400, "amount"),
        (r#"{"policy": "demo", "key": "a", "cost": 1}"#, 400, "cost"),
    ] {
        let reply = client.post(PATH, body).await;
        reply.problem(status);
        assert_eq!(reply.json()["member"], member, "{body}");
    }
}

#[tokio::test]
async fn a_refund_of_a_list_is_refused() {
    let server = Server::start().await;
    let detail = server.connect().await.post(PATH, r#"["demo", "alice", null, 1]"#).await;
    assert!(detail.problem(400).starts_with("the body is ["), "{detail:?}");
}

/// A store that never answers.
struct Broken;

impl Store for Broken {
    fn settle<'a>(
        &'a self,
        _: &'a [Charge<'a>],
        _: Option<Span>,
        _: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(ready(Err(StoreError::new(StoreErrorKind::Unreachable, "10.0.0.7 is gone"))))
    }

    async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Unreachable, "10.0.0.7 is gone"))
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_gives_nothing_back() {
    let clock = ManualClock::at(Timestamp::from_secs(1));
    let server = Server::run(
        ListenerConfig::default(),
        App::demo(Broken).unwrap().with_rights(ClientRights::ALL),
        clock,
    )
    .await;
    let mut client = server.connect().await;
    let reply = client.post(PATH, r#"{"policy": "demo", "key": "alice"}"#).await;
    let detail = reply.problem(503);
    assert!(detail.contains("perhaps nothing was given back"), "{detail}");
    assert!(!detail.contains("10.0.0.7"), "where the store is is nobody's business: {detail}");
}
