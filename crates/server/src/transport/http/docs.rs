//! Serves the OpenAPI document, and a page that shows it.

use std::sync::LazyLock;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use tidegate::Plan;

use super::HttpResponse;
use crate::service::example_request::examples;

/// The file at a path; `None` if the path is not part of the documentation.
pub(super) fn answer(path: &str, plan: &Plan) -> Option<HttpResponse> {
    let (kind, text) = match path {
        "/docs/example.json" => ("application/json", examples(plan).into()),
        "/openapi.json" => ("application/json", OPENAPI.clone()),
        "/docs" => ("text/html; charset=utf-8", fixed(include_str!("docs/page.html"))),
        "/docs/page.css" => ("text/css; charset=utf-8", fixed(include_str!("docs/page.css"))),
        "/docs/curl.js" => ("text/javascript; charset=utf-8", fixed(include_str!("docs/curl.js"))),
        "/docs/page.js" => ("text/javascript; charset=utf-8", fixed(include_str!("docs/page.js"))),
        _ => return None,
    };
    let mut response = HttpResponse::new(text);
    let fields = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, ONLY_OURS),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

fn fixed(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Generated once: it does not change while the process runs.
static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| tidegate_wire::openapi().into());

/// The page loads nothing from other origins, and other pages cannot embed it.
const ONLY_OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
