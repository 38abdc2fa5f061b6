//! The life of one request: it is read, decided about, forwarded, and answered.

mod forward;

use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE, UPGRADE, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tidegate::{Clock as _, Cost, Plan, Store, SystemClock};
use tidegate_http::{RateLimitAnswer, is_grpc_call};
use tidegate_server::ClientStream;
use tidegate_server::connection::{ActiveRequest, HttpProgress};
use tidegate_server::trace::{self, TraceParent, TraceSpan};

use crate::access_log::{AccessLog, AccessLogRecord, AccessLogRequest};
use crate::attributes::{RequestAttributes, RouteAttributes};
use crate::body::GatewayBody;
use crate::buffers::{Http2Buffers, UploadReservation};
use crate::config::GatewayPolicy;
use crate::detachable_work::{DetachableWork, SentFlag};
use crate::refusal::{self, GatewayRefusal};
use crate::request_target::RequestTarget;
use crate::runtime::GatewayRuntime;
use crate::services::RouteTarget;
use crate::tunnel::Tunnel;
use crate::worker::GatewayWorker;
use crate::{early_denial, wait_queue};

/// What the requests of one connection share.
#[derive(Debug)]
pub(crate) struct GatewaySession<S> {
    worker: Arc<GatewayWorker<S>>,
    /// The peer's address; `None` for a Unix socket.
    ip: Option<IpAddr>,
    /// The peer's address as text, formatted once for all requests.
    address: Option<String>,
    /// Whether the connection uses TLS.
    is_secure: bool,
    progress: HttpProgress,
    /// The buffered data of the connection, if it is HTTP/2. HTTP/1 has only one bounded buffer.
    buffers: Option<Arc<Http2Buffers>>,
    tunnel: Mutex<Option<Tunnel>>,
    clock: SystemClock,
}

/// A request that was read without a fault, and its context.
struct GatewayRequest<'r> {
    plan: &'r Plan,
    runtime: &'r GatewayRuntime,
    parts: &'r Parts,
    target: &'r RequestTarget<'r>,
    client: Option<&'r str>,
    upgrade: Option<OnUpgrade>,
    sent_flag: &'r SentFlag,
    record: Option<&'r mut AccessLogRecord>,
}

