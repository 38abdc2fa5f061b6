//! The faults for which a request is refused before any decision.

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use tidegate_wire::{ProblemDetails, RefusalMembers};

use crate::{PROBLEM_JSON, json};

/// A fault of a request, or a part that can be read in two ways.
///
/// Tidegate would count an ambiguous request by one reading, and the service might serve it by the other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFault {
    /// An attribute occurs twice: its name.
    Twice(String),
    /// A method that is not in upper case, or not a method.
    Method(String),
    /// A method that this listener does not serve.
    Unserved(String),
    /// The request has no host.
    NoHost,
    /// The target and the `Host` field name two hosts.
    TwoHosts,
    /// A text that is not a host.
    Host(String),
    /// What is wrong with the path.
    Path(&'static str),
    /// What is wrong with the query.
    Query(&'static str),
    /// A parameter, by its attribute's name, and what is wrong with it.
    Parameter(String, &'static str),
    /// A cookie, by its attribute's name, and what is wrong with it.
    Cookie(String, &'static str),
    /// A field with a value that services read in two ways: its attribute's name.
    Field(String),
    /// A field that some services treat as another one: the attribute's name, and the field's.
    Spelling(String, String),
    /// `Authorization: Bearer` without exactly one token after it.
    Bearer,
    /// An `Authorization` of another scheme, where only bearer tokens are allowed.
    Scheme,
    /// A field that `Connection` must not name.
    Connection(String),
    /// A length that is not one number.
    Length,
}

impl RequestFault {
    /// An attribute that occurs twice.
    pub fn twice(attribute: &str) -> Self {
        Self::Twice(attribute.to_owned())
    }

    /// The attribute at fault, if it is one.
    pub fn attribute(&self) -> Option<&str> {
        match self {
            Self::Twice(name)
            | Self::Parameter(name, _)
            | Self::Cookie(name, _)
            | Self::Field(name)
            | Self::Spelling(name, _) => Some(name),
            Self::Method(_) | Self::Unserved(_) => Some("method"),
            Self::NoHost | Self::TwoHosts | Self::Host(_) => Some("host"),
            Self::Path(_) => Some("path"),
            Self::Query(_) | Self::Bearer | Self::Scheme | Self::Connection(_) | Self::Length => {
                None
            }
        }
    }

    /// The status of the response: 401 for credentials, 405 for a method that is not served, 400 otherwise.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Bearer | Self::Scheme => StatusCode::UNAUTHORIZED,
            Self::Unserved(_) => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The response to such a request, with the attribute's name.
    pub fn refusal(&self) -> Response<Bytes> {
        let (status, detail) = (self.status(), self.to_string());
        let problem = ProblemDetails {
            kind: ProblemDetails::BLANK,
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &detail,
            members: RefusalMembers { member: self.attribute(), policies: None },
        };
        let mut response = Response::new(json(&problem));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => write!(f, "{name} occurs twice: expected once"),
            Self::Method(text) => {
                write!(f, "the method is {}: expected one in upper case", shown(text))
            }
            Self::Unserved(text) => write!(f, "{} is not served here", shown(text)),
            Self::NoHost => f.write_str("the request has no host: expected one"),
            Self::TwoHosts => f.write_str("the request has two hosts: expected one"),
            Self::Host(text) => {
                write!(f, "the host is {}: expected a name or an address", shown(text))
            }
            Self::Path(why) => write!(f, "the path {why}"),
            Self::Query(why) => write!(f, "the query {why}"),
            Self::Parameter(name, why) | Self::Cookie(name, why) => write!(f, "{name} {why}"),
            Self::Field(name) => {
                write!(f, "{name} has characters that services read in two ways: expected ASCII")
            }
            Self::Spelling(name, found) => {
                write!(f, "the request has a field {}: expected only {name}", shown(found))
            }
            Self::Bearer => f.write_str("Authorization: expected one token after Bearer"),
            Self::Scheme => f.write_str("Authorization: expected a bearer token"),
            Self::Connection(name) => {
                write!(
                    f,
                    "Connection names {}: expected only close, keep-alive or upgrade",
                    shown(name)
                )
            }
            Self::Length => f.write_str("the length is unclear: expected one number"),
        }
    }
}

impl std::error::Error for RequestFault {}

/// The beginning of a client's text, enough to recognize it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(BRIEF) {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

const BRIEF: usize = 64;
