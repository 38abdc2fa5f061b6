//! The trace context that the gateway forwards to its services.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;

use support::echo::Echo;
use support::{Front, GENEROUS, Reply, soon};
use tidegate::MemoryStore;
use tidegate::config::PolicySource;
use tidegate_gateway::config::SECTIONS;
use tidegate_server::trace::{SamplingRatio, SpanExporter, TraceParent, Tracer};
use tidegate_server::{App, ListenerConfig};

/// A gateway that samples requests of untrusted peers at this rate.
async fn start(
    to: SocketAddr,
    ratio: SamplingRatio,
    more: &str,
) -> (Front<MemoryStore>, SpanExporter) {
    let gateway = format!("gateway: {{ upstreams: {{ up: \"http://{to}\" }} }}");
    let source = PolicySource::new("test", format!("{gateway}\n{more}\n{GENEROUS}"))
        .unwrap()
        .with_sections(SECTIONS);
    let (tracer, exporter) = Tracer::new(ratio, "test");
    let app = App::load(&source, MemoryStore::new()).unwrap_or_else(|wrong| panic!("{wrong}"));
    (Front::serving(app.with_tracer(tracer), ListenerConfig::default()).await, exporter)
}

async fn ask<S: tidegate::Store + 'static>(front: &Front<S>, fields: &str) -> Reply {
    front.ask(&format!("GET / HTTP/1.1\r\nhost: test\r\n{fields}\r\n")).await
}

/// The values of a field that the service has received.
fn seen(reply: &Reply, name: &str) -> Vec<String> {
    let headers = reply.json()["headers"].as_array().unwrap().clone();
    let fields = headers.iter().filter(|pair| pair[0] == name);
    fields.map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
}

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-ff00000000000001-01";

#[tokio::test]
async fn a_service_is_told_which_part_of_the_trace_asks_it() {
    let echo = Echo::start().await;
    let (front, exporter) = start(echo.address, SamplingRatio::ALL, "").await;
    let reply = ask(&front, &format!("traceparent: {CALLER}\r\ntracestate: a=b\r\n")).await;
    let told = seen(&reply, "traceparent");
    let [told] = &told[..] else { panic!("{told:?}") };
    let [caller, told] = [CALLER, told].map(|it| TraceParent::parse(it.as_bytes()).unwrap());
    assert_eq!(told.trace(), caller.trace());
    assert_ne!(told.span(), caller.span(), "it is asked by us");
    assert!(told.is_sampled());
    assert_eq!(seen(&reply, "tracestate"), ["a=b"]);

    let own = seen(&ask(&front, "").await, "traceparent");
    assert_eq!(own.len(), 1, "a trace begins here");

    // No collector listens there. A span that is counted as lost was there to be sent.
    let gone = "http://127.0.0.1:1".parse().unwrap();
    soon(exporter.run(gone, async {})).await;
    assert!(front.app.metrics_page().await.contains(r#"spans_total{result="lost"} 2"#));
}

#[tokio::test]
async fn what_is_not_traced_is_passed_on_as_it_is() {
    let echo = Echo::start().await;
    let off = CALLER.replace("-01", "-00");
    let (front, _exporter) = start(echo.address, SamplingRatio::ALL, "").await;
    assert_eq!(seen(&ask(&front, &format!("traceparent: {off}\r\n")).await, "traceparent"), [off]);
    let plain = Front::to(echo.address).await;
    let reply = ask(&plain, &format!("traceparent: {CALLER}\r\n")).await;
    assert_eq!(seen(&reply, "traceparent"), [CALLER]);
}

#[tokio::test]
async fn only_a_proxy_that_is_trusted_says_that_more_is_recorded_than_was_meant() {
    let echo = Echo::start().await;
    let field = format!("traceparent: {CALLER}\r\n");
    let (stranger, _exporter) = start(echo.address, SamplingRatio::NONE, "").await;
    assert_eq!(seen(&ask(&stranger, &field).await, "traceparent"), [CALLER]);
    let trusted = "trusted_proxies: [127.0.0.0/8]";
    let (friend, _exporter) = start(echo.address, SamplingRatio::NONE, trusted).await;
    assert_ne!(seen(&ask(&friend, &field).await, "traceparent"), [CALLER]);
}
