//! The parts of the JSON Schema that tables do not derive.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::FileChoice;

/// A field of a table, as editors see it.
pub(crate) struct TableField {
    pub(crate) name: &'static str,
    /// The lines of its comment.
    pub(crate) about: &'static [&'static str],
    pub(crate) is_needed: bool,
    pub(crate) schema: Schema,
}

/// The schema of a mapping that has these fields and no others.
pub(crate) fn table_schema(
    about: &'static [&'static str],
    fields: impl IntoIterator<Item = TableField>,
) -> Schema {
    let (mut properties, mut needed) = (Schema::default(), Vec::new());
    for mut field in fields {
        describe(&mut field.schema, field.about);
        properties.insert(field.name.to_owned(), field.schema.to_value());
        needed.extend(field.is_needed.then_some(field.name));
    }
    let mut schema = schemars::json_schema!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    describe(&mut schema, about);
    if !needed.is_empty() {
        schema.insert("required".to_owned(), needed.into());
    }
    schema
}

/// Adds the text of a comment, line by line.
fn describe(schema: &mut Schema, lines: &[&str]) {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        schema.insert("description".to_owned(), text.into());
    }
}

/// The name of a variant.
pub(crate) struct OneOf<C>(PhantomData<C>);

impl<C: FileChoice> JsonSchema for OneOf<C> {
    fn schema_name() -> Cow<'static, str> {
        C::SCHEMA.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = C::ALL.iter().map(|choice| choice.name()).collect();
        let mut schema = schemars::json_schema!({ "type": "string", "enum": names });
        describe(&mut schema, &[&C::about()]);
        schema
    }
}

/// One text, or a list of them.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// Text, or a value that YAML reads as a number or a boolean.
#[derive(JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
#[schemars(rename = "Scalar")]
pub(crate) enum YamlScalar {
    Text(String),
    Number(i64),
    Truth(bool),
}
