//! Generates the OpenAPI document: every path of the HTTP listener, with the types of this crate.

mod forms;
mod paths;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The document, OpenAPI 3.1 as JSON: what `/openapi.json` returns, and what is checked in as
/// `schema/openapi.json`.
///
/// ```
/// let document: serde_json::Value = serde_json::from_str(&tidegate_wire::openapi())?;
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/v1/check"]["post"].is_object());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn openapi() -> String {
    let mut schemas = OpenapiSchemas::new();
    let paths = paths::all(&mut schemas);
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            "description": "Rate limiting as a service: may this happen now?",
        },
        "servers": [{ "url": "/", "description": "The server that this document comes from." }],
        "tags": [
            { "name": "decisions", "description": "What applications call." },
            { "name": "proxies", "description": "What proxies call." },
            { "name": "health", "description": "What operators and monitors call." },
        ],
        "paths": paths,
        "components": {
            "headers": headers(),
            "schemas": schemas.into_definitions(),
        },
    });
    format!("{document:#}\n")
}

/// Two schema generators, one for requests and one for responses: a response always has all its
/// members, a request need not.
struct OpenapiSchemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl OpenapiSchemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            read: settings.clone().for_deserialize().into_generator(),
            written: settings.for_serialize().into_generator(),
        }
    }

    /// A reference to the schema of a request body.
    fn read<T: JsonSchema>(&mut self) -> Schema {
        self.read.subschema_for::<T>()
    }

    /// A reference to the schema of a response body.
    fn written<T: JsonSchema>(&mut self) -> Schema {
        self.written.subschema_for::<T>()
    }

    fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.read.take_definitions(true);
        definitions.extend(self.written.take_definitions(true));
        forms::name_each(&mut definitions);
        definitions
    }
}

fn headers() -> Value {
    let header = |kind: &str, description: &str| {
        json!({
            "description": description,
            "schema": { "type": kind },
        })
    };
    json!({
        "RateLimit-Policy": header("string", "The tightest limit: `\"name\";q=quota;w=seconds`."),
        "RateLimit": header("string", "The state of the tightest limit: `\"name\";r=remaining;t=seconds`."),
        "Retry-After": header("integer", "Seconds, rounded up. Absent if waiting does not help."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reference in a document, wherever it is.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn references_lead_somewhere() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn answers_have_all_their_members() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        for name in ["CheckResponse", "LimitStatus"] {
            let schema = &document["components"]["schemas"][name];
            let members = schema["properties"].as_object().unwrap().len();
            assert_eq!(schema["required"].as_array().unwrap().len(), members, "{name}");
        }
    }

    #[test]
    fn no_two_operations_share_a_name() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|path| path.as_object().unwrap().values());
        let mut names: Vec<_> =
            operations.map(|one| one["operationId"].as_str().unwrap()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
