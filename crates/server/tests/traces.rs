//! Traces, as received by an independent collector implementation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use support::{Client, soon};
use tidegate::MemoryStore;
use tidegate::config::PolicySource;
use tidegate_server::grpc::{self, GrpcOptions};
use tidegate_server::resp::{self, RespOptions};
use tidegate_server::trace::{SamplingRatio, SpanExporter, TraceCollector, Tracer};
use tidegate_server::{App, HttpOptions, ListenerConfig, serve};
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What a collector received. It refuses this many of the spans.
#[derive(Clone, Default)]
struct ReceivedTraces(Arc<Mutex<Vec<ExportTraceServiceRequest>>>, i64);

#[tonic::async_trait]
impl TraceService for ReceivedTraces {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        let refused = ExportTracePartialSuccess { rejected_spans: self.1, ..Default::default() };
        let partial_success = (self.1 > 0).then_some(refused);
        Ok(Response::new(ExportTraceServiceResponse { partial_success }))
    }
}

impl ReceivedTraces {
    async fn listen(&self) -> TraceCollector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(self.clone());
        let serving = Server::builder().add_service(service);
        tokio::spawn(serving.serve_with_incoming(TcpIncoming::from(listener)));
        at(address)
    }

    fn spans(&self) -> Vec<Span> {
        let received = self.0.lock().unwrap();
        let resources = received.iter().flat_map(|it| &it.resource_spans);
        resources.flat_map(|it| &it.scope_spans).flat_map(|it| it.spans.clone()).collect()
    }
}

fn at(address: SocketAddr) -> TraceCollector {
    format!("http://{address}").parse().unwrap()
}

/// A server whose requests are traced, and its three listeners.
struct Traced {
    app: Arc<App<MemoryStore>>,
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
    exporter: SpanExporter,
}

impl Traced {
    async fn start(ratio: SamplingRatio) -> Self {
        let (tracer, exporter) = Tracer::new(ratio, "limits");
        let source = PolicySource::new("limits.yaml", LIMITS).unwrap();
        let app = App::load(&source, MemoryStore::new()).unwrap().with_tracer(tracer);
        let app = Arc::new(app);
        let listen = async || {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            (listener.local_addr().unwrap(), listener)
        };
        let (never, config) = (std::future::pending::<()>, ListenerConfig::default);
        let ((http, a), (grpc, b), (resp, c)) = (listen().await, listen().await, listen().await);
        let (one, two, three) = (Arc::clone(&app), Arc::clone(&app), Arc::clone(&app));
        tokio::spawn(serve(a, one, config(), HttpOptions::default(), never()));
        tokio::spawn(grpc::serve(b, two, config(), GrpcOptions::default(), never()));
        tokio::spawn(resp::serve(c, three, config(), RespOptions::default(), never()));
        Self { app, http, grpc, resp, exporter }
    }

    /// The status of a request, with these header lines.
    async fn post(&self, path: &str, fields: &str, body: &str) -> u16 {
        let mut client = Client::over(TcpStream::connect(self.http).await.unwrap());
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{fields}");
        client.send(&format!("{head}content-length: {length}\r\n\r\n{body}")).await;
        client.reply().await.status
    }

    /// Delivers everything to a collector, and returns the metrics that report it.
    async fn export(self, collector: TraceCollector) -> String {
        soon(self.exporter.run(collector, async {})).await;
        let page = self.app.metrics_page().await;
        page.lines().filter(|line| line.starts_with("tidegate_spans_total")).collect()
    }
}

const LIMITS: &str = "
policies:
  - { name: api, key: [user], limits: [2/hour] }
  - { name: edge, match: { domain: edge }, key: [address], limits: [2/hour] }
";
const CALLER: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
const ALICE: &str = r#"{"policy": "api", "key": "alice"}"#;

fn said<'s>(span: &'s Span, name: &str) -> Option<&'s Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref())
}

