//! Sends a request to a service, and once more where that is safe.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;
use smallvec::SmallVec;
use tidegate::config::gateway::Scheme;

use super::cluster::Cluster;
use super::connect::connect;
use super::endpoint::Endpoint;
use super::h1::{Exchange, Link, Outcome, Outgoing};
use super::h2::{self, RequestBody, Unanswered};
use super::upload::Upload;
use super::{Failure, Lease, Pool};
use crate::body::Body;
use crate::buffers::UploadRoom;
use crate::forward::Forward;
use crate::outliving::Departure;

/// A request on its way to a service.
pub(crate) struct Sending<'r> {
    pub(crate) pool: &'r Arc<Pool>,
    pub(crate) cluster: &'r Cluster,
    pub(crate) forward: Forward<'r>,
    /// For the body, over HTTP/2.
    pub(crate) room: Option<UploadRoom>,
    /// Told when the request leaves.
    pub(crate) departure: &'r Departure,
}

/// What a service said.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// The connection, when it was switched to another protocol.
    pub(crate) switched: Option<(Link, Lease)>,
    /// Which address it was.
    pub(crate) endpoint: Arc<Endpoint>,
}

/// One attempt.
#[allow(clippy::large_enum_variant, reason = "made once a request, for which a box costs more")]
enum Attempt {
    Answered(Answered),
    Failed(Failure),
    /// Nothing was done that could have had an effect: it may be tried again.
    Again(Failure, Unsent),
}

/// What of a request is left to be sent.
enum Unsent {
    Body(Option<Upload>),
    Begun(Box<Outgoing>),
}

