//! Real frameworks behind us say what they served; what we counted must agree. See README.md.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod axum_witness;
mod gateway;
mod lane;
mod law;
mod ledger;
//mod proxies;
mod request;
mod spelling;
#[path = "../support/mod.rs"]
mod support;
mod wire;
mod witness;

use lane::Run;
use wire::Protocol;

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_counts_what_is_served() {
    gateway::search(&Run::from_environment(), Protocol::Http1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_counts_what_is_served_over_http2() {
    gateway::search(&Run::from_environment(), Protocol::Http2).await;
}
