//! Paths, methods, and who may use them.

use std::sync::Arc;

use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate::{Board, Store};
use tidegate_http::bearer;

use super::access::Scope;
use super::{Admin, actions, views};
use crate::transport::http::problem::{Refusal, brief};
use crate::transport::http::{Response, body, route};

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
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
pub struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// With `{name}` for the name of a policy.
    pub path: &'static str,
    /// The smallest scope that permits it.
    pub scope: Scope,
    action: Action,
}

const fn at(method: &'static str, path: &'static str, scope: Scope, action: Action) -> Route {
    Route { method, path, scope, action }
}

/// All routes.
pub const ROUTES: &[Route] = &[
    at("GET", "/admin/v1/policies", Scope::Read, Action::Policies),
    at("GET", "/admin/v1/policies/{name}", Scope::Read, Action::Policy),
    at("POST", "/admin/v1/policies/{name}/mode", Scope::Admin, Action::SetMode),
    at("DELETE", "/admin/v1/policies/{name}/mode", Scope::Admin, Action::UnsetMode),
    at("POST", "/admin/v1/peek", Scope::Read, Action::Peek),
    at("POST", "/admin/v1/reset", Scope::Write, Action::Reset),
    at("POST", "/admin/v1/refund", Scope::Write, Action::Refund),
    at("GET", "/admin/v1/overrides", Scope::Read, Action::Overrides),
    at("POST", "/admin/v1/overrides", Scope::Write, Action::SetOverride),
    at("DELETE", "/admin/v1/overrides", Scope::Write, Action::UnsetOverride),
    at("GET", "/admin/v1/top", Scope::Read, Action::Top),
    at("GET", "/admin/v1/status", Scope::Read, Action::Status),
    at("GET", "/admin/v1/config", Scope::Read, Action::Config),
    at("POST", "/admin/v1/reload", Scope::Admin, Action::Reload),
    at("GET", "/metrics", Scope::Read, Action::Metrics),
];

/// Every request is answered, whatever it is.
pub(super) async fn answer<S: Store + Board + 'static>(
    admin: &Admin<S>,
    request: Request<Incoming>,
) -> Response {
    let (head, body) = request.into_parts();
    // Whoever is refused has been heard out: an answer that comes over HTTP/2 while a client still
    // sends is lost on some of them.
    let body = match body::read(body, &admin.config).await {
        Ok(body) => body,
        Err(refusal) => return refusal.into(),
    };
    let scope = match scope_of(admin, &head) {
        Ok(scope) => scope,
        Err(response) => return *response,
    };
    let (route, name) = match find(head.uri.path(), &head.method) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    if scope < route.scope {
        let (has, needs) = (scope.name(), route.scope.name());
        let detail = format!("this token is good for {has}: expected one for {needs}");
        return Refusal::new(StatusCode::FORBIDDEN, detail).into();
    }
    if route.method != "GET" && !is_json(&head.headers) && admin.admin.trusts_the_machine() {
        let detail = "without a token only application/json is taken: a page in a browser cannot \
                      send it";
        return Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into();
    }
    let caller = actions::Caller { app: Arc::clone(&admin.app), scope };
    let outcome = match route.action {
        Action::Policies => Ok(views::policies(&admin.app)),
        Action::Policy => views::policy(&admin.app, &name),
        Action::Peek => views::peek(&admin.app, &body).await,
        Action::Overrides => Ok(views::overrides(&admin.app)),
        Action::Top => Ok(views::top(&admin.app)),
        Action::Status => Ok(views::status(&admin.app).await),
        Action::Config => Ok(views::config(&admin.app, &admin.admin)),
        Action::Metrics => Ok(route::metrics(admin.app.metrics_page().await)),
        Action::SetMode => caller.set_mode(&name, &body).await,
        Action::UnsetMode => caller.unset_mode(&name).await,
        Action::Reset => caller.reset(&body).await,
        Action::Refund => caller.refund(&body).await,
        Action::SetOverride => caller.set_override(&body).await,
        Action::UnsetOverride => caller.unset_override(&body).await,
        Action::Reload => caller.reload(&admin.admin).await,
    };
    outcome.unwrap_or_else(Response::from)
}

/// What the caller may do, before anything is said about what exists.
fn scope_of<S>(admin: &Admin<S>, head: &Parts) -> Result<Scope, Box<Response>> {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    // In HTTP/2 it comes with the path.
    let host = head.uri.authority().map(Authority::as_str).or(host);
    if admin.admin.trusts_the_machine() && !host.is_none_or(is_of_the_machine) {
        let detail = "without a token only names of this machine are answered: expected \
                      Host: localhost, or a loopback address";
        return Err(Box::new(Refusal::new(StatusCode::FORBIDDEN, detail).into()));
    }
    let given = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let token = given.and_then(|given| bearer(given).ok().flatten());
    admin.admin.scope_of(token).ok_or_else(|| {
        let detail = match token {
            None => "no token: expected Authorization: Bearer TOKEN",
            Some(_) => "this token is not known",
        };
        let mut response = Response::from(Refusal::new(StatusCode::UNAUTHORIZED, detail));
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Box::new(response)
    })
}

/// A name that an attacker's DNS points at us is not ours: a browser would send it along.
fn is_of_the_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The route of a path, and the name in it.
fn find(path: &str, method: &Method) -> Result<(&'static Route, String), Box<Response>> {
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
    let mut response = Response::from(Refusal::wrong_method(method, &brief(path), &allow));
    response.headers_mut().insert(ALLOW, field);
    Err(Box::new(response))
}

fn no_such_path(path: &str) -> Response {
    let mut known: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
    known.dedup();
    let detail = format!("no path {:?}: expected {}", brief(path), known.join(", "));
    Refusal::new(StatusCode::NOT_FOUND, detail).into()
}

/// What stands in place of `{name}`, if a path has this form; empty if the form has no name.
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

/// Without its percent-encoding; `None` if that is not text.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = match (byte, tail) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |digit: u8| char::from(digit).to_digit(16);
                bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                after
            }
            _ => {
                bytes.push(*byte);
                tail
            }
        };
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

    #[test]
    fn only_names_of_the_machine_are_of_the_machine() {
        for (host, expected) in [
            ("localhost:9090", true),
            ("127.0.0.1", true),
            ("127.8.8.8:1", true),
            ("[::1]:9090", true),
            ("attacker.example:9090", false),
            ("127.0.0.1.attacker.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_of_the_machine(host), expected, "{host}");
        }
    }
}
