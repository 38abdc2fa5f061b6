//! A real server on a free port, and a client that sends exact bytes.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request};
use prost::Message;
use prost_types::value::Kind;
use tidegate::config::PolicySource;
use tidegate::{ManualClock, MemoryStore, Store, Timestamp};
use tidegate_server::grpc::{self, GrpcOptions};
use tidegate_server::{App, ClientRights, ListenerConfig};
use tidegate_wire::envoy::{
    Code, DescriptorStatus, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A server on a clock that stands still, at the beginning of a minute.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    metrics: Metrics,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(limits: &str) -> Self {
        Self::with_options(limits, GrpcOptions::default()).await
    }

    /// With all rights.
    pub(crate) async fn with_options(limits: &str, options: GrpcOptions) -> Self {
        let (clock, store) = standing_still();
        let app = load(limits, store).with_rights(ClientRights::ALL);
        Self { clock, ..Self::run(app, ListenerConfig::default(), options).await }
    }

    pub(crate) async fn with(limits: &str, config: ListenerConfig) -> Self {
        let (clock, store) = standing_still();
        Self { clock, ..Self::on(store, limits, config).await }
    }

    pub(crate) async fn on<S: Store + 'static>(
        store: S,
        limits: &str,
        config: ListenerConfig,
    ) -> Self {
        Self::run(load(limits, store), config, GrpcOptions::default()).await
    }

    pub(crate) async fn run<S: Store + 'static>(
        app: App<S>,
        config: ListenerConfig,
        options: GrpcOptions,
    ) -> Self {
        let app = Arc::new(app);
        let shown = Arc::clone(&app);
        let metrics: Metrics = Box::new(move || {
            let app = Arc::clone(&shown);
            Box::pin(async move { app.metrics_page().await })
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(grpc::serve(listener, app, config, options, stopped));
        Self { address, clock: ManualClock::default(), metrics, stop: Some(stop), task }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::of(TcpStream::connect(self.address).await.unwrap()).await
    }

    /// Makes one call, over a connection of its own.
    pub(crate) async fn ask(&self, request: &RateLimitRequest) -> RateLimitResponse {
        self.connect().await.ask(request).await
    }

    /// How many calls were refused for this reason.
    pub(crate) async fn refused(&self, reason: &str) -> u64 {
        let page = (self.metrics)().await;
        let name = format!("tidegate_refused_total{{listener=\"grpc\",reason=\"{reason}\"}} ");
        let found = page.lines().find_map(|line| line.strip_prefix(&name));
        found.map_or(0, |count| count.parse().unwrap())
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has returned.
    pub(crate) async fn stopped(self) {
        soon(self.task).await.unwrap();
    }
}

fn standing_still() -> (ManualClock, MemoryStore<ManualClock>) {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
    (clock.clone(), MemoryStore::builder().clock(clock).build())
}

pub(crate) fn load<S: Store>(limits: &str, store: S) -> App<S> {
    let source = PolicySource::new("test.yaml", limits).unwrap();
    App::load(&source, store).unwrap_or_else(|problems| panic!("{problems}"))
}

type Metrics = Box<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Client(pub(crate) SendRequest<Bytes>);

/// The answer to a call.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) http: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) data: Bytes,
    trailers: HeaderMap,
}

impl Client {
    pub(crate) async fn of(stream: TcpStream) -> Self {
        let (send, connection) = soon(h2::client::handshake(stream)).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        Self(send)
    }

    pub(crate) async fn ask(&self, request: &RateLimitRequest) -> RateLimitResponse {
        let reply = self.call(METHOD, framed(request)).await;
        assert_eq!((reply.http, reply.code()), (200, 0), "{reply:?}");
        RateLimitResponse::decode(&reply.data[5..]).unwrap()
    }

    /// Why a request is over its limit, whatever that is.
    pub(crate) async fn refused(&self, request: &RateLimitRequest) -> (String, String) {
        self.call(METHOD, framed(request)).await.denial()
    }

    pub(crate) async fn call(&self, path: &str, body: Bytes) -> Reply {
        self.send(post(path), body).await.unwrap()
    }

    pub(crate) async fn send(&self, head: Request<()>, body: Bytes) -> Result<Reply, h2::Error> {
        let mut client = self.0.clone().ready().await?;
        let (response, mut stream) = client.send_request(head, false)?;
        stream.send_data(body, true)?;
        soon(async {
            let (head, mut body) = response.await?.into_parts();
            let mut data = BytesMut::new();
            while let Some(some) = body.data().await {
                data.extend_from_slice(&some?);
            }
            let trailers = body.trailers().await?.unwrap_or_default();
            let (http, data) = (head.status.as_u16(), data.freeze());
            Ok(Reply { http, headers: head.headers, data, trailers })
        })
        .await
    }
}

impl Reply {
    pub(crate) fn code(&self) -> u32 {
        let status = self.trailers.get("grpc-status").or(self.headers.get("grpc-status"));
        status.map_or(u32::MAX, |status| status.to_str().unwrap().parse().unwrap())
    }

    /// The reason and the details of a refusal, which is OVER_LIMIT to Envoy, and never an error.
    pub(crate) fn denial(&self) -> (String, String) {
        assert_eq!((self.http, self.code()), (200, 0), "{self:?}");
        let response = RateLimitResponse::decode(&self.data[5..]).unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit, "{response:?}");
        let metadata = response.dynamic_metadata.unwrap();
        let text = |name: &str| match metadata.fields[name].kind.clone() {
            Some(Kind::StringValue(text)) => text,
            other => panic!("{other:?}"),
        };
        (text("refused"), text("detail"))
    }

    pub(crate) fn refusal(&self) -> (u32, String) {
        assert!(self.data.is_empty(), "{self:?}");
        let message = &self.headers["grpc-message"];
        (self.code(), message.to_str().unwrap().to_owned())
    }
}

pub(crate) fn post(path: &str) -> Request<()> {
    let head = Request::builder().method(Method::POST).uri(format!("http://test{path}"));
    head.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap()
}

pub(crate) fn framed(message: &impl Message) -> Bytes {
    frame(0, &message.encode_to_vec())
}

pub(crate) fn frame(flag: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flag);
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.extend_from_slice(message);
    bytes.freeze()
}

/// A request with these descriptors in the domain `edge`.
pub(crate) fn request(
    descriptors: impl IntoIterator<Item = RateLimitDescriptor>,
) -> RateLimitRequest {
    let descriptors = descriptors.into_iter().collect();
    RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }
}

/// A descriptor of one entry.
pub(crate) fn entry(key: &str, value: &str) -> RateLimitDescriptor {
    RateLimitDescriptor::new([(key, value)])
}

/// The same, with its own hits.
pub(crate) fn hits(descriptor: RateLimitDescriptor, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor }
}

/// The same, as a refund.
pub(crate) fn refund(descriptor: RateLimitDescriptor, amount: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..hits(descriptor, amount) }
}

/// Whether the request is allowed, and for each descriptor whether it is and what remains.
pub(crate) fn brief(response: &RateLimitResponse) -> (bool, Vec<(bool, u32)>) {
    let one = |status: &DescriptorStatus| (status.code() == Code::Ok, status.limit_remaining);
    (response.overall_code() == Code::Ok, response.statuses.iter().map(one).collect())
}

/// The value of a header for Envoy's client.
pub(crate) fn header<'r>(response: &'r RateLimitResponse, name: &str) -> Option<&'r str> {
    let found = response.response_headers_to_add.iter().find(|header| header.key == name);
    found.map(|header| header.value.as_str())
}

/// A test should fail rather than wait forever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), future).await.expect("an answer within 20 s")
}