impl Sending<'_> {
    /// Sends, and waits for the head of the response.
    ///
    /// A request is repeated only if no byte of it has left, or if it changes nothing (`GET` and
    /// the like, without a body) and was lost with a connection that had been idle: there, the
    /// service's closing it and our using it have crossed.
    pub(crate) async fn run(mut self, body: Option<Incoming>) -> Result<Answered, Failure> {
        let open = self.cluster.counts.begin();
        let (rules, idle, room) = (&self.cluster.about.uploads, self.idle(), self.room.take());
        let body = body.map(|body| Upload::new(body, rules, idle).within(room));
        let result = self.attempts(body).await;
        open.ends(&result);
        result
    }

    async fn attempts(&self, body: Option<Upload>) -> Result<Answered, Failure> {
        let mut tried: SmallVec<[u64; 4]> = SmallVec::new();
        let (mut unsent, mut fresh) = (Unsent::Body(body), false);
        loop {
            let endpoint = self.cluster.choose(&tried)?;
            let place = self.cluster.place(self.forward.client)?;
            let lease = self.pool.lease(endpoint).placed(place);
            match self.attempt(lease, unsent, fresh).await {
                Attempt::Answered(answered) => {
                    endpoint.succeeded();
                    return Ok(answered);
                }
                Attempt::Failed(failure) => return Err(failure),
                Attempt::Again(failure, left) => {
                    let is_new = matches!(failure, Failure::Connect(_));
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

    async fn attempt(&self, lease: Lease, unsent: Unsent, fresh: bool) -> Attempt {
        let endpoint = &Arc::clone(&lease.endpoint);
        if endpoint.address.scheme == Scheme::H2c || self.pool.shared(endpoint).is_some() {
            return self.over_h2(lease, unsent, fresh).await;
        }
        if !fresh && let Some(link) = self.pool.take(endpoint) {
            return self.over_h1(link, lease, unsent).await;
        }
        match connect(self.cluster, endpoint).await {
            Ok((wire, false)) => self.over_h1(Link::new(wire), lease, unsent).await,
            Ok((wire, true)) => match h2::handshake(wire, self.idle()).await {
                Ok(sender) => {
                    self.pool.share(endpoint, sender);
                    self.over_h2(lease, unsent, false).await
                }
                Err(failure) => again(lease, failure, unsent),
            },
            Err(failure) => again(lease, failure, unsent),
        }
    }

    async fn over_h1(&self, link: Link, lease: Lease, unsent: Unsent) -> Attempt {
        let (endpoint, method) = (Arc::clone(&lease.endpoint), &self.forward.parts.method);
        let head = self.forward.encode(&endpoint.authority);
        let outgoing = match unsent {
            Unsent::Body(body) => {
                Outgoing::new(head, body, self.forward.framing, self.forward.trailers)
            }
            Unsent::Begun(outgoing) => outgoing.with_head(head),
        };
        let exchange = Exchange::new(link, outgoing, method.clone(), self.idle());
        self.departure.leave();
        let (status, headers, body, switched) = match exchange.run(self.response()).await {
            Outcome::Whole { status, headers, body, link } => {
                lease.ended(link);
                (status, headers, Body::whole(body), None)
            }
            Outcome::Streamed { status, headers, body } => {
                (status, headers, Body::streamed(body.held_by(lease)), None)
            }
            Outcome::Switched { headers, link } => {
                let switched = Some((link, lease));
                (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty(), switched)
            }
            Outcome::Failed { failure, outgoing, was_used } => {
                if !outgoing.has_begun() {
                    self.departure.stay();
                }
                return h1_failed(failure, outgoing, was_used, method, lease);
            }
        };
        Attempt::Answered(Answered { status, headers, body, switched, endpoint })
    }

    async fn over_h2(&self, lease: Lease, unsent: Unsent, fresh: bool) -> Attempt {
        let endpoint = Arc::clone(&lease.endpoint);
        let known = self.pool.shared(&endpoint).filter(|_| !fresh);
        let sender = match known {
            Some(sender) => sender,
            None => match self.new_sender(&endpoint).await {
                Ok(sender) => sender,
                Err(failure) => return again(lease, failure, unsent),
            },
        };
        let body = match unsent {
            Unsent::Body(body) => body,
            // Some of the body was read for a connection that was of no use, and cannot be read again.
            Unsent::Begun(outgoing) if outgoing.holds_body() => {
                lease.failed(&Failure::Closed);
                return Attempt::Failed(Failure::Closed);
            }
            Unsent::Begun(outgoing) => outgoing.into_body(),
        };
        let is_secure = endpoint.address.scheme == Scheme::Https;
        let request = {
            let body = RequestBody::new(body, self.forward.trailers);
            self.forward.request(&endpoint.authority, is_secure, body)
        };
        let Some(request) = request else {
            return Attempt::Failed(Failure::Garbage("it cannot be asked for this host"));
        };
        self.departure.leave();
        match h2::send(sender, request, self.response()).await {
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let body = Body::of_h2(body, lease, self.idle());
                let (status, headers) = (parts.status, parts.headers);
                Attempt::Answered(Answered { status, headers, body, switched: None, endpoint })
            }
            Err(Unanswered { failure, request }) => {
                match request.map(|request| request.into_body().body) {
                    Some(body) => {
                        self.departure.stay();
                        self.pool.forget_shared(&endpoint);
                        Attempt::Again(failure, Unsent::Body(body))
                    }
                    None => {
                        lease.failed(&failure);
                        Attempt::Failed(failure)
                    }
                }
            }
        }
    }

    async fn new_sender(&self, endpoint: &Arc<Endpoint>) -> Result<h2::Sender, Failure> {
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

fn again(lease: Lease, failure: Failure, unsent: Unsent) -> Attempt {
    lease.failed(&failure);
    Attempt::Again(failure, unsent)
}

fn h1_failed(
    failure: Failure,
    outgoing: Outgoing,
    was_used: bool,
    method: &Method,
    lease: Lease,
) -> Attempt {
    let changes_nothing = method.is_safe() && outgoing.is_bodiless();
    let is_stale = was_used && matches!(failure, Failure::Closed);
    if is_stale && (!outgoing.has_begun() || changes_nothing) {
        return Attempt::Again(failure, Unsent::Begun(Box::new(outgoing)));
    }
    lease.failed(&failure);
    Attempt::Failed(failure)
}

const MAX_ATTEMPTS: usize = 3;
