//! Sends a request to a service, and once more where that is safe.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;
use smallvec::SmallVec;
use tidegate::config::gateway::UpstreamScheme;

use super::cluster::UpstreamCluster;
use super::connect::connect;
use super::endpoint::UpstreamEndpoint;
use super::h1::{Http1Exchange, Http1Outcome, Http1Request, UpstreamLink};
use super::h2::{self, Http2RequestBody, Http2SendFailure};
use super::upload::UploadBody;
use super::{UpstreamFailure, UpstreamPool, UpstreamSlot};
use crate::body::GatewayBody;
use crate::buffers::UploadReservation;
use crate::detachable_work::SentFlag;
use crate::forward::ForwardRequest;

/// A request on its way to a service.
pub(crate) struct UpstreamRequest<'r> {
    pub(crate) pool: &'r Arc<UpstreamPool>,
    pub(crate) cluster: &'r UpstreamCluster,
    pub(crate) forward: ForwardRequest<'r>,
    /// For the body, over HTTP/2.
    pub(crate) room: Option<UploadReservation>,
    /// Told when the request leaves.
    pub(crate) departure: &'r SentFlag,
}

/// What a service said.
pub(crate) struct UpstreamResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: GatewayBody,
    /// The connection, when it was switched to another protocol.
    pub(crate) switched: Option<(UpstreamLink, UpstreamSlot)>,
    /// Which address it was.
    pub(crate) endpoint: Arc<UpstreamEndpoint>,
}

/// One attempt.
#[allow(clippy::large_enum_variant, reason = "made once a request, for which a box costs more")]
enum SendAttempt {
    Answered(UpstreamResponse),
    Failed(UpstreamFailure),
    /// Nothing was done that could have had an effect: it may be tried again.
    Again(UpstreamFailure, UnsentRequest),
}

/// What of a request is left to be sent.
enum UnsentRequest {
    Body(Option<UploadBody>),
    Begun(Box<Http1Request>),
}

