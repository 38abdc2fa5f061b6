//! Another plan while requests come.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::echo::Echo;
use support::{front, with};

#[tokio::test]
async fn a_reload_changes_routes_and_limits_and_keeps_counters() {
    let (one, two) = (Echo::start().await, Echo::start().await);
    let policy = "[{ name: p, key: [ip], limits: [3/minute] }]";
    let front = front(one.address, policy).await;
    let mut client = front.connect().await;
    assert_eq!(client.get("/").await.status, 200);
    front.reload(&with(two.address, "", policy));
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one.requests(), two.requests()), (1, 1));
    // A file that is missing leaves everything as it was.
    let jwt = "  jwt: { keys: /nowhere, algorithms: HS256 }";
    front.reload(&with(one.address, jwt, policy));
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one.requests(), two.requests()), (1, 2));
    assert_eq!(client.get("/").await.status, 429);
}
