//! Sends a request to a service, and retries where that is safe.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;
use smallvec::SmallVec;

use super::cluster::UpstreamCluster;
use super::connect::connect;
use super::endpoint::UpstreamEndpoint;
use super::h1::{Http1Exchange, Http1Outcome, Http1Request, UpstreamLink};
use super::h2::{self, Http2RequestBody, Http2SendFailure};
use super::upload::UploadBody;
use super::{UpstreamFailure, UpstreamPool, UpstreamSlot};
use crate::body::GatewayBody;
use crate::buffers::UploadReservation;
use crate::config::UpstreamScheme;
use crate::detachable_work::SentFlag;
use crate::forward::ForwardRequest;

/// A request on its way to a service.
pub(crate) struct UpstreamRequest<'r> {
    pub(crate) pool: &'r Arc<UpstreamPool>,
    pub(crate) cluster: &'r UpstreamCluster,
    pub(crate) forward: ForwardRequest<'r>,
    /// Memory for the body of a client that uses HTTP/2.
    pub(crate) reservation: Option<UploadReservation>,
    /// Set when the request is sent.
    pub(crate) sent_flag: &'r SentFlag,
}

/// The response of a service.
pub(crate) struct UpstreamResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: GatewayBody,
    /// The connection, if it was switched to another protocol.
    pub(crate) switched: Option<(UpstreamLink, UpstreamSlot)>,
    /// The address that has responded.
    pub(crate) endpoint: Arc<UpstreamEndpoint>,
}

/// The result of one attempt to send a request.
#[allow(clippy::large_enum_variant, reason = "made once a request, for which a box costs more")]
enum SendAttempt {
    Answered(UpstreamResponse),
    Failed(UpstreamFailure),
    /// The attempt had no effect, so the request can be sent again.
    Again(UpstreamFailure, UnsentRequest),
}

/// The part of a request that is left to send.
enum UnsentRequest {
    Body(Option<UploadBody>),
    Begun(Box<Http1Request>),
}

