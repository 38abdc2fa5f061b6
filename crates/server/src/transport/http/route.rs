//! Routes an HTTP request by its path and method.

use std::net::IpAddr;
use std::pin::pin;

use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate::{Plan, Store};

use super::browser::{host, is_cross_site, is_trusted_host};
use super::refusal::HttpRefusal;
use super::{HttpListenerContext, HttpResponse, authz, batch, body, check, docs, refund, rlaas};
use crate::service::trace::{TraceSpan, within};
use crate::{App, ClientRight, ListenerKind, RefusalReason, Transport};

/// Answers any request, also an invalid one. `peer` is the client's address, if it has one.
pub(super) async fn answer<S: Store>(
    context: &HttpListenerContext<S>,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> HttpResponse {
    let app = &context.app;
    let mut span = span(app, &request);
    let response = within(&mut span, pin!(respond(context, peer, request))).await;
    if let Some(span) = &mut span {
        span.set_http_status(response.status());
    }
    app.end_span(span);
    let status = response.status();
    // A denial is a decision, not a refusal, and is counted as a decision.
    if !status.is_success()
        && status != StatusCode::TOO_MANY_REQUESTS
        && let Some(reason) = RefusalReason::of(status)
    {
        app.count_refusal(ListenerKind::Http, reason);
    }
    response
}

/// Refuses a request that a page of another site has sent, or whose host is not trusted.
///
/// `/v1/authz` is exempt because a proxy sends it with the headers of its own client, which can be a
/// browser. `/healthz` is exempt because anyone may see whether the server is up.
fn browser_refusal<S>(
    context: &HttpListenerContext<S>,
    request: &Request<Incoming>,
) -> Option<HttpRefusal> {
    let (path, headers) = (request.uri().path(), request.headers());
    if authz::is_authz_path(path) || path == "/healthz" {
        return None;
    }
    let host = host(request.uri(), headers);
    let is_trusted = |host: &str| is_trusted_host(host, &context.options.hosts);
    if context.is_local && !host.is_none_or(is_trusted) {
        return Some(HttpRefusal::new(StatusCode::FORBIDDEN, STRANGE_HOST));
    }
    // Any page can request the other paths: a browser does not show it the responses.
    let is_change = request.method() == Method::POST || path == "/check";
    (is_change && is_cross_site(headers, host))
        .then(|| HttpRefusal::new(StatusCode::FORBIDDEN, ANOTHER_SITE))
}

/// Begins a span for a request that can lead to a decision, if it is traced.
fn span<S: Store>(app: &App<S>, request: &Request<Incoming>) -> Option<Box<TraceSpan>> {
    // First, because usually nothing is traced.
    app.tracer()?;
    let name = match request.uri().path() {
        "/v1/check" => "POST /v1/check",
        "/v1/check/batch" => "POST /v1/check/batch",
        "/v1/refund" => "POST /v1/refund",
        "/check" => "GET /check",
        path if authz::is_authz_path(path) => "/v1/authz",
        _ => return None,
    };
    app.begin_span(name, request.headers())
}

async fn respond<S: Store>(
    context: &HttpListenerContext<S>,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> HttpResponse {
    let HttpListenerContext { app, config, .. } = context;
    if let Some(refusal) = browser_refusal(context, &request) {
        drop(body::read(request.into_body(), config).await);
        return refusal.into();
    }
    match (request.uri().path(), request.method()) {
        ("/v1/check", &Method::POST) => match body::read(request.into_body(), config).await {
            Ok(body) => check::answer(app, &body).await,
            Err(refusal) => refusal.into(),
        },
        ("/v1/check/batch", &Method::POST) => match body::read(request.into_body(), config).await {
            Ok(body) => batch::answer(app, &body).await,
            Err(refusal) => refusal.into(),
        },
        ("/v1/refund", &Method::POST) => match body::read(request.into_body(), config).await {
            Ok(_) if !app.permits(Transport::Http, ClientRight::Refund) => {
                HttpRefusal::new(StatusCode::FORBIDDEN, NO_REFUNDS).into()
            }
            Ok(body) => refund::answer(app, &body).await,
            Err(refusal) => refusal.into(),
        },
        ("/healthz", &Method::GET | &Method::HEAD) => plain_text("ok\n".to_owned()),
        ("/readyz", &Method::GET | &Method::HEAD) => readiness(app),
        ("/metrics", &Method::GET | &Method::HEAD) => metrics_response(app.metrics_page().await),
        (path, _) if authz::is_authz_path(path) => {
            let (head, _) = request.into_parts();
            authz::answer(app, peer, &head).await
        }
        _ => {
            let (head, body) = request.into_parts();
            // Read the body and drop it: over HTTP/2 some clients lose a response that arrives while they
            // are still sending.
            drop(body::read(body, config).await);
            let (path, method, plan) = (head.uri.path(), &head.method, app.limiter().plan());
            match allowed_methods(path, &plan) {
                Some(allow) => answer_known_path(path, method, allow, &plan),
                None if path == "/check" && plan.settings().is_rlaas() => match *method {
                    Method::GET => rlaas::answer(app, &plan, head.uri.query()).await,
                    _ => wrong_method(path, method, "GET"),
                },
                None => HttpRefusal::no_such_path(path).into(),
            }
        }
    }
}

/// The methods of a path, if the path exists. (`/v1/authz` accepts every method.)
fn allowed_methods(path: &str, plan: &Plan) -> Option<&'static str> {
    match path {
        "/v1/check" | "/v1/check/batch" | "/v1/refund" => Some("OPTIONS, POST"),
        "/" | "/healthz" | "/readyz" | "/metrics" => Some("GET, HEAD, OPTIONS"),
        _ => docs::answer(path, plan).map(|_| "GET, HEAD, OPTIONS"),
    }
}

/// Answers `OPTIONS`, redirects `/`, serves the documentation, and refuses other methods.
fn answer_known_path(
    path: &str,
    method: &Method,
    allow: &'static str,
    plan: &Plan,
) -> HttpResponse {
    match *method {
        Method::OPTIONS => {
            let mut response = HttpResponse::default();
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
            response
        }
        Method::GET | Method::HEAD if path == "/" => {
            let mut response = HttpResponse::default();
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("/docs"));
            response
        }
        Method::GET | Method::HEAD => {
            docs::answer(path, plan).unwrap_or_else(|| wrong_method(path, method, allow))
        }
        _ => wrong_method(path, method, allow),
    }
}

