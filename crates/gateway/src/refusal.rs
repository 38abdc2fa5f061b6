//! The gateway's own responses: refusals, denials, and failures of services.

use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tidegate::{Plan, Store};
use tidegate_http::{
    PROBLEM_JSON, RateLimitAnswer, RequestFault, denial, describe, describe_legacy, grpc_denial,
    json,
};
use tidegate_server::{App, ListenerKind, RefusalReason};
use tidegate_wire::{ProblemDetails, RefusalMembers};

use crate::body::GatewayBody;
use crate::config::DeniedResponse;
use crate::upstream::UpstreamFailure;

/// The reason why a request is not forwarded or not answered by its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayRefusal {
    status: StatusCode,
    detail: String,
}

impl GatewayRefusal {
    /// The request is invalid or ambiguous.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, detail: detail.into() }
    }

    /// The request has no valid token.
    pub(crate) fn unauthorised(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, detail: detail.into() }
    }

    pub(crate) fn no_route() -> Self {
        Self { status: StatusCode::NOT_FOUND, detail: "no route matches this request".to_owned() }
    }

    /// The budget for buffered data is used up.
    pub(crate) fn no_memory() -> Self {
        let detail = "the gateway's buffers are full: try again later".to_owned();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, detail }
    }

    /// The service gave no response.
    pub(crate) fn of(failure: &UpstreamFailure, upstream: &str) -> Self {
        let detail = match failure {
            // The error would show the client where the service is.
            UpstreamFailure::Connect(_) => format!("{upstream}: cannot connect"),
            failure => format!("{upstream}: {failure}"),
        };
        Self { status: failure.status(), detail }
    }
}

impl GatewayRefusal {
    /// The response. Counts it in the metric of refusals.
    #[cold]
    pub(crate) fn into_counted_response<S: Store>(self, app: &App<S>) -> Response<GatewayBody> {
        if let Some(reason) = RefusalReason::of(self.status) {
            app.count_refusal(ListenerKind::Gateway, reason);
        }
        self.into()
    }
}

impl From<RequestFault> for GatewayRefusal {
    fn from(fault: RequestFault) -> Self {
        Self { status: fault.status(), detail: fault.to_string() }
    }
}

impl From<GatewayRefusal> for Response<GatewayBody> {
    fn from(refusal: GatewayRefusal) -> Self {
        let status = refusal.status;
        let problem = ProblemDetails {
            kind: ProblemDetails::BLANK,
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &refusal.detail,
            members: RefusalMembers::default(),
        };
        let mut response = Self::new(GatewayBody::whole(json(&problem)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                let others = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
                headers.insert(ALLOW, HeaderValue::from_static(others));
            }
            _ => {}
        }
        response
    }
}

/// The response to a denied request: the policy's own response, if it has one.
pub(crate) fn denied_response(
    plan: &Plan,
    answer: &RateLimitAnswer<'_, '_>,
    custom: Option<&DeniedResponse>,
) -> Response<GatewayBody> {
    let mut response = match custom.and_then(|custom| custom.body.as_ref()) {
        None => denial(answer).map(GatewayBody::whole),
        Some((text, kind)) => {
            let mut response = Response::new(GatewayBody::whole(text.clone().into()));
            describe(answer, response.headers_mut());
            if let Ok(kind) = HeaderValue::try_from(kind) {
                response.headers_mut().insert(CONTENT_TYPE, kind);
            }
            response
        }
    };
    describe_if_configured(plan, answer, response.headers_mut());
    // The policy's own fields come last: they can replace any of the gateway's.
    if let Some(custom) = custom {
        *response.status_mut() = StatusCode::from_u16(custom.status).unwrap_or_default();
        apply_policy_fields(custom, response.headers_mut());
    }
    response
}

fn apply_policy_fields(custom: &DeniedResponse, headers: &mut HeaderMap) {
    for (name, value) in &custom.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

/// Adds the legacy rate limit fields if the plan asks for them.
pub(crate) fn describe_if_configured(
    plan: &Plan,
    answer: &RateLimitAnswer<'_, '_>,
    headers: &mut HeaderMap,
) {
    if let Some(unit) = plan.settings().legacy_headers() {
        describe_legacy(answer, unit, headers);
    }
}

/// The response to a denied gRPC call. `kind` is its content type.
pub(crate) fn denied_grpc_response(
    plan: &Plan,
    answer: &RateLimitAnswer<'_, '_>,
    kind: Option<&HeaderValue>,
) -> Response<GatewayBody> {
    let mut response = grpc_denial(answer.decision(), kind).map(GatewayBody::whole);
    let headers = response.headers_mut();
    describe(answer, headers);
    describe_if_configured(plan, answer, headers);
    response
}
