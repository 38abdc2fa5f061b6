//! Real frameworks behind the gateway report what they served; the counters must agree. See README.md.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod axum_witness;
mod gateway;
mod lane;
mod law;
mod ledger;
mod proxies;
mod request;
mod spelling;
#[path = "../support/mod.rs"]
mod support;
mod switch;
mod wire;
mod witness;

use lane::Run;
use proxies::Proxy;
use wire::Protocol;

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_counts_what_is_served() {
    gateway::search(&Run::from_environment(), Protocol::Http1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_counts_what_is_served_over_http2() {
    gateway::search(&Run::from_environment(), Protocol::Http2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_passes_on_what_was_counted() {
    let nginx = Proxy {
        name: "nginx",
        files: &["nginx.conf"],
        arguments: &["-p", ".", "-c", "nginx.conf", "-g"],
        forwards_trailers: false,
    };
    nginx.search(&Run::from_environment()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn haproxy_passes_on_what_was_counted() {
    let haproxy = Proxy {
        name: "haproxy",
        files: &["haproxy.cfg", "tidegate.lua"],
        arguments: &["-f", "haproxy.cfg"],
        forwards_trailers: true,
    };
    haproxy.search(&Run::from_environment()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_passes_on_what_was_counted() {
    let envoy = Proxy {
        name: "envoy",
        files: &["envoy.yaml"],
        arguments: &["-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1"],
        forwards_trailers: false,
    };
    envoy.search(&Run::from_environment()).await;
}
