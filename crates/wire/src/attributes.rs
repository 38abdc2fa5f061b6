//! The attributes of a request, exactly as its JSON body lists them.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::JsonText;

/// Attribute names with their values, in order. Duplicates are kept so that they can be refused: a
/// map would silently drop one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonAttributes<'a>(pub Vec<(JsonText<'a>, Option<JsonText<'a>>)>);

impl JsonAttributes<'_> {
    /// The most attributes that a request may have.
    pub const MAX: usize = 256;

    /// Whether a text is a valid attribute name: not empty, and without control characters.
    pub fn is_name(text: &str) -> bool {
        !text.is_empty() && !text.contains(char::is_control)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonAttributes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AttributeVisitor).map(Self)
    }
}

struct AttributeVisitor;

impl<'de> Visitor<'de> for AttributeVisitor {
    type Value = Vec<(JsonText<'de>, Option<JsonText<'de>>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object whose values are strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(4);
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

impl JsonSchema for JsonAttributes<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Attributes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Names and values. Null is the same as absent; a name that occurs twice \
                is refused.",
            "propertyNames": { "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$" },
            "additionalProperties": { "type": ["string", "null"] },
            "maxProperties": Self::MAX,
            "examples": [{ "user": "42", "path": "/api/x", "method": "GET", "ip": "203.0.113.9" }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_twice_stays_there_twice() {
        let JsonAttributes(pairs) =
            serde_json::from_str(r#"{"a": "1", "b": null, "a": "2"}"#).unwrap();
        let names: Vec<&str> = pairs.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "b", "a"]);
    }

    #[test]
    fn names_can_be_seen() {
        for (name, good) in
            [("user", true), ("header:x", true), ("é", true), ("", false), ("a\0", false)]
        {
            assert_eq!(JsonAttributes::is_name(name), good, "{name:?}");
        }
    }
}
