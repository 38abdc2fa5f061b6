//! The routes of the admin API, the scopes they require, and the login of operators.

use std::sync::Arc;

use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate::text::unescaped;
use tidegate::{SharedSettings, Store};
use tidegate_http::bearer;

use super::tokens::AdminScope;
use super::{AdminContext, actions, views};
use crate::transport::brief;
use crate::transport::http::browser::{host, is_cross_site, is_loopback_host};
use crate::transport::http::refusal::HttpRefusal;
use crate::transport::http::{HttpResponse, body, route};
use crate::{ListenerKind, StreamPeer};

/// An action of the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdminAction {
    Policies,
    Policy,
    SetMode,
    UnsetMode,
    Peek,
    Reset,
    Refund,
    Overrides,
    SetOverride,
    UnsetOverride,
    Top,
    Status,
    Config,
    Reload,
    Metrics,
}

/// A path, its method, and the smallest scope that a token must have.
#[derive(Clone, Copy, Debug)]
pub struct AdminRoute {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The path, with `{name}` for the name of a policy.
    pub path: &'static str,
    /// The smallest scope that permits it.
    pub scope: AdminScope,
    action: AdminAction,
}

const fn at(
    method: &'static str,
    path: &'static str,
    scope: AdminScope,
    action: AdminAction,
) -> AdminRoute {
    AdminRoute { method, path, scope, action }
}

/// All routes.
pub const ROUTES: &[AdminRoute] = &[
    at("GET", "/admin/v1/policies", AdminScope::Read, AdminAction::Policies),
    at("GET", "/admin/v1/policies/{name}", AdminScope::Read, AdminAction::Policy),
    at("POST", "/admin/v1/policies/{name}/mode", AdminScope::Admin, AdminAction::SetMode),
    at("DELETE", "/admin/v1/policies/{name}/mode", AdminScope::Admin, AdminAction::UnsetMode),
    at("POST", "/admin/v1/peek", AdminScope::Read, AdminAction::Peek),
    at("POST", "/admin/v1/reset", AdminScope::Write, AdminAction::Reset),
    at("POST", "/admin/v1/refund", AdminScope::Write, AdminAction::Refund),
    at("GET", "/admin/v1/overrides", AdminScope::Read, AdminAction::Overrides),
    at("POST", "/admin/v1/overrides", AdminScope::Write, AdminAction::SetOverride),
    at("DELETE", "/admin/v1/overrides", AdminScope::Write, AdminAction::UnsetOverride),
    at("GET", "/admin/v1/top", AdminScope::Read, AdminAction::Top),
    at("GET", "/admin/v1/status", AdminScope::Read, AdminAction::Status),
    at("GET", "/admin/v1/config", AdminScope::Read, AdminAction::Config),
    at("POST", "/admin/v1/reload", AdminScope::Admin, AdminAction::Reload),
    at("GET", "/metrics", AdminScope::Read, AdminAction::Metrics),
];

/// Answers a request.
pub(super) async fn answer<S: Store + SharedSettings + 'static>(
    admin: &AdminContext<S>,
    peer: &StreamPeer,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    // The body is read even if the request is then refused: some HTTP/2 clients lose an answer that
    // arrives while they still send.
    let body = match body::read(body, &admin.config).await {
        Ok(body) => body,
        Err(refusal) => return refusal.into(),
    };
    let (scope, who) = match login(admin, peer, &head) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    let (route, name) = match find(head.uri.path(), &head.method) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    if scope < route.scope {
        let (has, needs) = (scope.name(), route.scope.name());
        let detail = format!("this token has scope {has}: expected scope {needs}");
        return HttpRefusal::new(StatusCode::FORBIDDEN, detail).into();
    }
    if let Some(refusal) = refuse_browser_page(route, &head) {
        return refusal.into();
    }
    let caller =
        actions::AdminCaller { app: Arc::clone(&admin.app), scope, who, from: peer.address };
    let outcome = match route.action {
        AdminAction::Policies => Ok(views::policies(&admin.app)),
        AdminAction::Policy => views::policy(&admin.app, &name),
        AdminAction::Peek => views::peek(&admin.app, &body).await,
        AdminAction::Overrides => Ok(views::overrides(&admin.app)),
        AdminAction::Top => Ok(views::top(&admin.app)),
        AdminAction::Status => Ok(views::status(&admin.app).await),
        AdminAction::Config => Ok(views::config(&admin.app, &admin.admin)),
        AdminAction::Metrics => Ok(route::metrics_response(admin.app.metrics_page().await)),
        AdminAction::SetMode => caller.set_mode(&name, &body).await,
        AdminAction::UnsetMode => caller.unset_mode(&name).await,
        AdminAction::Reset => caller.reset(&body).await,
        AdminAction::Refund => caller.refund(&body).await,
        AdminAction::SetOverride => caller.set_override(&body).await,
        AdminAction::UnsetOverride => caller.unset_override(&body).await,
        AdminAction::Reload => caller.reload(&admin.admin).await,
    };
    outcome.unwrap_or_else(HttpResponse::from)
}