impl<S: Store + 'static> GatewaySession<S> {
    pub(crate) fn new(
        worker: Arc<GatewayWorker<S>>,
        stream: &ClientStream,
        progress: HttpProgress,
    ) -> Self {
        let ip = stream.peer().address.map(|ip| ip.to_canonical());
        let budget = &worker.gateway.budget;
        let buffers = progress.is_http2().then(|| Arc::new(Http2Buffers::new(Arc::clone(budget))));
        Self {
            worker,
            ip,
            address: ip.map(|ip| ip.to_string()),
            is_secure: stream.is_secure(),
            progress,
            buffers,
            tunnel: Mutex::new(None),
            clock: SystemClock::new(),
        }
    }

    /// The tunnel that the connection has become, if it was upgraded.
    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().take()
    }

    /// Answers a request. Every failure becomes a response.
    pub(crate) async fn answer(
        session: Arc<Self>,
        request: Request<Incoming>,
        active: ActiveRequest,
    ) -> Response<GatewayBody> {
        // Loaded once: the whole answer follows one plan, even if another is loaded meanwhile.
        let plan = session.worker.app.limiter().plan();
        let runtime = session.worker.gateway.runtime(&plan);
        // After such a request, the connection reads no more bytes until it is answered.
        let may_switch = request.version() == Version::HTTP_11
            && request.headers().contains_key(UPGRADE)
            && request.body().is_end_stream();
        let mut response = if runtime.has_after_costs {
            let sent_flag = Arc::new(SentFlag::default());
            let (working, working_flag) = (Arc::clone(&session), Arc::clone(&sent_flag));
            let work = async move {
                working.answer_and_record(&runtime, request, may_switch, &working_flag).await
            };
            DetachableWork::new(sent_flag, work).await
        } else {
            session.answer_and_record(&runtime, request, may_switch, &SentFlag::default()).await
        };
        if may_switch {
            session.progress.set_switched(response.status() == StatusCode::SWITCHING_PROTOCOLS);
        }
        active.announce_close(&mut response);
        response.map(|body| body.with_active_request(active, session.buffers.as_ref()))
    }

    /// The part of the work that can outlive the client's connection.
    async fn answer_and_record(
        &self,
        runtime: &GatewayRuntime,
        request: Request<Incoming>,
        may_switch: bool,
        sent_flag: &SentFlag,
    ) -> Response<GatewayBody> {
        let mut record = runtime.services.log.as_ref().and_then(AccessLog::begin);
        let mut span = self.span(runtime, &request);
        let responding =
            self.respond(runtime, request, may_switch, sent_flag, record.as_deref_mut());
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

    /// A span that lasts until the head of the response, if the request is traced.
    fn span(
        &self,
        runtime: &GatewayRuntime,
        request: &Request<Incoming>,
    ) -> Option<Box<TraceSpan>> {
        let tracer = self.worker.app.tracer()?;
        let caller = TraceParent::of(request.headers());
        match runtime.trust.trusts_peer(self.ip) {
            true => tracer.begin("gateway", caller),
            false => tracer.begin_untrusted("gateway", caller),
        }
    }

    async fn respond(
        &self,
        runtime: &GatewayRuntime,
        mut request: Request<Incoming>,
        may_switch: bool,
        sent_flag: &SentFlag,
        mut record: Option<&mut AccessLogRecord>,
    ) -> Response<GatewayBody> {
        let upgrade = may_switch.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let client = self.client(runtime, &parts);
        let target = match RequestTarget::read(&parts, &runtime.services.gateway.requests) {
            Ok(target) => target,
            Err(fault) => {
                return GatewayRefusal::from(fault).into_counted_response(&self.worker.app);
            }
        };
        if let Some(record) = &mut record {
            record.set_request(&AccessLogRequest {
                ip: client.as_deref(),
                method: parts.method.as_str(),
                host: Some(target.host.name()),
                path: &target.path,
                user_agent: parts.headers.get(USER_AGENT).and_then(|it| it.to_str().ok()),
            });
        }
        let request = GatewayRequest {
            plan: &runtime.plan,
            runtime,
            parts: &parts,
            target: &target,
            client: client.as_deref(),
            upgrade,
            sent_flag,
            record,
        };
        self.decide(request, body)
            .await
            .unwrap_or_else(|it| it.into_counted_response(&self.worker.app))
    }

    /// The client's address: the peer's, or the one that a trusted proxy reports.
    fn client<'s>(&'s self, runtime: &GatewayRuntime, parts: &Parts) -> Option<Cow<'s, str>> {
        if !runtime.trust.trusts_anybody() {
            return self.address.as_deref().map(Cow::Borrowed);
        }
        let ip = runtime.trust.of(self.ip, &parts.headers);
        ip.map(|ip| Cow::Owned(ip.to_string()))
    }

    /// Limits come first: a request without a route or a valid token still counts against its address.
    async fn decide(
        &self,
        mut request: GatewayRequest<'_>,
        body: Incoming,
    ) -> Result<Response<GatewayBody>, GatewayRefusal> {
        let GatewayRequest { runtime, parts, target, .. } = request;
        let method = parts.method.as_str();
        runtime.route_fields.check(&parts.headers)?;
        let route_attributes = RouteAttributes { method, target, headers: &parts.headers };
        let services = &runtime.services;
        let route_target = services
            .gateway
            .route(&route_attributes)
            .and_then(|number| services.route_targets.get(number));
        let verifier = services.verifier.as_ref();
        let may_have_token = verifier.is_some() && parts.headers.contains_key(AUTHORIZATION);
        if may_have_token && let Some(denied) = self.deny_early(&mut request, route_target).await? {
            return Ok(denied);
        }
        let claims = verifier.map(|it| it.claims(&parts.headers, self.clock.now())).transpose();
        let charges = {
            let claims = claims.as_ref().ok().and_then(|it| it.as_ref()).and_then(Option::as_ref);
            let found = runtime.attribute_lookup.find(&parts.headers, target.query, claims)?;
            if let Some(record) = &mut request.record {
                found.iter().for_each(|(name, value)| record.add_attribute(name, value));
            }
            let route = route_target.map(|it| it.name.as_str());
            let attributes =
                RequestAttributes { method, target, client: request.client, route, found: &found };
            request.plan.charges(&attributes, Cost::ONE)
        };
        if let Some(fault) = charges.cost_fault() {
            return Err(GatewayRefusal::bad(fault.to_string()));
        }
        // Over HTTP/2, the body takes memory even while the request waits in a queue.
        let reservation =
            self.reserve_upload(!body.is_end_stream()).ok_or_else(GatewayRefusal::no_memory)?;
        let gateway = &self.worker.gateway;
        let waiting = (&gateway.queues, &gateway.budget);
        let size = || waiting_bytes(&parts.headers);
        let decision = wait_queue::decide_or_wait(&self.worker.app, &charges, waiting, size).await;
        let answer = RateLimitAnswer::of_charges(&charges, &decision);
        if let Some(record) = &mut request.record {
            record.set_decision(&decision, answer.policy());
        }
        if !decision.is_allowed() {
            return Ok(answer_denied(&request, &answer));
        }
        if let Err(invalid) = claims {
            return Err(GatewayRefusal::unauthorised(invalid.to_string()));
        }
        let Some(route_target) = route_target else { return Err(GatewayRefusal::no_route()) };
        self.forward(request, route_target, (body, reservation), &charges, &decision).await
    }

    /// The denial of a request that is over a limit regardless of its token.
    async fn deny_early(
        &self,
        request: &mut GatewayRequest<'_>,
        route_target: Option<&RouteTarget>,
    ) -> Result<Option<Response<GatewayBody>>, GatewayRefusal> {
        let GatewayRequest { runtime, parts, target, .. } = *request;
        let found = runtime.attribute_lookup.find(&parts.headers, target.query, None)?;
        let (method, route) = (parts.method.as_str(), route_target.map(|it| it.name.as_str()));
        let attributes =
            RequestAttributes { method, target, client: request.client, route, found: &found };
        let charges = request.plan.charges(&attributes, Cost::ONE);
        let Some((charges, decision)) =
            early_denial::deny_without_token(&self.worker.app, &charges).await
        else {
            return Ok(None);
        };
        let answer = RateLimitAnswer::of_charges(&charges, &decision);
        if let Some(record) = &mut request.record {
            found.iter().for_each(|(name, value)| record.add_attribute(name, value));
            record.set_decision(&decision, answer.policy());
        }
        Ok(Some(answer_denied(request, &answer)))
    }

    /// Reserves memory for a request's body, if it has one and the connection is HTTP/2. `None` if the
    /// budget is used up.
    fn reserve_upload(&self, has_body: bool) -> Option<Option<UploadReservation>> {
        let Some(buffers) = &self.buffers else { return Some(None) };
        if buffers.budget().is_used_up() {
            buffers.budget().count_refusal();
            return None;
        }
        if has_body { buffers.reserve_upload().map(Some) } else { Some(None) }
    }
}

fn answer_denied(
    request: &GatewayRequest<'_>,
    answer: &RateLimitAnswer<'_, '_>,
) -> Response<GatewayBody> {
    let Parts { method, headers, .. } = request.parts;
    if is_grpc_call(method, headers) {
        return refusal::denied_grpc_response(request.plan, answer, headers.get(CONTENT_TYPE));
    }
    let policy = answer.policy().and_then(|name| request.plan.policy(name));
    refusal::denied_response(request.plan, answer, policy.and_then(GatewayPolicy::denied_of))
}

/// Roughly the memory that a waiting request takes: its fields are held both raw and parsed.
fn waiting_bytes(headers: &http::HeaderMap) -> usize {
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    fields.sum::<usize>().saturating_mul(3).saturating_add(8 << 10)
}
