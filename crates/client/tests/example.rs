//! The example behaves as documented.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

#[path = "../examples/survivor.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod survivor;

#[tokio::test]
async fn every_call_is_answered() {
    let server = survivor::start_server().await.unwrap();
    assert_eq!(survivor::call(server, 14).await.unwrap(), 14);
}
