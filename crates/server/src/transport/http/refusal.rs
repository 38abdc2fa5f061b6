//! Refusals over HTTP: responses that say what is wrong with a request. The admin API uses them
//! too.

use std::fmt;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;
use tidegate::RequestCharges;
use tidegate_http::{PROBLEM_JSON, RequestFault};
use tidegate_wire::{ProblemDetails, RefusalMembers};

use super::HttpResponse;
use crate::transport::brief;

/// Why a request gets no decision, or why the admin API does not do what it asks for. A denial is a
/// decision, not a refusal.
#[derive(Debug)]
pub(crate) struct HttpRefusal {
    status: StatusCode,
    /// What is wrong, and what was expected.
    detail: String,
    /// The member of the body, or the attribute, at fault.
    member: Option<String>,
    /// Policies that exist, if the requested one does not.
    policies: Option<Vec<String>>,
}

impl HttpRefusal {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), member: None, policies: None }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// A 400 for an invalid request. `member` is the member at fault, if it is known.
    pub(crate) fn invalid(member: Option<&str>, detail: impl Into<String>) -> Self {
        let member = member.map(str::to_owned);
        Self { member, ..Self::new(StatusCode::BAD_REQUEST, detail) }
    }

    pub(crate) fn unknown_policy<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Self {
        let mut policies: Vec<String> = known.take(MAX_LISTED + 1).map(str::to_owned).collect();
        let more = if policies.len() > MAX_LISTED { ", ..." } else { "" };
        policies.truncate(MAX_LISTED);
        let list = policies.join(", ");
        let detail = format!("no policy is named {:?}: expected {list}{more}", brief(name));
        let member = Some("policy".to_owned());
        Self { member, policies: Some(policies), ..Self::new(StatusCode::NOT_FOUND, detail) }
    }

    /// A refusal of `key` for a policy whose key has several attributes, or none.
    pub(crate) fn not_one_key(policy: &str, key: &[&str]) -> Self {
        let attributes = if key.is_empty() { "nothing".to_owned() } else { key.join(" and ") };
        let detail = format!(
            "policy {:?} tells callers apart by {attributes}: expected attributes instead of a key",
            brief(policy)
        );
        Self::invalid(Some("key"), detail)
    }

    pub(crate) fn no_such_path(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("no path {:?}: expected {PATHS}", brief(path)))
    }

    pub(crate) fn wrong_method(method: &Method, path: &str, allow: &str) -> Self {
        let method = brief(method.as_str());
        let expected = match allow.rsplit_once(", ") {
            Some((others, last)) => format!("{others} or {last}"),
            None => allow.to_owned(),
        };
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{method} is not allowed on {path}: expected {expected}"),
        )
    }

    pub(crate) fn too_large(most: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is too large: expected at most {most} bytes"),
        )
    }

    pub(crate) fn timeout(after: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body is incomplete: expected all of it within {after:?}"),
        )
    }
}

impl HttpRefusal {
    /// The same refusal for part of a larger body: the member at fault is within `place`.
    pub(super) fn within(self, place: &str) -> Self {
        let member = match self.member {
            Some(member) => format!("{place}.{member}"),
            None => place.to_owned(),
        };
        Self { member: Some(member), ..self }
    }

    /// The body of the response.
    pub(super) fn problem(&self) -> ProblemDetails<'_, RefusalMembers<'_>> {
        let policies = self.policies.as_ref();
        ProblemDetails {
            kind: ProblemDetails::BLANK,
            title: title(self.status),
            status: self.status.as_u16(),
            detail: &self.detail,
            members: RefusalMembers {
                member: self.member.as_deref(),
                policies: policies.map(|names| names.iter().map(String::as_str).collect()),
            },
        }
    }
}

impl fmt::Display for HttpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<RequestFault> for HttpRefusal {
    fn from(fault: RequestFault) -> Self {
        let member = fault.attribute().map(str::to_owned);
        Self { member, ..Self::new(fault.status(), fault.to_string()) }
    }
}

impl From<HttpRefusal> for HttpResponse {
    fn from(refusal: HttpRefusal) -> Self {
        json(refusal.status, PROBLEM_JSON, &refusal.problem())
    }
}

/// Returns the charges, unless an attribute that determines the cost is invalid. `within` is the
/// prefix of that attribute's name in the client's request.
pub(crate) fn with_valid_cost<'p>(
    charges: RequestCharges<'p>,
    within: &str,
) -> Result<RequestCharges<'p>, HttpRefusal> {
    let Some(fault) = charges.cost_fault() else { return Ok(charges) };
    let member = format!("{within}{}", fault.attribute());
    let detail = format!("`{member}` is {:?}: expected {}", fault.value(), fault.expected());
    Err(HttpRefusal::invalid(Some(&member), detail))
}

/// The status's standard phrase.
fn title(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// A response with a JSON body. `kind` is its media type.
pub(crate) fn json(status: StatusCode, kind: &'static str, body: &impl Serialize) -> HttpResponse {
    let mut response = HttpResponse::new(tidegate_http::json(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const PATHS: &str = "/v1/check, /v1/check/batch, /v1/refund, /v1/authz, /healthz, /readyz, /metrics, \
    /openapi.json or /docs";
/// Enough to show what names look like, even if there are ten thousand policies.
const MAX_LISTED: usize = 20;
