//! Gives each form of a request a schema with a name of its own.
//!
//! The types allow every member to be absent, and `oneOf` says which go together. Generators of clients make
//! nothing of that, or two types with one name; of a choice between two named schemas they make a union.

use serde_json::{Map, Value, json};

/// Replaces the schemas of requests that have two forms with a choice between two schemas.
pub(super) fn name_each(definitions: &mut Map<String, Value>) {
    for noun in ["Check", "Refund"] {
        let Some(request) = definitions.remove(&format!("{noun}Request")) else { continue };
        let by_policy = json!({
            "policy": { "type": "string" },
            "key": { "type": "string" },
            "attributes": { "type": "null" },
        });
        let by_attributes = json!({
            "policy": { "type": ["string", "null"] },
            "key": { "type": "null" },
            "attributes": { "$ref": "#/components/schemas/Attributes" },
        });
        let forms = [
            ("ByPolicy", by_policy, json!(["policy", "key"]), "By one policy, and a key."),
            ("ByAttributes", by_attributes, json!(["attributes"]), BY_ATTRIBUTES),
        ];
        let mut choice = Vec::new();
        for (suffix, members, required, description) in forms {
            let name = format!("{noun}{suffix}");
            choice.push(json!({ "$ref": format!("#/components/schemas/{name}") }));
            definitions.insert(name, form(&request, members, &required, description));
        }
        let request = json!({
            "description": request["description"],
            "examples": request["examples"],
            "oneOf": choice,
        });
        definitions.insert(format!("{noun}Request"), request);
    }
}

const BY_ATTRIBUTES: &str =
    "By all policies that apply to the attributes, or by the one that is named.";

/// The request's schema with these members instead of its own.
fn form(request: &Value, members: Value, required: &Value, description: &str) -> Value {
    let mut form = request.clone();
    if let (Some(properties), Value::Object(members)) =
        (form["properties"].as_object_mut(), members)
    {
        for (name, mut member) in members {
            member["description"] = request["properties"][&name]["description"].clone();
            properties.insert(name, member);
        }
        // Absent is the default. Generators would take a member that has one for required.
        for member in properties.values_mut().filter_map(Value::as_object_mut) {
            if member.get("default").is_some_and(Value::is_null) {
                member.remove("default");
            }
        }
    }
    if let Some(schema) = form.as_object_mut() {
        schema.remove("oneOf");
        schema.remove("examples");
        schema.insert("required".to_owned(), required.clone());
        schema.insert("description".to_owned(), description.into());
    }
    form
}
