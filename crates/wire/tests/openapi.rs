//! The checked-in OpenAPI document is up to date, and allows the examples of the documentation.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use serde_json::{Value, json};

#[test]
fn the_document_is_fresh() {
    let checked_in = include_str!("../../../schema/openapi.json");
    let hint = "run `cargo run -p xtask -- openapi`";
    assert!(checked_in == tidegate_wire::openapi(), "{hint}");
}

/// People copy the bodies in README and docs, so the document must allow them.
#[test]
fn the_document_allows_what_the_documents_show() {
    let shown =
        [include_str!("../../../README.md"), include_str!("../../../docs/http.md")].concat();
    let document: Value = serde_json::from_str(&tidegate_wire::openapi()).unwrap();
    let mut seen = 0;
    for line in shown.lines().filter(|line| line.contains("/v1/")) {
        let Some(body) = line.split('\'').nth(1).filter(|body| body.starts_with('{')) else {
            continue;
        };
        let body: Value = serde_json::from_str(body).unwrap();
        let (bodies, name) = match body["checks"].as_array() {
            Some(checks) => (checks.clone(), "CheckRequest"),
            None if line.contains("/v1/refund") => (vec![body], "RefundRequest"),
            None => (vec![body], "CheckRequest"),
        };
        for body in bodies {
            assert_eq!(forms(&document["components"]["schemas"][name], &body), 1, "{line}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn a_request_names_its_caller_in_exactly_one_form() {
    let document: Value = serde_json::from_str(&tidegate_wire::openapi()).unwrap();
    for name in ["CheckRequest", "RefundRequest"] {
        let schema = &document["components"]["schemas"][name];
        for (body, expected) in [
            (json!({ "policy": "two", "attributes": { "user": "a" } }), 1),
            (json!({ "policy": null, "key": null, "attributes": {} }), 1),
            (json!({ "policy": "p", "key": "k", "attributes": null }), 1),
            (json!({ "policy": "p", "key": "k", "attributes": {} }), 0),
            (json!({ "key": "k" }), 0),
            (json!({ "policy": "p" }), 0),
            (json!({}), 0),
        ] {
            assert_eq!(forms(schema, &body), expected, "{name} {body}");
        }
    }
}

/// The number of forms of a schema that a body matches; it should match one. Supports only the JSON
/// Schema keywords that the forms use.
fn forms(schema: &Value, body: &Value) -> usize {
    let has = |form: &Value| {
        let mut required = form["required"].as_array().unwrap().iter();
        let mut properties = form["properties"].as_object().unwrap().iter();
        required.all(|name| body.get(name.as_str().unwrap()).is_some())
            && properties
                .all(|(name, one)| body.get(name).is_none_or(|value| one["type"] == kind(value)))
    };
    schema["oneOf"].as_array().unwrap().iter().filter(|form| has(form)).count()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::String(_) => "string",
        Value::Object(_) => "object",
        _ => "something else",
    }
}
