//! From a request to its response.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;

use http::header::{AUTHORIZATION, UPGRADE, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tidegate::{Clock as _, Cost, Decision, Owed, Plan, Store, SystemClock};
use tidegate_http::{Answer, describe};
use tidegate_server::trace::{self, Span, TraceParent};

use crate::after::Sight;
use crate::asked::Asked;
use crate::attributes::{Known, Routed};
use crate::body::Body;
use crate::buffers::UploadRoom;
use crate::connection::{Busy, Peer, Progress, Switch};
use crate::forward::{self, Forward, Trailers};
use crate::log::{About, AccessLog, Record};
use crate::outliving::{Departure, Outliving};
use crate::problem::{self, Refusal};
use crate::runtime::Runtime;
use crate::services::Way;
use crate::tunnel::Tunnel;
use crate::upstream::{Answered, Framing, Sending};
use crate::worker::Worker;
use crate::{after, early, line, standing};

/// What the requests of one connection share.
#[derive(Debug)]
pub(crate) struct Session<S> {
    worker: Arc<Worker<S>>,
    peer: Peer,
    /// The peer's address, written once.
    address: Option<String>,
    progress: Progress,
    /// What became of a request to switch protocols.
    switch: Arc<Switch>,
    tunnel: Mutex<Option<Tunnel>>,
    clock: SystemClock,
}

/// A request that was understood, and what is decided about it.
struct Case<'r> {
    plan: &'r Plan,
    runtime: &'r Runtime,
    parts: &'r Parts,
    asked: &'r Asked<'r>,
    client: Option<&'r str>,
    upgrade: Option<OnUpgrade>,
    departure: &'r Departure,
    record: Option<&'r mut Record>,
}

