//! What a request says twice.

use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use tidegate_wire::{Problem, Refused};

use crate::{PROBLEM_JSON, json};

/// An attribute that a request has twice, with values that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguous {
    attribute: String,
}

impl Ambiguous {
    /// The attribute of this name.
    pub fn new(attribute: &str) -> Self {
        Self { attribute: attribute.to_owned() }
    }

    /// Its name.
    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    /// The answer to such a request: 400, with the attribute's name.
    pub fn refusal(&self) -> Response<Bytes> {
        let (status, detail) = (StatusCode::BAD_REQUEST, self.to_string());
        let problem = Problem {
            kind: Problem::BLANK,
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &detail,
            members: Refused { member: Some(&self.attribute), policies: None },
        };
        let mut response = Response::new(json(&problem));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        response
    }
}

impl fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is there twice: expected it once", self.attribute)
    }
}

impl std::error::Error for Ambiguous {}
