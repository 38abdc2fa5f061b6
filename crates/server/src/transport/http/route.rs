//! Paths and methods.

use std::net::IpAddr;
use std::pin::pin;

use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate::Store;

use super::problem::Refusal;
use super::{Response, authz, batch, body, check, docs, refund, rlaas};
use crate::trace::{Span, within};
use crate::{App, Config};

/// Every request is answered, whatever it is. `peer` is the address of the client, if it has one.
pub(super) async fn answer<S: Store>(
    app: &App<S>,
    config: &Config,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> Response {
    let mut span = span(app, &request);
    let response = within(&mut span, pin!(respond(app, config, peer, request))).await;
    if let Some(span) = &mut span {
        span.answered(response.status());
    }
    app.end_span(span);
    response
}

/// For requests that ask for decisions, if they are traced.
fn span<S: Store>(app: &App<S>, request: &Request<Incoming>) -> Option<Box<Span>> {
    // Before anything is looked at: mostly nothing is traced.
    app.tracer()?;
    let name = match request.uri().path() {
        "/v1/check" => "POST /v1/check",
        "/v1/check/batch" => "POST /v1/check/batch",
        "/v1/refund" => "POST /v1/refund",
        "/check" => "GET /check",
        path if authz::is_here(path) => "/v1/authz",
        _ => return None,
    };
    app.begin_span(name, request.headers())
}

async fn respond<S: Store>(
    app: &App<S>,
    config: &Config,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> Response {
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
            Ok(body) => refund::answer(app, &body).await,
            Err(refusal) => refusal.into(),
        },
        ("/healthz", &Method::GET | &Method::HEAD) => plain("ok\n".to_owned()),
        ("/readyz", &Method::GET | &Method::HEAD) => ready(app),
        ("/metrics", &Method::GET | &Method::HEAD) => metrics(app.metrics_page().await),
        (path, _) if authz::is_here(path) => {
            let (head, _) = request.into_parts();
            authz::answer(app, peer, &head).await
        }
        _ => {
            let (head, body) = request.into_parts();
            // Heard out, and not listened to: an answer that comes over HTTP/2 while a client still
            // sends is lost on some of them.
            drop(body::read(body, config).await);
            let (path, method, plan) = (head.uri.path(), &head.method, app.limiter().plan());
            match allowed(path) {
                Some(allow) => seldom(path, method, allow),
                None if path == "/check" && plan.settings().is_rlaas() => match *method {
                    Method::GET => rlaas::answer(app, &plan, head.uri.query()).await,
                    _ => wrong_method(path, method, "GET"),
                },
                None => Refusal::no_such_path(path).into(),
            }
        }
    }
}

/// The methods of a path, if it exists. (`/v1/authz` has them all.)
fn allowed(path: &str) -> Option<&'static str> {
    match path {
        "/v1/check" | "/v1/check/batch" | "/v1/refund" => Some("OPTIONS, POST"),
        "/" | "/healthz" | "/readyz" | "/metrics" => Some("GET, HEAD, OPTIONS"),
        _ => docs::answer(path).map(|_| "GET, HEAD, OPTIONS"),
    }
}

/// What people look at, and errors.
fn seldom(path: &str, method: &Method, allow: &'static str) -> Response {
    match *method {
        Method::OPTIONS => {
            let mut response = Response::default();
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
            response
        }
        Method::GET | Method::HEAD if path == "/" => {
            let mut response = Response::default();
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
fn ready<S: Store>(app: &App<S>) -> Response {
    if app.is_draining() {
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "draining: about to stop").into();
    }
    let mut text = "ok\n".to_owned();
    if let Some(problem) = app.reload_problem() {
        text += &format!("the last configuration was refused: {problem}\n");
    }
    if let Some(problem) = app.limiter().store_problem() {
        text += &format!("deciding without the store: {problem}\n");
    }
    plain(text)
}

/// In the Prometheus text format.
pub(crate) fn metrics(page: String) -> Response {
    let mut response = Response::new(page.into());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn plain(text: String) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn wrong_method(path: &str, method: &Method, allow: &'static str) -> Response {
    let mut response = Response::from(Refusal::wrong_method(method, path, allow));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
