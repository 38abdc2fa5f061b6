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
use tidegate::{Clock as _, Cost, Decision, Plan, RequestCharges, Store, SystemClock};
use tidegate_http::{RateLimitAnswer, describe};
use tidegate_server::trace::{self, TraceParent, TraceSpan};

use crate::access_log::{AccessLog, AccessLogRecord, AccessLogRequest};
use crate::after_cost::ForwardOutcome;
use crate::attributes::{RequestAttributes, RouteAttributes};
use crate::body::GatewayBody;
use crate::buffers::UploadReservation;
use crate::connection::{ActiveRequest, GatewayPeer, GatewayProgress, ProtocolSwitch};
use crate::detachable_work::{DetachableWork, SentFlag};
use crate::forward::{self, ForwardRequest, TrailerFilter};
use crate::refusal::{self, GatewayRefusal};
use crate::request_target::RequestTarget;
use crate::runtime::GatewayRuntime;
use crate::services::RouteTarget;
use crate::tunnel::Tunnel;
use crate::upstream::{ForwardFraming, UpstreamRequest, UpstreamResponse};
use crate::worker::GatewayWorker;
use crate::{after_cost, early_denial, response_peek, wait_queue};

/// What the requests of one connection share.
#[derive(Debug)]
pub(crate) struct GatewaySession<S> {
    worker: Arc<GatewayWorker<S>>,
    peer: GatewayPeer,
    /// The peer's address, written once.
    address: Option<String>,
    progress: GatewayProgress,
    /// What became of a request to switch protocols.
    switch: Arc<ProtocolSwitch>,
    tunnel: Mutex<Option<Tunnel>>,
    clock: SystemClock,
}

/// A request that was understood, and what is decided about it.
struct GatewayRequest<'r> {
    plan: &'r Plan,
    runtime: &'r GatewayRuntime,
    parts: &'r Parts,
    asked: &'r RequestTarget<'r>,
    client: Option<&'r str>,
    upgrade: Option<OnUpgrade>,
    departure: &'r SentFlag,
    record: Option<&'r mut AccessLogRecord>,
}

