//! Paths and methods.

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate::Store;

use super::problem::Refusal;
use super::{Response, body, check, rlaas};
use crate::{App, Config};

/// Every request is answered, whatever it is.
pub(super) async fn answer<S: Store>(
    app: &App<S>,
    config: &Config,
    request: Request<Incoming>,
) -> Response {
    match (request.uri().path(), request.method()) {
        ("/v1/check", &Method::POST) => match body::read(request.into_body(), config).await {
            Ok(body) => check::answer(app, &body).await,
            Err(refusal) => refusal.into(),
        },
        ("/v1/check", _) => wrong_method(&request, "POST"),
        ("/healthz", &Method::GET | &Method::HEAD) => plain("ok\n".to_owned()),
        ("/readyz", &Method::GET | &Method::HEAD) if app.is_draining() => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "draining: about to stop").into()
        }
        ("/readyz", &Method::GET | &Method::HEAD) => ready(app),
        ("/healthz" | "/readyz", _) => wrong_method(&request, "GET, HEAD"),
        (path, method) => {
            let plan = app.limiter().plan();
            match (path, method) {
                ("/check", &Method::GET) if plan.settings().is_rlaas() => {
                    rlaas::answer(app, &plan, request.uri().query()).await
                }
                _ => Refusal::no_such_path(path).into(),
            }
        }
    }
}

/// A file that was refused changes nothing, and a store that is away is stood in for: no reasons to
/// send nobody. They are said.
fn ready<S: Store>(app: &App<S>) -> Response {
    let mut text = "ok\n".to_owned();
    if let Some(problem) = app.reload_problem() {
        text += &format!("the last configuration was refused: {problem}\n");
    }
    if let Some(problem) = app.limiter().store_problem() {
        text += &format!("deciding without the store: {problem}\n");
    }
    plain(text)
}

fn plain(text: String) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn wrong_method(request: &Request<Incoming>, allow: &'static str) -> Response {
    let refusal = Refusal::wrong_method(request.method(), request.uri().path(), allow);
    let mut response = Response::from(refusal);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
