//! The nodes of a YAML tree, with their places in the source.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A range of bytes in the source.
pub type ByteRange = Range<usize>;

/// A node of the tree: a value and its place.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// Its place.
    pub at: ByteRange,
    /// Its value.
    pub value: YamlValue,
}

/// A YAML value. Numbers and booleans stay text until a reader expects one, so that `name: 42` and
/// `name: on` are the texts that they look like.
#[derive(Clone, Debug)]
pub enum YamlValue {
    /// Nothing.
    Null,
    /// A scalar.
    Text(String),
    /// A list.
    List(Vec<YamlNode>),
    /// A mapping, in the order of the file.
    Map(Vec<YamlEntry>),
}

/// A member of a mapping: its name and its value.
#[derive(Clone, Debug)]
pub struct YamlEntry {
    /// Its name.
    pub name: SourceValue<String>,
    /// Its value.
    pub node: YamlNode,
}

impl YamlNode {
    /// The kind of value in words, for messages.
    pub const fn kind(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "nothing",
            YamlValue::Text(_) => "text",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a mapping",
        }
    }

    /// Whether there is no value.
    pub const fn is_null(&self) -> bool {
        matches!(self.value, YamlValue::Null)
    }

    /// Whether a mapping has a member that is not null.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|node| !node.is_null())
    }

    /// The value of a member of a mapping.
    pub fn get(&self, name: &str) -> Option<&Self> {
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
pub struct SourceValue<T> {
    /// Its place.
    pub at: ByteRange,
    /// The value.
    pub value: T,
}

impl<T> SourceValue<T> {
    /// A value at a place.
    pub const fn new(at: ByteRange, value: T) -> Self {
        Self { at, value }
    }

    /// Another value at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> SourceValue<U> {
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