impl UpstreamRequest<'_> {
    /// Sends, and waits for the head of the response.
    ///
    /// A request is repeated only if no byte of it has left, or if it changes nothing (`GET` and
    /// the like, without a body) and was lost with a connection that had been idle: there, the
    /// service's closing it and our using it have crossed.
    pub(crate) async fn run(
        mut self,
        body: Option<Incoming>,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let open = self.cluster.counts.begin();
        let (rules, idle, room) = (&self.cluster.about.uploads, self.idle(), self.room.take());
        let body = body.map(|body| UploadBody::new(body, rules, idle).with_reservation(room));
        let result = self.attempts(body).await;
        open.finish(&result);
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
            let place = self.cluster.take_share(self.forward.client)?;
            let lease = self.pool.begin_request(endpoint).with_share(place);
            match self.attempt(lease, unsent, fresh).await {
                SendAttempt::Answered(answered) => {
                    endpoint.record_success();
                    return Ok(answered);
                }
                SendAttempt::Failed(failure) => return Err(failure),
                SendAttempt::Again(failure, left) => {
                    let is_new = matches!(failure, UpstreamFailure::Connect(_));
                    let others = self.cluster.endpoints.len() > tried.len() + 1;
                    // A connection that was closed gets one new one at the same address.
                    if (is_new && !others) || tried.len() + 1 >= MAX_ATTEMPTS || (fresh && !is_new)
                    {
                        return Err(failure);
                    }
                    if is_new {
                        tried.push(endpoint.number);
                    } else {
                        fresh = true;
                    }
                    unsent = left;
                }
            }
        }
    }

    async fn attempt(
        &self,
        lease: UpstreamSlot,
        unsent: UnsentRequest,
        fresh: bool,
    ) -> SendAttempt {
        let endpoint = &Arc::clone(&lease.endpoint);
        if endpoint.address.scheme == UpstreamScheme::H2c || self.pool.shared(endpoint).is_some() {
            return self.send_http2(lease, unsent, fresh).await;
        }
        if !fresh && let Some(link) = self.pool.take(endpoint) {
            return self.send_http1(link, lease, unsent).await;
        }
        match connect(self.cluster, endpoint).await {
            Ok((wire, false)) => self.send_http1(UpstreamLink::new(wire), lease, unsent).await,
            Ok((wire, true)) => match h2::handshake(wire, self.idle()).await {
                Ok(sender) => {
                    self.pool.share(endpoint, sender);
                    self.send_http2(lease, unsent, false).await
                }
                Err(failure) => fail_retryable(lease, failure, unsent),
            },
            Err(failure) => fail_retryable(lease, failure, unsent),
        }
    }

    async fn send_http1(
        &self,
        link: UpstreamLink,
        lease: UpstreamSlot,
        unsent: UnsentRequest,
    ) -> SendAttempt {
        let (endpoint, method) = (Arc::clone(&lease.endpoint), &self.forward.parts.method);
        let head = self.forward.encode(&endpoint.authority);
        let outgoing = match unsent {
            UnsentRequest::Body(body) => {
                Http1Request::new(head, body, self.forward.framing, self.forward.trailers)
            }
            UnsentRequest::Begun(outgoing) => outgoing.with_head(head),
        };
        let exchange = Http1Exchange::new(link, outgoing, method.clone(), self.idle());
        self.departure.set_sent();
        let (status, headers, body, switched) = match exchange.run(self.response()).await {
            Http1Outcome::Whole { status, headers, body, link } => {
                lease.finish(link);
                (status, headers, GatewayBody::whole(body), None)
            }
            Http1Outcome::Streamed { status, headers, body } => {
                (status, headers, GatewayBody::streamed(body.with_slot(lease)), None)
            }
            Http1Outcome::Switched { headers, link } => {
                let switched = Some((link, lease));
                (StatusCode::SWITCHING_PROTOCOLS, headers, GatewayBody::empty(), switched)
            }
            Http1Outcome::Failed { failure, outgoing, was_used } => {
                if !outgoing.has_begun() {
                    self.departure.clear_sent();
                }
                return classify_http1_failure(failure, outgoing, was_used, method, lease);
            }
        };
        SendAttempt::Answered(UpstreamResponse { status, headers, body, switched, endpoint })
    }

    async fn send_http2(
        &self,
        lease: UpstreamSlot,
        unsent: UnsentRequest,
        fresh: bool,
    ) -> SendAttempt {
        let endpoint = Arc::clone(&lease.endpoint);
        let known = self.pool.shared(&endpoint).filter(|_| !fresh);
        let sender = match known {
            Some(sender) => sender,
            None => match self.new_sender(&endpoint).await {
                Ok(sender) => sender,
                Err(failure) => return fail_retryable(lease, failure, unsent),
            },
        };
        let body = match unsent {
            UnsentRequest::Body(body) => body,
            // Some of the body was read for a connection that was of no use, and cannot be read again.
            UnsentRequest::Begun(outgoing) if outgoing.holds_body() => {
                lease.fail(&UpstreamFailure::Closed);
                return SendAttempt::Failed(UpstreamFailure::Closed);
            }
            UnsentRequest::Begun(outgoing) => outgoing.into_body(),
        };
        let is_secure = endpoint.address.scheme == UpstreamScheme::Https;
        let request = {
            let body = Http2RequestBody::new(body, self.forward.trailers);
            self.forward.request(&endpoint.authority, is_secure, body)
        };
        let Some(request) = request else {
            return SendAttempt::Failed(UpstreamFailure::Malformed(
                "it cannot be asked for this host",
            ));
        };
        self.departure.set_sent();
        match h2::send(sender, request, self.response()).await {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let body = GatewayBody::of_h2(body, lease, self.idle());
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
                        self.departure.clear_sent();
                        self.pool.forget_shared(&endpoint);
                        SendAttempt::Again(failure, UnsentRequest::Body(body))
                    }
                    None => {
                        lease.fail(&failure);
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
        let (wire, _) = connect(self.cluster, endpoint).await?;
        let sender = h2::handshake(wire, self.idle()).await?;
        self.pool.share(endpoint, sender.clone());
        Ok(sender)
    }

    fn idle(&self) -> Duration {
        self.cluster.about.timeouts.idle.into()
    }

    fn response(&self) -> Duration {
        self.cluster.about.timeouts.response.into()
    }
}

fn fail_retryable(
    lease: UpstreamSlot,
    failure: UpstreamFailure,
    unsent: UnsentRequest,
) -> SendAttempt {
    lease.fail(&failure);
    SendAttempt::Again(failure, unsent)
}

fn classify_http1_failure(
    failure: UpstreamFailure,
    outgoing: Http1Request,
    was_used: bool,
    method: &Method,
    lease: UpstreamSlot,
) -> SendAttempt {
    let changes_nothing = method.is_safe() && outgoing.is_bodiless();
    let is_stale = was_used && matches!(failure, UpstreamFailure::Closed);
    if is_stale && (!outgoing.has_begun() || changes_nothing) {
        return SendAttempt::Again(failure, UnsentRequest::Begun(Box::new(outgoing)));
    }
    lease.fail(&failure);
    SendAttempt::Failed(failure)
}

const MAX_ATTEMPTS: usize = 3;