fn text(span: &Span, name: &str) -> String {
    match said(span, name) {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

fn number(span: &Span, name: &str) -> Option<i64> {
    match said(span, name) {
        Some(Value::IntValue(number)) => Some(*number),
        _ => None,
    }
}

fn is_allowed(span: &Span) -> Option<bool> {
    match said(span, "tidegate.allowed") {
        Some(Value::BoolValue(allowed)) => Some(*allowed),
        _ => None,
    }
}

#[tokio::test]
async fn a_check_is_a_part_of_what_its_caller_does() {
    let (server, received) = (Traced::start(SamplingRatio::NONE).await, ReceivedTraces::default());
    for expected in [200, 200, 429] {
        assert_eq!(server.post("/v1/check", CALLER, ALICE).await, expected);
    }
    let metrics = server.export(received.listen().await).await;
    let spans = received.spans();
    assert_eq!(spans.len(), 3, "{spans:?}");
    for (span, status) in spans.iter().zip([200, 200, 429]) {
        assert_eq!(span.name, "POST /v1/check");
        assert_eq!(span.kind(), SpanKind::Server);
        assert_eq!(span.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
        assert_eq!(span.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
        assert_eq!(span.span_id.len(), 8);
        assert!(span.start_time_unix_nano > 1_700_000_000_000_000_000);
        assert!(span.end_time_unix_nano > span.start_time_unix_nano);
        assert_eq!(text(span, "tidegate.policy"), "api");
        assert_eq!(text(span, "tidegate.source"), "store");
        assert_eq!(number(span, "http.response.status_code"), Some(status));
        assert!(number(span, "tidegate.store_ns").is_some_and(|nanos| nanos > 0));
        assert_eq!(is_allowed(span), Some(status == 200));
        assert_eq!(span.status, None, "a denial is no failure");
    }
    assert_eq!(text(&spans[2], "tidegate.reason"), "limit_exceeded");
    let requests = received.0.lock().unwrap().clone();
    let shown = format!("{requests:?}");
    assert!(shown.contains("limits") && !shown.contains("alice"), "{shown}");
    assert!(metrics.contains(r#"{result="exported"} 3"#), "{metrics}");
}

#[tokio::test]
async fn every_listener_is_traced_and_no_span_has_a_key() {
    let (server, received) = (Traced::start(SamplingRatio::ALL).await, ReceivedTraces::default());
    let batch = format!(r#"{{"checks": [{ALICE}, {ALICE}, {ALICE}, {{}}]}}"#);
    assert_eq!(server.post("/v1/check/batch", "", &batch).await, 200);
    assert_eq!(server.post("/v1/check", "", r#"{"policy": "alice"}"#).await, 400);
    let fields = "user: alice\r\nx-forwarded-uri: /alice\r\nx-forwarded-method: GET\r\n";
    server.post("/v1/authz/alice?alice", fields, "").await;
    call(server.grpc).await;
    let mut redis = Client::over(TcpStream::connect(server.resp).await.unwrap());
    redis.send("RL.CHECK api alice\r\nRL.PEEK api alice\r\nCL.THROTTLE alice 1 1 60\r\n").await;
    redis.send("PING\r\nQUIT\r\n").await;
    redis.drain().await;
    // These requests need no decision.
    Client::over(TcpStream::connect(server.http).await.unwrap()).get("/healthz").await;
    server.export(received.listen().await).await;

    let spans = received.spans();
    let named = |name: &str| {
        let mut found = spans.iter().filter(|span| span.name == name);
        let (first, second) = (found.next(), found.next());
        assert!(second.is_none(), "{name} twice: {spans:?}");
        first.unwrap_or_else(|| panic!("no {name} in {spans:?}"))
    };
    let batch = named("POST /v1/check/batch");
    assert_eq!((number(batch, "tidegate.decisions"), is_allowed(batch)), (Some(3), Some(false)));
    assert_eq!(number(batch, "tidegate.denied"), Some(1));
    assert_eq!(is_allowed(named("POST /v1/check")), None, "nothing was decided");
    named("/v1/authz");
    let call = named("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    assert_eq!((number(call, "rpc.grpc.status_code"), is_allowed(call)), (Some(0), Some(true)));
    assert_eq!(text(call, "tidegate.policy"), "edge");
    assert_eq!(call.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!(text(named("RL.CHECK"), "tidegate.reason"), "limit_exceeded");
    assert!(named("RL.CHECK").parent_span_id.is_empty(), "a trace of its own");
    named("RL.PEEK");
    assert_eq!(said(named("CL.THROTTLE"), "tidegate.policy"), None);
    assert_eq!(spans.len(), 7, "{spans:?}");
    let shown = format!("{:?}", received.0.lock().unwrap());
    assert!(!shown.contains("alice") && !shown.contains("203.0.113.9"), "{shown}");
}

/// Repeated commands are decided together, whether or not they are traced.
#[tokio::test]
async fn each_command_of_a_pipeline_has_a_span() {
    let (server, received) = (Traced::start(SamplingRatio::ALL).await, ReceivedTraces::default());
    let check = "*3\r\n$8\r\nRL.CHECK\r\n$3\r\napi\r\n$5\r\nalice\r\n";
    let throttle = "*5\r\n$11\r\nCL.THROTTLE\r\n$3\r\nbob\r\n$1\r\n1\r\n$1\r\n1\r\n$2\r\n60\r\n";
    let mut redis = Client::over(TcpStream::connect(server.resp).await.unwrap());
    redis.send(&format!("{}{}QUIT\r\n", check.repeat(3), throttle.repeat(3))).await;
    redis.drain().await;
    server.export(received.listen().await).await;
    for (name, policy) in [("RL.CHECK", Some("api")), ("CL.THROTTLE", None)] {
        let spans = received.spans();
        let spans: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
        let allowed: Vec<_> = spans.iter().map(|span| is_allowed(span)).collect();
        assert_eq!(allowed, [Some(true), Some(true), Some(false)], "{name}");
        for span in spans {
            assert_eq!(policy.is_some(), said(span, "tidegate.policy").is_some(), "{name}");
            assert!(span.end_time_unix_nano > span.start_time_unix_nano);
            assert!(number(span, "tidegate.store_ns").is_some_and(|nanos| nanos > 0));
            assert_eq!(text(span, "tidegate.source"), "store");
        }
    }
}

/// Checks an address, as part of the caller's trace.
async fn call(address: SocketAddr) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let descriptors = vec![RateLimitDescriptor::new([("address", "203.0.113.9")])];
    let request = RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 };
    let message = request.encode_to_vec();
    let mut body = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
    body.extend(message);
    let path = "http://x/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let (_, traceparent) = CALLER.trim_end().split_once(": ").unwrap();
    let head = http::Request::post(path).header("content-type", "application/grpc");
    let head = head.header("traceparent", traceparent).body(()).unwrap();
    let (response, mut stream) = client.send_request(head, false).unwrap();
    stream.send_data(body.into(), true).unwrap();
    assert_eq!(soon(response).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_caller_that_records_nothing_is_left_alone() {
    let (server, received) = (Traced::start(SamplingRatio::ALL).await, ReceivedTraces::default());
    server.post("/v1/check", &CALLER.replace("-01", "-00"), ALICE).await;
    server.export(received.listen().await).await;
    assert_eq!(received.spans(), []);
}

#[tokio::test]
async fn what_a_collector_does_not_take_is_counted() {
    let (server, received) =
        (Traced::start(SamplingRatio::ALL).await, ReceivedTraces(Arc::default(), 1));
    for _ in 0..3 {
        server.post("/v1/check", "", ALICE).await;
    }
    let metrics = server.export(received.listen().await).await;
    assert!(metrics.contains(r#"{result="exported"} 2"#), "{metrics}");
    assert!(metrics.contains(r#"{result="lost"} 1"#), "{metrics}");
}

#[tokio::test]
async fn a_collector_that_is_away_or_is_none_harms_nobody() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = Traced::start(SamplingRatio::ALL).await;
    // An HTTP server that does not know gRPC.
    let other = Traced::start(SamplingRatio::NONE).await.http;
    for (server, collector) in [(server, gone), (Traced::start(SamplingRatio::ALL).await, other)] {
        assert_eq!(server.post("/v1/check", "", ALICE).await, 200);
        let metrics = server.export(at(collector)).await;
        assert!(metrics.contains(r#"{result="lost"} 1"#), "{metrics}");
    }
}

#[tokio::test]
async fn what_no_collector_takes_along_does_not_pile_up() {
    let server = Traced::start(SamplingRatio::ALL).await;
    // Nothing is exported, and all requests are answered.
    let checks = vec![ALICE; 100].join(",");
    let batch = format!(r#"{{"checks": [{checks}]}}"#);
    assert_eq!(server.post("/v1/check/batch", "", &batch).await, 200);
    let mut redis = Client::over(TcpStream::connect(server.resp).await.unwrap());
    for _ in 0..30 {
        redis.send(&"RL.CHECK api alice\r\n".repeat(100)).await;
        redis.send("PING\r\n").await;
    }
    redis.send("QUIT\r\n").await;
    redis.drain().await;
    let page = server.app.metrics_page().await;
    let dropped =
        page.lines().find_map(|it| it.strip_prefix(r#"tidegate_spans_total{result="dropped"} "#));
    assert!(dropped.is_some_and(|count| count.parse::<u64>().unwrap() >= 900), "{page}");
}

#[tokio::test]
async fn a_collector_is_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Traced::start(SamplingRatio::ALL).await;
    server.post("/v1/check", "", ALICE).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let Traced { app, http, exporter, .. } = server;
    let exporting = tokio::spawn(exporter.run(at(address), async { drop(stopped.await) }));
    // It accepts the first spans, and closes the connection.
    drop(soon(listener.accept()).await.unwrap());
    while !app.metrics_page().await.contains(r#"spans_total{result="lost"} 1"#) {
        tokio::task::yield_now().await;
    }
    let received = ReceivedTraces::default();
    let service = TraceServiceServer::new(received.clone());
    let serving = Server::builder().add_service(service);
    tokio::spawn(serving.serve_with_incoming(TcpIncoming::from(listener)));
    let mut client = Client::over(TcpStream::connect(http).await.unwrap());
    assert_eq!(client.check(ALICE).await.status, 200);
    drop(stop);
    soon(exporting).await.unwrap();
    assert_eq!(received.spans().len(), 1);
}
