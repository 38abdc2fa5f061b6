//! The second half of a request: it is sent to its service, and the response comes back.

use std::time::Duration;

use http::Response;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use tidegate::{Decision, RequestCharges, Store};
use tidegate_http::{RateLimitAnswer, describe};
use tidegate_server::trace;

use super::{GatewayRequest, GatewaySession};
use crate::after_cost::{self, ForwardOutcome};
use crate::body::GatewayBody;
use crate::buffers::UploadReservation;
use crate::forward::{ForwardRequest, TrailerFilter, wanted_upgrade};
use crate::refusal::{self, GatewayRefusal};
use crate::response_peek;
use crate::services::RouteTarget;
use crate::tunnel::Tunnel;
use crate::upstream::{ForwardFraming, UpstreamFailure, UpstreamRequest, UpstreamResponse};

impl<S: Store + 'static> GatewaySession<S> {
    pub(super) async fn forward(
        &self,
        mut request: GatewayRequest<'_>,
        route_target: &RouteTarget,
        (body, reservation): (Incoming, Option<UploadReservation>),
        charges: &RequestCharges<'_>,
        decision: &Decision,
    ) -> Result<Response<GatewayBody>, GatewayRefusal> {
        let cluster = &*route_target.cluster;
        if let Some(record) = &mut request.record {
            record.set_route(&route_target.name);
        }
        let wanted = request.upgrade.as_ref();
        let upgrade = wanted.and_then(|_| wanted_upgrade(&request.parts.headers));
        let body = (!body.is_end_stream()).then_some(body);
        let forward = self.forward_request(&request, route_target, body.as_ref(), upgrade);
        let sent_flag = request.sent_flag;
        let sending =
            UpstreamRequest { pool: &self.worker.pool, cluster, forward, reservation, sent_flag };
        let answered = match sending.run(body).await {
            Ok(answered) => answered,
            Err(failure) => {
                if let Some(record) = &mut request.record {
                    record.set_error(&failure);
                }
                let outcome =
                    if sent_flag.is_sent() { ForwardOutcome::Lost } else { ForwardOutcome::Unsent };
                after_cost::correct_costs(&self.worker.app, charges, decision, outcome).await;
                return Err(GatewayRefusal::of(&failure, &cluster.config.name));
            }
        };
        if let Some(record) = &mut request.record {
            record.set_upstream(&format!("{} {}", cluster.config.name, answered.endpoint.address));
        }
        let outcome = ForwardOutcome::Response(answered.status.as_u16(), &answered.headers);
        after_cost::correct_costs(&self.worker.app, charges, decision, outcome).await;
        let idle = cluster.config.timeouts.idle.into();
        let mut response =
            self.response(answered, request.upgrade.filter(|_| upgrade.is_some()), idle)?;
        let peeked = response_peek::peek_after_cost(&self.worker.app, charges).await;
        let answer = RateLimitAnswer::of_charges(charges, peeked.as_ref().unwrap_or(decision));
        describe(&answer, response.headers_mut());
        refusal::describe_if_configured(request.plan, &answer, response.headers_mut());
        route_target.responses.apply(response.headers_mut());
        Ok(response)
    }

    /// What the service gets of a request.
    fn forward_request<'r>(
        &self,
        request: &GatewayRequest<'r>,
        route_target: &'r RouteTarget,
        body: Option<&Incoming>,
        upgrade: Option<&'r HeaderValue>,
    ) -> ForwardRequest<'r> {
        let GatewayRequest { runtime, parts, target, client, .. } = *request;
        let trace = self.worker.app.tracer().and_then(|_| {
            trace::note(|span| {
                span.rename(format!("gateway {}", route_target.name));
                span.context()
            })
        });
        ForwardRequest {
            parts,
            target: &target.path_and_query,
            host: Some(target.host.text()),
            filter: &runtime.filter,
            length: body.map_or(target.length.map(|_| 0), |_| target.length),
            trailers: TrailerFilter::of(parts, &runtime.filter, &route_target.requests),
            rules: &route_target.requests,
            client,
            peer: self.ip,
            is_secure: self.is_secure,
            is_trusted: runtime.trust.trusts_peer(self.ip),
            upgrade,
            preserves_host: route_target.cluster.config.preserves_host,
            trace,
            framing: framing(parts, body),
        }
    }

    /// Turns the service's response into the client's, and keeps the tunnel of a protocol switch.
    fn response(
        &self,
        answered: UpstreamResponse,
        upgrade: Option<OnUpgrade>,
        idle: Duration,
    ) -> Result<Response<GatewayBody>, GatewayRefusal> {
        let UpstreamResponse { status, headers, body, switched, .. } = answered;
        match (switched, upgrade) {
            (Some((service, slot)), Some(client)) => {
                *self.tunnel.lock() = Some(Tunnel { client, service, slot, idle });
            }
            (Some(_), None) => {
                let failure = UpstreamFailure::Malformed("it switches protocols unrequested");
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

/// A body with `Content-Length` is forwarded with it; any other body is sent in chunks.
fn framing(parts: &Parts, body: Option<&Incoming>) -> ForwardFraming {
    let has_length = parts.headers.contains_key(CONTENT_LENGTH);
    if body.is_some() && !has_length { ForwardFraming::Chunked } else { ForwardFraming::Sized }
}
