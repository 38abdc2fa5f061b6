//! Envoy's rate limit service, over gRPC.

use std::sync::Arc;

use ::http::Request;
use ::http::header::{CONTENT_TYPE, TE};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tidegate_wire::envoy::{
    Code, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, SERVICE,
};
use tokio::net::TcpStream;

use super::{AdapterError, CallAnswer, filled};

/// A request with `{key}` among the values of its descriptor.
#[derive(Clone, Debug)]
pub struct RlsTemplate {
    /// `host:port`.
    pub address: String,
    /// The domain.
    pub domain: String,
    /// The entries of the descriptor.
    pub entries: Vec<(String, String)>,
}

impl RlsTemplate {
    fn request(&self, key: &str, cost: u64) -> Result<Request<Full<Bytes>>, AdapterError> {
        let entries = self.entries.iter();
        let entries = entries.map(|(name, value)| (name.as_str(), filled(value, key, cost)));
        let message = RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: vec![RateLimitDescriptor::new(entries)],
            hits_addend: u32::try_from(cost).unwrap_or(u32::MAX),
        };
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
        body.extend(message.encode_to_vec());
        let request = Request::post(format!("http://{}/{SERVICE}/ShouldRateLimit", self.address))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers");
        Ok(request.body(Full::new(body.freeze()))?)
    }
}

fn answer(body: &[u8]) -> Result<CallAnswer, AdapterError> {
    let message = body.get(5..).ok_or_else(|| AdapterError::answer("an empty answer"))?;
    let response = RateLimitResponse::decode(message)
        .map_err(|error| AdapterError::answer(format!("not a RateLimitResponse: {error}")))?;
    let allowed = match response.overall_code() {
        Code::Ok => true,
        Code::OverLimit => false,
        Code::Unknown => return Err(AdapterError::answer("the code is UNKNOWN")),
    };
    let status = response.statuses.first().filter(|status| status.current_limit.is_some());
    let remaining = status.map(|status| status.limit_remaining.into());
    Ok(CallAnswer { allowed, remaining, retry_after: None })
}

/// A connection of its own for each caller.
#[derive(Debug)]
pub(crate) struct RlsLink {
    template: Arc<RlsTemplate>,
    sender: SendRequest<Full<Bytes>>,
}

impl RlsLink {
    pub(super) async fn open(template: Arc<RlsTemplate>) -> Result<Self, AdapterError> {
        let stream = TcpStream::connect(&template.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // Its errors also reach the sender, which reports them.
        tokio::spawn(async { drop(connection.await) });
        Ok(Self { template, sender })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(super) async fn call(&mut self, key: &str, cost: u64) -> Result<CallAnswer, AdapterError> {
        let request = self.template.request(key, cost)?;
        let response = self.sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let collected = Limited::new(body, 1 << 20).collect().await;
        let collected = collected.map_err(|error| AdapterError::answer(error.to_string()))?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
        if status.is_none_or(|status| status != "0") {
            let message = trailers.get("grpc-message").or_else(|| head.headers.get("grpc-message"));
            return Err(AdapterError::answer(format!("gRPC status {status:?}: {message:?}")));
        }
        answer(&collected.to_bytes())
    }
}
