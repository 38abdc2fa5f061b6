//! Why a request is refused before anything is decided about it.

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use tidegate_wire::{ProblemDetails, RefusalMembers};

use crate::{PROBLEM_JSON, json};

/// What is wrong with a request, or can be read in two ways.
///
/// We would count it by one reading, and the service might serve it by the other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFault {
    /// An attribute is there twice: its name.
    Twice(String),
    /// A method that is not in upper case, or not a method.
    Method(String),
    /// A method that this listener does not serve.
    Unserved(String),
    /// There is no host.
    NoHost,
    /// The target and the `Host` field name two hosts.
    TwoHosts,
    /// What is not a host.
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
    /// A field that some services take for another one: that one, and this one.
    Spelling(String, String),
    /// `Authorization: Bearer` without exactly one token behind it.
    Bearer,
    /// An `Authorization` of another scheme, where only bearer tokens are allowed.
    Scheme,
    /// A field that `Connection` must not name.
    Connection(String),
    /// A length that is not one number.
    Length,
}

impl RequestFault {
    /// An attribute that is there twice.
    pub fn twice(attribute: &str) -> Self {
        Self::Twice(attribute.to_owned())
    }

    /// The attribute that is at fault, if it is one.
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

    /// What to answer with: 400, 401 for credentials, 405 for a method that is not served.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Bearer | Self::Scheme => StatusCode::UNAUTHORIZED,
            Self::Unserved(_) => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The answer to such a request, with the attribute's name.
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
            Self::Twice(name) => write!(f, "{name} is there twice: expected it once"),
            Self::Method(text) => {
                write!(f, "the method is {}: expected one in upper case", shown(text))
            }
            Self::Unserved(text) => write!(f, "{} is not served here", shown(text)),
            Self::NoHost => f.write_str("there is no host: expected one"),
            Self::TwoHosts => f.write_str("there are two hosts: expected one"),
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
                write!(f, "there is a field {}: expected it only as {name}", shown(found))
            }
            Self::Bearer => f.write_str("Authorization: expected one token behind Bearer"),
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

/// Enough of a client's text to recognise it by.
fn shown(text: &str) -> String {
    match text.char_indices().nth(BRIEF) {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

const BRIEF: usize = 64;
