//! The nodes of a YAML tree, with their places in the source.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A range of bytes in the source.
pub(crate) type ByteRange = Range<usize>;

/// A node of the tree: a value and its place.
#[derive(Clone, Debug)]
pub(crate) struct YamlNode {
    pub(crate) at: ByteRange,
    pub(crate) value: YamlValue,
}

/// A YAML value. Numbers and booleans stay text until a reader expects one, so that `name: 42` and
/// `name: on` are the texts that they look like.
#[derive(Clone, Debug)]
pub(crate) enum YamlValue {
    Null,
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

/// A member of a mapping: its name and its value.
#[derive(Clone, Debug)]
pub(crate) struct YamlEntry {
    pub(crate) name: SourceValue<String>,
    pub(crate) node: YamlNode,
}

impl YamlNode {
    /// The kind of value in words, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "nothing",
            YamlValue::Text(_) => "text",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a mapping",
        }
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self.value, YamlValue::Null)
    }

    /// The value of a member of a mapping.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            YamlValue::Map(entries) => {
                entries.iter().find(|entry| entry.name.value == name).map(|entry| &entry.node)
            }
            _ => None,
        }
    }
}

/// A value together with its place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceValue<T> {
    pub(crate) at: ByteRange,
    pub(crate) value: T,
}

impl<T> SourceValue<T> {
    pub(crate) const fn new(at: ByteRange, value: T) -> Self {
        Self { at, value }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> SourceValue<U> {
        SourceValue { at: self.at, value: change(self.value) }
    }
}

/// The schema is that of the value alone.
impl<T: JsonSchema> JsonSchema for SourceValue<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}
