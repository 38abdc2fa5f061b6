//! Paths and methods.

use std::net::IpAddr;
use std::pin::pin;

use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate::Store;

use super::browser::{host, is_cross_site, is_trusted_host};
use super::refusal::HttpRefusal;
use super::{HttpListenerContext, HttpResponse, authz, batch, body, check, docs, refund, rlaas};
use crate::trace::{TraceSpan, within};
use crate::{App, ClientRight, ListenerKind, RefusalReason, Transport};

/// Every request is answered, whatever it is. `peer` is the address of the client, if it has one.
pub(super) async fn answer<S: Store>(
    door: &HttpListenerContext<S>,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> HttpResponse {
    let app = &door.app;
    let mut span = span(app, &request);
    let response = within(&mut span, pin!(respond(door, peer, request))).await;
    if let Some(span) = &mut span {
        span.set_http_status(response.status());
    }
    app.end_span(span);
    let status = response.status();
    // A denial is a decision, and is counted as one.
    if !status.is_success()
        && status != StatusCode::TOO_MANY_REQUESTS
        && let Some(reason) = RefusalReason::of(status)
    {
        app.count_refusal(ListenerKind::Http, reason);
    }
    response
}

/// Why a request is not looked at: a page in a browser has made it that is not ours, or it has come
/// to a name that is not.
///
/// A proxy asks `/v1/authz` with the fields of its own client, who may well be a browser; and
/// whether the server is up is for everybody.
fn browser_refusal<S>(
    door: &HttpListenerContext<S>,
    request: &Request<Incoming>,
) -> Option<HttpRefusal> {
    let (path, headers) = (request.uri().path(), request.headers());
    if authz::is_authz_path(path) || path == "/healthz" {
        return None;
    }
    let host = host(request.uri(), headers);
    let is_reliable = |host: &str| is_trusted_host(host, &door.config.http_hosts);
    if door.is_local && !host.is_none_or(is_reliable) {
        return Some(HttpRefusal::new(StatusCode::FORBIDDEN, STRANGE_HOST));
    }
    // Others may be looked at from anywhere: a browser shows nothing of them to another page.
    let is_change = request.method() == Method::POST || path == "/check";
    (is_change && is_cross_site(headers, host))
        .then(|| HttpRefusal::new(StatusCode::FORBIDDEN, ANOTHER_SITE))
}

/// For requests that ask for decisions, if they are traced.
fn span<S: Store>(app: &App<S>, request: &Request<Incoming>) -> Option<Box<TraceSpan>> {
    // Before anything is looked at: mostly nothing is traced.
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
    door: &HttpListenerContext<S>,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> HttpResponse {
    let HttpListenerContext { app, config, .. } = door;
    if let Some(refusal) = browser_refusal(door, &request) {
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
            Ok(_) if !config.rights.permit(Transport::Http, ClientRight::Refund) => {
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
            // Heard out, and not listened to: an answer that comes over HTTP/2 while a client still
            // sends is lost on some of them.
            drop(body::read(body, config).await);
            let (path, method, plan) = (head.uri.path(), &head.method, app.limiter().plan());
            match allowed_methods(path) {
                Some(allow) => answer_known_path(path, method, allow),
                None if path == "/check" && plan.settings().is_rlaas() => match *method {
                    Method::GET => rlaas::answer(app, &plan, head.uri.query()).await,
                    _ => wrong_method(path, method, "GET"),
                },
                None => HttpRefusal::no_such_path(path).into(),
            }
        }
    }
}

/// The methods of a path, if it exists. (`/v1/authz` has them all.)
fn allowed_methods(path: &str) -> Option<&'static str> {
    match path {
        "/v1/check" | "/v1/check/batch" | "/v1/refund" => Some("OPTIONS, POST"),
        "/" | "/healthz" | "/readyz" | "/metrics" => Some("GET, HEAD, OPTIONS"),
        _ => docs::answer(path).map(|_| "GET, HEAD, OPTIONS"),
    }
}

/// What people look at, and errors.
fn answer_known_path(path: &str, method: &Method, allow: &'static str) -> HttpResponse {
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
            docs::answer(path).unwrap_or_else(|| wrong_method(path, method, allow))
        }
        _ => wrong_method(path, method, allow),
    }
}

/// A file that was refused changes nothing, and an unavailable store has a stand-in: neither is a
/// reason to turn clients away. Both are reported.
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

/// In the Prometheus text format.
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
const STRANGE_HOST: &str = "on a loopback address only names of this machine are answered: expected \
    Host: localhost, an address, or a name that serve --http-hosts lists";
const ANOTHER_SITE: &str = "a page of another site has sent this: expected no Origin and no \
    Sec-Fetch-Site, or those of this server";