impl<S: Store + 'static> Session<S> {
    pub(crate) fn new(
        worker: Arc<Worker<S>>,
        peer: Peer,
        progress: Progress,
        switch: Arc<Switch>,
    ) -> Self {
        let address = peer.ip.map(|ip| ip.to_string());
        let (tunnel, clock) = (Mutex::new(None), SystemClock::new());
        Self { worker, peer, address, progress, switch, tunnel, clock }
    }

    /// What the connection became, once no more requests come on it.
    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().take()
    }

    /// A request has come.
    pub(crate) fn begin(&self) -> Busy {
        self.progress.begin()
    }

    /// Every request is answered, whatever it is.
    pub(crate) async fn answer(
        session: Arc<Self>,
        request: Request<Incoming>,
        busy: Busy,
    ) -> Response<Body> {
        // Once: the whole answer is by one plan, whatever is loaded meanwhile.
        let plan = session.worker.app.limiter().plan();
        let runtime = session.worker.gateway.runtime(&plan);
        // The connection waits with whatever comes behind such a request.
        let may_switch = request.version() == Version::HTTP_11
            && request.headers().contains_key(UPGRADE)
            && request.body().is_end_stream();
        let response = if runtime.has_after_costs {
            let departure = Arc::new(Departure::default());
            let (working, left) = (Arc::clone(&session), Arc::clone(&departure));
            let work = async move { working.work(&runtime, request, may_switch, &left).await };
            Outliving::new(departure, work).await
        } else {
            session.work(&runtime, request, may_switch, &Departure::default()).await
        };
        if may_switch {
            session.switch.answered(response.status() == StatusCode::SWITCHING_PROTOCOLS);
        }
        response.map(|body| body.busy(busy))
    }

    /// All of it that may outlive the client.
    async fn work(
        &self,
        runtime: &Runtime,
        request: Request<Incoming>,
        may_switch: bool,
        departure: &Departure,
    ) -> Response<Body> {
        let mut record = runtime.services.log.as_ref().and_then(AccessLog::begin);
        let mut span = self.span(runtime, &request);
        let responding =
            self.respond(runtime, request, may_switch, departure, record.as_deref_mut());
        let response = trace::within(&mut span, pin!(responding)).await;
        self.progress.answered(response.status() == StatusCode::TOO_MANY_REQUESTS);
        if let (Some(mut span), Some(tracer)) = (span, self.worker.app.tracer()) {
            span.answered(response.status());
            tracer.end(span);
        }
        if let Some(record) = &mut record {
            record.answered(response.status().as_u16());
        }
        response.map(|body| body.recorded(record))
    }

    /// Until the head of the response is there, if the request is traced.
    fn span(&self, runtime: &Runtime, request: &Request<Incoming>) -> Option<Box<Span>> {
        let tracer = self.worker.app.tracer()?;
        let caller = TraceParent::of(request.headers());
        match runtime.trust.believes(self.peer.ip) {
            true => tracer.begin("gateway", caller),
            false => tracer.begin_for_stranger("gateway", caller),
        }
    }

    async fn respond(
        &self,
        runtime: &Runtime,
        mut request: Request<Incoming>,
        may_switch: bool,
        departure: &Departure,
        mut record: Option<&mut Record>,
    ) -> Response<Body> {
        let upgrade = may_switch.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let client = self.client(runtime, &parts);
        let asked = match Asked::read(&parts, &runtime.services.gateway.requests) {
            Ok(asked) => asked,
            Err(fault) => return Refusal::from(fault).counted(&self.worker.app),
        };
        if let Some(record) = &mut record {
            record.about(&About {
                ip: client.as_deref(),
                method: parts.method.as_str(),
                host: Some(asked.host.name()),
                path: &asked.path,
                user_agent: parts.headers.get(USER_AGENT).and_then(|it| it.to_str().ok()),
            });
        }
        let case = Case {
            plan: &runtime.plan,
            runtime,
            parts: &parts,
            asked: &asked,
            client: client.as_deref(),
            upgrade,
            departure,
            record,
        };
        self.decide(case, body).await.unwrap_or_else(|it| it.counted(&self.worker.app))
    }

    /// Whom the request is from.
    fn client<'s>(&'s self, runtime: &Runtime, parts: &Parts) -> Option<Cow<'s, str>> {
        if !runtime.trust.trusts_anybody() {
            return self.address.as_deref().map(Cow::Borrowed);
        }
        let ip = runtime.trust.of(self.peer.ip, &parts.headers);
        ip.map(|ip| Cow::Owned(ip.to_string()))
    }

    /// Limits first: who has no route or no valid token is limited by address all the same.
    async fn decide(&self, mut case: Case<'_>, body: Incoming) -> Result<Response<Body>, Refusal> {
        let Case { runtime, parts, asked, .. } = case;
        let method = parts.method.as_str();
        runtime.routed_by.check(&parts.headers)?;
        let routed = Routed { method, asked, headers: &parts.headers };
        let services = &runtime.services;
        let way = services.gateway.route(&routed).and_then(|number| services.ways.get(number));
        let verifier = services.verifier.as_ref();
        let may_have_token = verifier.is_some() && parts.headers.contains_key(AUTHORIZATION);
        if may_have_token && let Some(denied) = self.deny_early(&mut case, way).await? {
            return Ok(denied);
        }
        let claims = verifier.map(|it| it.claims(&parts.headers, self.clock.now())).transpose();
        let owed = {
            let claims = claims.as_ref().ok().and_then(|it| it.as_ref()).and_then(Option::as_ref);
            let found = runtime.wanted.find(&parts.headers, asked.query, claims)?;
            if let Some(record) = &mut case.record {
                found.iter().for_each(|(name, value)| record.attribute(name, value));
            }
            let route = way.map(|way| way.name.as_str());
            let known = Known { method, asked, client: case.client, route, found: &found };
            case.plan.charges(&known, Cost::ONE)
        };
        if let Some(fault) = owed.cost_fault() {
            return Err(Refusal::bad(fault.to_string()));
        }
        // Over HTTP/2, a client can make us keep what it sends and asks for, also while it waits in line.
        let room = self.room(!body.is_end_stream()).ok_or_else(Refusal::no_memory)?;
        let gateway = &self.worker.gateway;
        let waiting = (&gateway.lines, &gateway.budget);
        let size = || size(&parts.headers);
        let decision = line::settle(&self.worker.app, &owed, waiting, size).await;
        let answer = Answer::of_owed(&owed, &decision);
        if let Some(record) = &mut case.record {
            record.decided(&decision, answer.policy());
        }
        if !decision.is_allowed() {
            return Ok(denied(&case, &answer));
        }
        if let Err(invalid) = claims {
            return Err(Refusal::unauthorised(invalid.to_string()));
        }
        let Some(way) = way else { return Err(Refusal::no_route()) };
        self.forward(case, way, (body, room), &owed, &decision).await
    }

    /// The denial of a request that is over a limit whatever its token says.
    async fn deny_early(
        &self,
        case: &mut Case<'_>,
        way: Option<&Way>,
    ) -> Result<Option<Response<Body>>, Refusal> {
        let Case { runtime, parts, asked, .. } = *case;
        let found = runtime.wanted.find(&parts.headers, asked.query, None)?;
        let (method, route) = (parts.method.as_str(), way.map(|way| way.name.as_str()));
        let known = Known { method, asked, client: case.client, route, found: &found };
        let owed = case.plan.charges(&known, Cost::ONE);
        let Some((owed, decision)) = early::deny(&self.worker.app, &owed).await else {
            return Ok(None);
        };
        let answer = Answer::of_owed(&owed, &decision);
        if let Some(record) = &mut case.record {
            found.iter().for_each(|(name, value)| record.attribute(name, value));
            record.decided(&decision, answer.policy());
        }
        Ok(Some(denied(case, &answer)))
    }

    async fn forward(
        &self,
        mut case: Case<'_>,
        way: &Way,
        (body, room): (Incoming, Option<UploadRoom>),
        owed: &Owed<'_>,
        decision: &Decision,
    ) -> Result<Response<Body>, Refusal> {
        let Case { runtime, parts, asked, client, .. } = case;
        let cluster = &*way.cluster;
        if let Some(record) = &mut case.record {
            record.routed(&way.name);
        }
        let trace = self.worker.app.tracer().and_then(|_| {
            trace::note(|span| {
                span.rename(format!("gateway {}", way.name));
                span.context()
            })
        });
        let upgrade = case.upgrade.as_ref().and_then(|_| forward::wanted_upgrade(&parts.headers));
        let body = (!body.is_end_stream()).then_some(body);
        let forward = Forward {
            parts,
            target: &asked.target,
            host: Some(asked.host.text()),
            filter: &runtime.filter,
            length: body.as_ref().map_or(asked.length.map(|_| 0), |_| asked.length),
            trailers: Trailers::of(parts, &runtime.filter, &way.requests),
            rules: &way.requests,
            client,
            peer: self.peer.ip,
            is_secure: self.peer.is_secure,
            believed: runtime.trust.believes(self.peer.ip),
            upgrade,
            preserves_host: cluster.about.preserves_host,
            trace,
            framing: framing(parts, body.as_ref()),
        };
        let departure = case.departure;
        let sending = Sending { pool: &self.worker.pool, cluster, forward, room, departure };
        let answered = match sending.run(body).await {
            Ok(answered) => answered,
            Err(failure) => {
                if let Some(record) = &mut case.record {
                    record.broke_off(&failure);
                }
                let sight = if departure.has_left() { Sight::Lost } else { Sight::Unsent };
                after::settle(&self.worker.app, owed, decision, sight).await;
                return Err(Refusal::of(&failure, &cluster.about.name));
            }
        };
        if let Some(record) = &mut case.record {
            record.served_by(&format!("{} {}", cluster.about.name, answered.endpoint.address));
        }
        let sight = Sight::Response(answered.status.as_u16(), &answered.headers);
        after::settle(&self.worker.app, owed, decision, sight).await;
        let idle = cluster.about.timeouts.idle.into();
        let mut response =
            self.response(answered, case.upgrade.filter(|_| upgrade.is_some()), idle)?;
        let standing = standing::look(&self.worker.app, owed).await;
        let answer = Answer::of_owed(owed, standing.as_ref().unwrap_or(decision));
        describe(&answer, response.headers_mut());
        problem::describe_as_asked_for(case.plan, &answer, response.headers_mut());
        way.responses.apply(response.headers_mut());
        Ok(response)
    }

    /// Room for a request's body, if it has one and may need some. `None` if there is none.
    fn room(&self, has_body: bool) -> Option<Option<UploadRoom>> {
        let Some(buffers) = self.progress.buffers() else { return Some(None) };
        if buffers.budget().is_used_up() {
            buffers.budget().refuse();
            return None;
        }
        if has_body { buffers.upload().map(Some) } else { Some(None) }
    }

    /// The service's response as the client gets it.
    fn response(
        &self,
        answered: Answered,
        upgrade: Option<OnUpgrade>,
        idle: std::time::Duration,
    ) -> Result<Response<Body>, Refusal> {
        let Answered { status, headers, body, switched, .. } = answered;
        match (switched, upgrade) {
            (Some((service, lease)), Some(client)) => {
                *self.tunnel.lock() = Some(Tunnel { client, service, lease, idle });
            }
            (Some(_), None) => {
                let failure = crate::upstream::Failure::Garbage("it switches protocols unasked");
                return Err(Refusal::of(&failure, "the service"));
            }
            (None, _) => {}
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn denied(case: &Case<'_>, answer: &Answer<'_, '_>) -> Response<Body> {
    if problem::is_grpc(&case.parts.headers) {
        return problem::denied_grpc(case.plan, answer);
    }
    let policy = answer.policy().and_then(|name| case.plan.policy(name));
    problem::denied(case.plan, answer, policy.and_then(|policy| policy.denied()))
}

/// How much memory a request takes that waits, about: its fields are kept as they came, and as they are
/// understood.
fn size(headers: &http::HeaderMap) -> usize {
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    fields.sum::<usize>().saturating_mul(3).saturating_add(8 << 10)
}

/// A length that the client has told is told to the service; chunks stay chunks.
fn framing(parts: &Parts, body: Option<&Incoming>) -> Framing {
    let has_length = parts.headers.contains_key(http::header::CONTENT_LENGTH);
    if body.is_some() && !has_length { Framing::Chunked } else { Framing::Sized }
}
