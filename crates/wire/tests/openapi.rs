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
            assert_eq!(forms(&document, name, &body), 1, "{line}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn a_request_names_its_caller_in_exactly_one_form() {
    let document: Value = serde_json::from_str(&tidegate_wire::openapi()).unwrap();
    for name in ["CheckRequest", "RefundRequest"] {
        for (body, expected) in [
            (json!({ "policy": "two", "attributes": { "user": "a" } }), 1),
            (json!({ "policy": null, "key": null, "attributes": {} }), 1),
            (json!({ "policy": "p", "key": "k", "attributes": null }), 1),
            (json!({ "policy": "p", "key": "k", "attributes": {} }), 0),
            (json!({ "key": "k" }), 0),
            (json!({ "policy": "p" }), 0),
            (json!({}), 0),
        ] {
            assert_eq!(forms(&document, name, &body), expected, "{name} {body}");
        }
    }
}

/// The number of forms of a schema that a body matches; it should match one. Supports only the JSON
/// Schema keywords that the forms use.
fn forms(document: &Value, name: &str, body: &Value) -> usize {
    let follow = |reference: &Value| {
        document.pointer(reference.as_str().unwrap().strip_prefix('#').unwrap()).unwrap()
    };
    let fits = |schema: &Value, value: &Value| {
        let schema = if schema["$ref"].is_string() { follow(&schema["$ref"]) } else { schema };
        match &schema["type"] {
            Value::Array(kinds) => kinds.iter().any(|one| one == kind(value)),
            one => one == kind(value),
        }
    };
    let has =
        |form: &Value| {
            let properties = form["properties"].as_object().unwrap();
            form["required"]
                .as_array()
                .unwrap()
                .iter()
                .all(|name| body.get(name.as_str().unwrap()).is_some())
                && body.as_object().unwrap().iter().all(|(name, value)| {
                    properties.get(name).is_some_and(|schema| fits(schema, value))
                })
        };
    let forms = document["components"]["schemas"][name]["oneOf"].as_array().unwrap();
    forms.iter().filter(|form| has(follow(&form["$ref"]))).count()
}

/// Generators of clients stumble over these.
#[test]
fn the_document_suits_generators() {
    let document: Value = serde_json::from_str(&tidegate_wire::openapi()).unwrap();
    assert_eq!(document["servers"][0]["url"], "/");
    // A schema that is `true` is valid, and unreadable for some. An inline schema with a title gets that
    // title as its name, whoever else has it.
    look(&document, "");
    // One operation for each path: clients need no eight ways to ask for a proxy.
    for (path, methods) in document["paths"].as_object().unwrap() {
        assert_eq!(methods.as_object().unwrap().len(), 1, "{path}");
    }
}

/// Asserts for every schema what generators need.
fn look(value: &Value, at: &str) {
    match value {
        Value::Object(members) => {
            let is_titled = members.contains_key("title") && !at.ends_with("/properties");
            assert!(!is_titled || at == "/info", "{at}");
            for (name, member) in members {
                let is_schema = ["items", "schema"].contains(&&**name);
                assert!(!is_schema || member.is_object(), "{at}/{name}");
                look(member, &format!("{at}/{name}"));
            }
        }
        Value::Array(items) => {
            let is_choice = ["/anyOf", "/oneOf", "/allOf"].iter().any(|end| at.ends_with(end));
            items.iter().for_each(|item| {
                assert!(!is_choice || item.is_object(), "{at}");
                look(item, at);
            });
        }
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::String(_) => "string",
        Value::Object(_) => "object",
        Value::Number(_) => "integer",
        _ => "something else",
    }
}