/// A refused configuration leaves the previous one active, and an unavailable store has a fallback. The
/// server stays ready in both cases, and reports them.
fn readiness<S: Store>(app: &App<S>) -> HttpResponse {
    if app.is_draining() {
        return HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "draining: about to stop").into();
    }
    let mut text = "ok\n".to_owned();
    if let Some(problem) = app.reload_problem() {
        text += &format!("the last configuration was refused: {problem}\n");
    }
    if let Some(problem) = app.limiter().store_problem() {
        text += &format!("deciding without the store: {problem}\n");
    }
    plain_text(text)
}

/// A page in the Prometheus text format.
pub(crate) fn metrics_response(page: String) -> HttpResponse {
    let mut response = HttpResponse::new(page.into());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn plain_text(text: String) -> HttpResponse {
    let mut response = HttpResponse::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn wrong_method(path: &str, method: &Method, allow: &'static str) -> HttpResponse {
    let mut response = HttpResponse::from(HttpRefusal::wrong_method(method, path, allow));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

const NO_REFUNDS: &str = "refunds are off: expected serve --allow http:refund, or POST \
    /admin/v1/refund on the admin listener";
const STRANGE_HOST: &str = "a listener on a loopback address answers only names of this machine: expected \
    Host: localhost, an address, or a name that serve --http-hosts lists";
const ANOTHER_SITE: &str = "a page of another site sent this request: expected no Origin and no \
    Sec-Fetch-Site, or those of this server";