/// Refuses a change that a web page may have sent from an operator's browser, with the operator's
/// certificate or address but without their intent.
fn refuse_browser_page(route: &AdminRoute, head: &Parts) -> Option<HttpRefusal> {
    if route.method == "GET" {
        return None;
    }
    if is_cross_site(&head.headers, host(&head.uri, &head.headers)) {
        let detail = "a page of another site sent this request: expected no Origin and no \
                      Sec-Fetch-Site, or those of this server";
        return Some(HttpRefusal::new(StatusCode::FORBIDDEN, detail));
    }
    if !is_json(&head.headers) {
        let detail = "a change requires Content-Type: application/json, which a page in a browser \
                      cannot send";
        return Some(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    None
}

/// The scope and name of the caller. Checked first, so that a stranger does not learn which routes exist.
fn login<S: Store>(
    admin: &AdminContext<S>,
    peer: &StreamPeer,
    head: &Parts,
) -> Result<(AdminScope, String), Box<HttpResponse>> {
    let host = host(&head.uri, &head.headers);
    if admin.admin.trusts_the_machine() && !host.is_none_or(is_loopback_host) {
        let detail = "without a token, Host must name this machine: expected Host: localhost, or a \
                      loopback address";
        return Err(Box::new(HttpRefusal::new(StatusCode::FORBIDDEN, detail).into()));
    }
    let given = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let token = given.and_then(|given| bearer(given).ok().flatten());
    let logins = admin.app.logins();
    if let Some(wait) = token.and_then(|_| logins.wait(ListenerKind::Admin, peer.address)) {
        let detail = "too many wrong tokens from this address: retry later";
        let mut response =
            HttpResponse::from(HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, detail));
        let seconds = wait.as_secs().saturating_add(1);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
        return Err(Box::new(response));
    }
    admin.admin.find(token, peer).ok_or_else(|| {
        let detail = match token {
            None => "no token: expected Authorization: Bearer TOKEN",
            Some(_) => {
                logins.record_failure(ListenerKind::Admin, peer.address);
                "unknown token: expected one of those that this server was started with"
            }
        };
        let mut response = HttpResponse::from(HttpRefusal::new(StatusCode::UNAUTHORIZED, detail));
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Box::new(response)
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The route of a path, and the name in it.
fn find(path: &str, method: &Method) -> Result<(&'static AdminRoute, String), Box<HttpResponse>> {
    let found = ROUTES.iter().filter_map(|route| Some((route, name_in(path, route.path)?)));
    let found: Vec<_> = found.collect();
    if let Some((route, name)) = found.iter().find(|(route, _)| *route.method == *method.as_str()) {
        return Ok((route, name.clone()));
    }
    let methods: Vec<_> = found.iter().map(|(route, _)| route.method).collect();
    let allow = methods.join(", ");
    let Ok(field) = HeaderValue::from_str(&allow) else {
        return Err(Box::new(no_such_path(path)));
    };
    if methods.is_empty() {
        return Err(Box::new(no_such_path(path)));
    }
    let mut response = HttpResponse::from(HttpRefusal::wrong_method(method, &brief(path), &allow));
    response.headers_mut().insert(ALLOW, field);
    Err(Box::new(response))
}

fn no_such_path(path: &str) -> HttpResponse {
    let mut known: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
    known.dedup();
    let detail = format!("no path {:?}: expected {}", brief(path), known.join(", "));
    HttpRefusal::new(StatusCode::NOT_FOUND, detail).into()
}

/// The name in place of `{name}`, if a path has this form; empty if the form has no name.
fn name_in(path: &str, form: &str) -> Option<String> {
    let (mut path, mut form) = (path.split('/'), form.split('/'));
    let mut name = String::new();
    loop {
        match (path.next(), form.next()) {
            (None, None) => return Some(name),
            (Some(part), Some("{name}")) if !part.is_empty() => name = decoded(part)?,
            (Some(part), Some(expected)) if part == expected => {}
            _ => return None,
        }
    }
}

/// Decodes percent-encoding; `None` if the result is not UTF-8.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match (byte, tail) {
            (b'%', [_, _, ..]) => unescaped(rest)?,
            _ => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_decoded() {
        let form = "/admin/v1/policies/{name}";
        for (path, name) in [
            ("/admin/v1/policies/demo", Some("demo")),
            ("/admin/v1/policies/a%2Fb%20c", Some("a/b c")),
            ("/admin/v1/policies/100%", Some("100%")),
            ("/admin/v1/policies/%zz", None),
            ("/admin/v1/policies/%ff", None),
            ("/admin/v1/policies/", None),
            ("/admin/v1/policies", None),
            ("/admin/v1/policies/a/b", None),
        ] {
            assert_eq!(name_in(path, form).as_deref(), name, "{path}");
        }
    }
}
