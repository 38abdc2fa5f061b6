//! Every field and choice of a file, also of the gateway's section, is documented in `docs`.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate::config::json_schema;
use tidegate_gateway::config::SECTIONS;

/// The names of all fields and choices of the schema, wherever they stand.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(fields)) = members.get("properties") {
                found.extend(fields.keys().cloned());
            }
            if let Some(Value::Array(choices)) = members.get("enum") {
                found.extend(choices.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            members.values().for_each(|member| names(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_and_choice_is_documented() {
    let schema = serde_json::from_str(&json_schema(SECTIONS)).unwrap();
    let mut found = BTreeSet::new();
    names(&schema, &mut found);
    assert!(found.contains("block_for") && found.contains("shadow"), "{found:?}");
    let documents = [
        include_str!("../../../docs/policies.md"),
        include_str!("../../../docs/gateway.md"),
        include_str!("../../../docs/http.md"),
        include_str!("../../../docs/algorithms.md"),
    ]
    .concat();
    let is_said = |name: &str| {
        let words = |c: char| !(c.is_alphanumeric() || c == '_' || c == '-');
        documents.split(words).any(|word| word == name)
    };
    let silent: Vec<_> = found.iter().filter(|name| !is_said(name)).collect();
    assert!(silent.is_empty(), "not in docs: {silent:?}");
}