impl<S: Store + 'static> GatewaySession<S> {
    pub(crate) fn new(
        worker: Arc<GatewayWorker<S>>,
        peer: GatewayPeer,
        progress: GatewayProgress,
        switch: Arc<ProtocolSwitch>,
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
    pub(crate) fn begin(&self) -> ActiveRequest {
        self.progress.begin()
    }

    /// Every request is answered, whatever it is.
    pub(crate) async fn answer(
        session: Arc<Self>,
        request: Request<Incoming>,
        busy: ActiveRequest,
    ) -> Response<GatewayBody> {
        // Once: the whole answer is by one plan, whatever is loaded meanwhile.
        let plan = session.worker.app.limiter().plan();
        let runtime = session.worker.gateway.runtime(&plan);
        // The connection waits with whatever comes behind such a request.
        let may_switch = request.version() == Version::HTTP_11
            && request.headers().contains_key(UPGRADE)
            && request.body().is_end_stream();
        let response = if runtime.has_after_costs {
            let departure = Arc::new(SentFlag::default());
            let (working, left) = (Arc::clone(&session), Arc::clone(&departure));
            let work = async move {
                working.answer_and_record(&runtime, request, may_switch, &left).await
            };
            DetachableWork::new(departure, work).await
        } else {
            session.answer_and_record(&runtime, request, may_switch, &SentFlag::default()).await
        };
        if may_switch {
            session.switch.set_switched(response.status() == StatusCode::SWITCHING_PROTOCOLS);
        }
        response.map(|body| body.with_active_request(busy))
    }

    /// All of it that may outlive the client.
    async fn answer_and_record(
        &self,
        runtime: &GatewayRuntime,
        request: Request<Incoming>,
        may_switch: bool,
        departure: &SentFlag,
    ) -> Response<GatewayBody> {
        let mut record = runtime.services.log.as_ref().and_then(AccessLog::begin);
        let mut span = self.span(runtime, &request);
        let responding =
            self.respond(runtime, request, may_switch, departure, record.as_deref_mut());
        let response = trace::within(&mut span, pin!(responding)).await;
        self.progress.record_answer(response.status() == StatusCode::TOO_MANY_REQUESTS);
        if let (Some(mut span), Some(tracer)) = (span, self.worker.app.tracer()) {
            span.set_http_status(response.status());
            tracer.end(span);
        }
        if let Some(record) = &mut record {
            record.set_status(response.status().as_u16());
        }
        response.map(|body| body.with_record(record))
    }

    /// Until the head of the response is there, if the request is traced.
    fn span(
        &self,
        runtime: &GatewayRuntime,
        request: &Request<Incoming>,
    ) -> Option<Box<TraceSpan>> {
        let tracer = self.worker.app.tracer()?;
        let caller = TraceParent::of(request.headers());
        match runtime.trust.trusts_peer(self.peer.ip) {
            true => tracer.begin("gateway", caller),
            false => tracer.begin_untrusted("gateway", caller),
        }
    }

    async fn respond(
        &self,
        runtime: &GatewayRuntime,
        mut request: Request<Incoming>,
        may_switch: bool,
        departure: &SentFlag,
        mut record: Option<&mut AccessLogRecord>,
    ) -> Response<GatewayBody> {
        let upgrade = may_switch.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let client = self.client(runtime, &parts);
        let asked = match RequestTarget::read(&parts, &runtime.services.gateway.requests) {
            Ok(asked) => asked,
            Err(fault) => {
                return GatewayRefusal::from(fault).into_counted_response(&self.worker.app);
            }
        };
        if let Some(record) = &mut record {
            record.set_request(&AccessLogRequest {
                ip: client.as_deref(),
                method: parts.method.as_str(),
                host: Some(asked.host.name()),
                path: &asked.path,
                user_agent: parts.headers.get(USER_AGENT).and_then(|it| it.to_str().ok()),
            });
        }
        let case = GatewayRequest {
            plan: &runtime.plan,
            runtime,
            parts: &parts,
            asked: &asked,
            client: client.as_deref(),
            upgrade,
            departure,
            record,
        };
        self.decide(case, body)
            .await
            .unwrap_or_else(|it| it.into_counted_response(&self.worker.app))
    }

    /// Whom the request is from.
    fn client<'s>(&'s self, runtime: &GatewayRuntime, parts: &Parts) -> Option<Cow<'s, str>> {
        if !runtime.trust.trusts_anybody() {
            return self.address.as_deref().map(Cow::Borrowed);
        }
        let ip = runtime.trust.of(self.peer.ip, &parts.headers);
        ip.map(|ip| Cow::Owned(ip.to_string()))
    }

    /// Limits first: who has no route or no valid token is limited by address all the same.
    async fn decide(
        &self,
        mut case: GatewayRequest<'_>,
        body: Incoming,
    ) -> Result<Response<GatewayBody>, GatewayRefusal> {
        let GatewayRequest { runtime, parts, asked, .. } = case;
        let method = parts.method.as_str();
        runtime.route_fields.check(&parts.headers)?;
        let routed = RouteAttributes { method, asked, headers: &parts.headers };
        let services = &runtime.services;
        let way =
            services.gateway.route(&routed).and_then(|number| services.route_targets.get(number));
        let verifier = services.verifier.as_ref();
        let may_have_token = verifier.is_some() && parts.headers.contains_key(AUTHORIZATION);
        if may_have_token && let Some(denied) = self.deny_early(&mut case, way).await? {
            return Ok(denied);
        }
        let claims = verifier.map(|it| it.claims(&parts.headers, self.clock.now())).transpose();
        let owed = {
            let claims = claims.as_ref().ok().and_then(|it| it.as_ref()).and_then(Option::as_ref);
            let found = runtime.attribute_lookup.find(&parts.headers, asked.query, claims)?;
            if let Some(record) = &mut case.record {
                found.iter().for_each(|(name, value)| record.add_attribute(name, value));
            }
            let route = way.map(|way| way.name.as_str());
            let known =
                RequestAttributes { method, asked, client: case.client, route, found: &found };
            case.plan.charges(&known, Cost::ONE)
        };
        if let Some(fault) = owed.cost_fault() {
            return Err(GatewayRefusal::bad(fault.to_string()));
        }
        // Over HTTP/2, a client can make us keep what it sends and asks for, also while it waits in line.
        let room =
            self.reserve_upload(!body.is_end_stream()).ok_or_else(GatewayRefusal::no_memory)?;
        let gateway = &self.worker.gateway;
        let waiting = (&gateway.lines, &gateway.budget);
        let size = || waiting_bytes(&parts.headers);
        let decision = wait_queue::decide_or_wait(&self.worker.app, &owed, waiting, size).await;
        let answer = RateLimitAnswer::of_charges(&owed, &decision);
        if let Some(record) = &mut case.record {
            record.set_decision(&decision, answer.policy());
        }
        if !decision.is_allowed() {
            return Ok(answer_denied(&case, &answer));
        }
        if let Err(invalid) = claims {
            return Err(GatewayRefusal::unauthorised(invalid.to_string()));
        }
        let Some(way) = way else { return Err(GatewayRefusal::no_route()) };
        self.forward(case, way, (body, room), &owed, &decision).await
    }

    /// The denial of a request that is over a limit whatever its token says.
    async fn deny_early(
        &self,
        case: &mut GatewayRequest<'_>,
        way: Option<&RouteTarget>,
    ) -> Result<Option<Response<GatewayBody>>, GatewayRefusal> {
        let GatewayRequest { runtime, parts, asked, .. } = *case;
        let found = runtime.attribute_lookup.find(&parts.headers, asked.query, None)?;
        let (method, route) = (parts.method.as_str(), way.map(|way| way.name.as_str()));
        let known = RequestAttributes { method, asked, client: case.client, route, found: &found };
        let owed = case.plan.charges(&known, Cost::ONE);
        let Some((owed, decision)) =
            early_denial::deny_without_token(&self.worker.app, &owed).await
        else {
            return Ok(None);
        };
        let answer = RateLimitAnswer::of_charges(&owed, &decision);
        if let Some(record) = &mut case.record {
            found.iter().for_each(|(name, value)| record.add_attribute(name, value));
            record.set_decision(&decision, answer.policy());
        }
        Ok(Some(answer_denied(case, &answer)))
    }

    async fn forward(
        &self,
        mut case: GatewayRequest<'_>,
        way: &RouteTarget,
        (body, room): (Incoming, Option<UploadReservation>),
        owed: &RequestCharges<'_>,
        decision: &Decision,
    ) -> Result<Response<GatewayBody>, GatewayRefusal> {
        let GatewayRequest { runtime, parts, asked, client, .. } = case;
        let cluster = &*way.cluster;
        if let Some(record) = &mut case.record {
            record.set_route(&way.name);
        }
        let trace = self.worker.app.tracer().and_then(|_| {
            trace::note(|span| {
                span.rename(format!("gateway {}", way.name));
                span.context()
            })
        });
        let upgrade = case.upgrade.as_ref().and_then(|_| forward::wanted_upgrade(&parts.headers));
        let body = (!body.is_end_stream()).then_some(body);
        let forward = ForwardRequest {
            parts,
            target: &asked.path_and_query,
            host: Some(asked.host.text()),
            filter: &runtime.filter,
            length: body.as_ref().map_or(asked.length.map(|_| 0), |_| asked.length),
            trailers: TrailerFilter::of(parts, &runtime.filter, &way.requests),
            rules: &way.requests,
            client,
            peer: self.peer.ip,
            is_secure: self.peer.is_secure,
            believed: runtime.trust.trusts_peer(self.peer.ip),
            upgrade,
            preserves_host: cluster.about.preserves_host,
            trace,
            framing: framing(parts, body.as_ref()),
        };
        let departure = case.departure;
        let sending =
            UpstreamRequest { pool: &self.worker.pool, cluster, forward, room, departure };
        let answered = match sending.run(body).await {
            Ok(answered) => answered,
            Err(failure) => {
                if let Some(record) = &mut case.record {
                    record.set_error(&failure);
                }
                let sight =
                    if departure.is_sent() { ForwardOutcome::Lost } else { ForwardOutcome::Unsent };
                after_cost::correct_costs(&self.worker.app, owed, decision, sight).await;
                return Err(GatewayRefusal::of(&failure, &cluster.about.name));
            }
        };
        if let Some(record) = &mut case.record {
            record.set_upstream(&format!("{} {}", cluster.about.name, answered.endpoint.address));
        }
        let sight = ForwardOutcome::Response(answered.status.as_u16(), &answered.headers);
        after_cost::correct_costs(&self.worker.app, owed, decision, sight).await;
        let idle = cluster.about.timeouts.idle.into();
        let mut response =
            self.response(answered, case.upgrade.filter(|_| upgrade.is_some()), idle)?;
        let standing = response_peek::peek_after_cost(&self.worker.app, owed).await;
        let answer = RateLimitAnswer::of_charges(owed, standing.as_ref().unwrap_or(decision));
        describe(&answer, response.headers_mut());
        refusal::describe_if_configured(case.plan, &answer, response.headers_mut());
        way.responses.apply(response.headers_mut());
        Ok(response)
    }

    /// Room for a request's body, if it has one and may need some. `None` if there is none.
    fn reserve_upload(&self, has_body: bool) -> Option<Option<UploadReservation>> {
        let Some(buffers) = self.progress.buffers() else { return Some(None) };
        if buffers.budget().is_used_up() {
            buffers.budget().count_refusal();
            return None;
        }
        if has_body { buffers.reserve_upload().map(Some) } else { Some(None) }
    }

    /// The service's response as the client gets it.
    fn response(
        &self,
        answered: UpstreamResponse,
        upgrade: Option<OnUpgrade>,
        idle: std::time::Duration,
    ) -> Result<Response<GatewayBody>, GatewayRefusal> {
        let UpstreamResponse { status, headers, body, switched, .. } = answered;
        match (switched, upgrade) {
            (Some((service, lease)), Some(client)) => {
                *self.tunnel.lock() = Some(Tunnel { client, service, lease, idle });
            }
            (Some(_), None) => {
                let failure =
                    crate::upstream::UpstreamFailure::Malformed("it switches protocols unasked");
                return Err(GatewayRefusal::of(&failure, "the service"));
            }
            (None, _) => {}
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn answer_denied(
    case: &GatewayRequest<'_>,
    answer: &RateLimitAnswer<'_, '_>,
) -> Response<GatewayBody> {
    if refusal::is_grpc(&case.parts.headers) {
        return refusal::denied_grpc_response(case.plan, answer);
    }
    let policy = answer.policy().and_then(|name| case.plan.policy(name));
    refusal::denied_response(case.plan, answer, policy.and_then(|policy| policy.denied()))
}

/// How much memory a request takes that waits, about: its fields are kept as they came, and as they are
/// understood.
fn waiting_bytes(headers: &http::HeaderMap) -> usize {
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    fields.sum::<usize>().saturating_mul(3).saturating_add(8 << 10)
}

/// A length that the client has told is told to the service; chunks stay chunks.
fn framing(parts: &Parts, body: Option<&Incoming>) -> ForwardFraming {
    let has_length = parts.headers.contains_key(http::header::CONTENT_LENGTH);
    if body.is_some() && !has_length { ForwardFraming::Chunked } else { ForwardFraming::Sized }
}