impl UpstreamRequest<'_> {
    /// Sends the request, and waits for the head of the response.
    ///
    /// A request is repeated only if no byte of it was sent, or if it is safe (such as `GET`, without a body)
    /// and was lost with a pooled connection: the service probably closed that one while it was idle.
    pub(crate) async fn run(
        mut self,
        body: Option<Incoming>,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let result_guard = self.cluster.counts.begin();
        let (rules, idle, reservation) =
            (&self.cluster.config.uploads, self.idle(), self.reservation.take());
        let body =
            body.map(|body| UploadBody::new(body, rules, idle).with_reservation(reservation));
        let result = self.attempts(body).await;
        result_guard.finish(&result);
        result
    }

    async fn attempts(
        &self,
        body: Option<UploadBody>,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let mut tried: SmallVec<[u64; 4]> = SmallVec::new();
        let (mut unsent, mut fresh) = (UnsentRequest::Body(body), false);
        loop {
            let endpoint = self.cluster.choose(&tried)?;
            let share = self.cluster.take_share(self.forward.client)?;
            let slot = self.pool.begin_request(endpoint).with_share(share);
            match self.attempt(slot, unsent, fresh).await {
                SendAttempt::Answered(answered) => {
                    endpoint.record_success();
                    return Ok(answered);
                }
                SendAttempt::Failed(failure) => return Err(failure),
                SendAttempt::Again(failure, rest) => {
                    let is_new = matches!(failure, UpstreamFailure::Connect(_));
                    let others = self.cluster.endpoints.len() > tried.len() + 1;
                    // A closed connection is replaced once, by a new one to the same address.
                    if (is_new && !others) || tried.len() + 1 >= MAX_ATTEMPTS || (fresh && !is_new)
                    {
                        return Err(failure);
                    }
                    if is_new {
                        tried.push(endpoint.number);
                    } else {
                        fresh = true;
                    }
                    unsent = rest;
                }
            }
        }
    }

    async fn attempt(&self, slot: UpstreamSlot, unsent: UnsentRequest, fresh: bool) -> SendAttempt {
        let endpoint = &Arc::clone(&slot.endpoint);
        if endpoint.address.scheme == UpstreamScheme::H2c || self.pool.shared(endpoint).is_some() {
            return self.send_http2(slot, unsent, fresh).await;
        }
        if !fresh && let Some(link) = self.pool.take(endpoint) {
            return self.send_http1(link, slot, unsent).await;
        }
        match connect(self.cluster, endpoint).await {
            Ok((stream, false)) => self.send_http1(UpstreamLink::new(stream), slot, unsent).await,
            Ok((stream, true)) => match h2::handshake(stream, self.idle()).await {
                Ok(sender) => {
                    self.pool.share(endpoint, sender);
                    self.send_http2(slot, unsent, false).await
                }
                Err(failure) => fail_retryable(slot, failure, unsent),
            },
            Err(failure) => fail_retryable(slot, failure, unsent),
        }
    }

    async fn send_http1(
        &self,
        link: UpstreamLink,
        slot: UpstreamSlot,
        unsent: UnsentRequest,
    ) -> SendAttempt {
        let (endpoint, method) = (Arc::clone(&slot.endpoint), &self.forward.parts.method);
        let head = self.forward.encode(&endpoint.authority);
        let request = match unsent {
            UnsentRequest::Body(body) => {
                Http1Request::new(head, body, self.forward.framing, self.forward.trailers)
            }
            UnsentRequest::Begun(request) => request.with_head(head),
        };
        let exchange = Http1Exchange::new(link, request, method.clone(), self.idle());
        self.sent_flag.set_sent();
        let (status, headers, body, switched) = match exchange.run(self.response()).await {
            Http1Outcome::Whole { status, headers, body, link } => {
                slot.finish(link);
                (status, headers, GatewayBody::whole(body), None)
            }
            Http1Outcome::Streamed { status, headers, body } => {
                (status, headers, GatewayBody::streamed(body.with_slot(slot)), None)
            }
            Http1Outcome::Switched { headers, link } => {
                let switched = Some((link, slot));
                (StatusCode::SWITCHING_PROTOCOLS, headers, GatewayBody::empty(), switched)
            }
            Http1Outcome::Failed { failure, request, was_used } => {
                if !request.has_begun() {
                    self.sent_flag.clear_sent();
                }
                return classify_http1_failure(failure, request, was_used, method, slot);
            }
        };
        SendAttempt::Answered(UpstreamResponse { status, headers, body, switched, endpoint })
    }

    async fn send_http2(
        &self,
        slot: UpstreamSlot,
        unsent: UnsentRequest,
        fresh: bool,
    ) -> SendAttempt {
        let endpoint = Arc::clone(&slot.endpoint);
        let known = self.pool.shared(&endpoint).filter(|_| !fresh);
        let sender = match known {
            Some(sender) => sender,
            None => match self.new_sender(&endpoint).await {
                Ok(sender) => sender,
                Err(failure) => return fail_retryable(slot, failure, unsent),
            },
        };
        let body = match unsent {
            UnsentRequest::Body(body) => body,
            // A part of the body was read for the closed connection, and cannot be read again.
            UnsentRequest::Begun(request) if request.holds_body() => {
                slot.fail(&UpstreamFailure::Closed);
                return SendAttempt::Failed(UpstreamFailure::Closed);
            }
            UnsentRequest::Begun(request) => request.into_body(),
        };
        let request = {
            let body = Http2RequestBody::new(body, self.forward.trailers);
            self.forward.request(&endpoint.authority, endpoint.is_secure(), body)
        };
        let request = match request {
            Ok(request) => request,
            Err(failure) => return SendAttempt::Failed(failure),
        };
        self.sent_flag.set_sent();
        let sent = h2::send(sender, request, self.response()).await;
        self.http2_outcome(sent, slot)
    }

    /// What came of sending a request over HTTP/2.
    fn http2_outcome(
        &self,
        sent: Result<http::Response<Incoming>, Http2SendFailure>,
        slot: UpstreamSlot,
    ) -> SendAttempt {
        let endpoint = Arc::clone(&slot.endpoint);
        match sent {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let body = GatewayBody::of_h2(body, slot, self.idle());
                let (status, headers) = (parts.status, parts.headers);
                SendAttempt::Answered(UpstreamResponse {
                    status,
                    headers,
                    body,
                    switched: None,
                    endpoint,
                })
            }
            Err(Http2SendFailure { failure, request }) => {
                match request.map(|request| request.into_body().body) {
                    Some(body) => {
                        self.sent_flag.clear_sent();
                        self.pool.forget_shared(&endpoint);
                        SendAttempt::Again(failure, UnsentRequest::Body(body))
                    }
                    None => {
                        slot.fail(&failure);
                        SendAttempt::Failed(failure)
                    }
                }
            }
        }
    }

    async fn new_sender(
        &self,
        endpoint: &Arc<UpstreamEndpoint>,
    ) -> Result<h2::Http2Sender, UpstreamFailure> {
        let (stream, _) = connect(self.cluster, endpoint).await?;
        let sender = h2::handshake(stream, self.idle()).await?;
        self.pool.share(endpoint, sender.clone());
        Ok(sender)
    }

    fn idle(&self) -> Duration {
        self.cluster.config.timeouts.idle.into()
    }

    fn response(&self) -> Duration {
        self.cluster.config.timeouts.response.into()
    }
}

fn fail_retryable(
    slot: UpstreamSlot,
    failure: UpstreamFailure,
    unsent: UnsentRequest,
) -> SendAttempt {
    slot.fail(&failure);
    SendAttempt::Again(failure, unsent)
}

fn classify_http1_failure(
    failure: UpstreamFailure,
    request: Http1Request,
    was_used: bool,
    method: &Method,
    slot: UpstreamSlot,
) -> SendAttempt {
    let changes_nothing = method.is_safe() && request.is_bodiless();
    let is_stale = was_used && matches!(failure, UpstreamFailure::Closed);
    if is_stale && (!request.has_begun() || changes_nothing) {
        return SendAttempt::Again(failure, UnsentRequest::Begun(Box::new(request)));
    }
    slot.fail(&failure);
    SendAttempt::Failed(failure)
}

const MAX_ATTEMPTS: usize = 3;
