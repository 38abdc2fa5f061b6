//! The parts of the JSON Schema that tables do not derive.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::FileChoice;

/// A field of a table, as editors see it.
#[derive(Debug)]
pub struct TableField {
    /// Its name.
    pub name: &'static str,
    /// The lines of its comment.
    pub about: &'static [&'static str],
    /// Whether a file without it is wrong.
    pub is_needed: bool,
    /// The schema of its values.
    pub schema: Schema,
}

/// The schema of a mapping that has these fields and no others.
pub fn table_schema(
    about: &'static [&'static str],
    fields: impl IntoIterator<Item = TableField>,
) -> Schema {
    let mut schema = schemars::json_schema!({
        "type": "object",
        "properties": {},
        "additionalProperties": false,
    });
    describe(&mut schema, about);
    add_fields(&mut schema, fields);
    schema
}

/// Adds fields to the schema of a mapping.
pub(crate) fn add_fields(schema: &mut Schema, fields: impl IntoIterator<Item = TableField>) {
    for mut field in fields {
        describe(&mut field.schema, field.about);
        if let Some(properties) = schema.get_mut("properties").and_then(|it| it.as_object_mut()) {
            properties.insert(field.name.to_owned(), field.schema.to_value());
        }
        if !field.is_needed {
            continue;
        }
        match schema.get_mut("required").and_then(|it| it.as_array_mut()) {
            Some(names) => names.push(field.name.into()),
            None => drop(schema.insert("required".to_owned(), vec![field.name].into())),
        }
    }
}

/// Adds the text of a comment, line by line.
fn describe(schema: &mut Schema, lines: &[&str]) {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        schema.insert("description".to_owned(), text.into());
    }
}

/// The name of a variant.
#[derive(Debug)]
pub struct OneOf<C>(PhantomData<C>);

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

/// One value, or a list of them.
#[derive(Debug)]
pub struct OneOrMany<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMany".into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("OneOrMany<{}>", T::schema_id()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (one, many) = (generator.subschema_for::<T>(), generator.subschema_for::<Vec<T>>());
        let about = "One text, or a list of them.";
        schemars::json_schema!({ "description": about, "anyOf": [one, many] })
    }
}

/// Text, or a value that YAML reads as a number or a boolean.
#[derive(Debug)]
pub struct YamlScalar(());

impl JsonSchema for YamlScalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "Text, or a value that YAML reads as a number or a boolean.",
            "anyOf": [
                { "type": "string" },
                { "type": "integer", "format": "int64" },
                { "type": "boolean" },
            ],
        })
    }
}
