//! The tree.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Bytes of the source.
pub(crate) type At = Range<usize>;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) value: Value,
}

/// What YAML can say. Numbers and booleans stay text until somebody asks for one, so that
/// `name: 42` and `name: on` mean what they look like.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A name and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Spot<String>,
    pub(crate) node: Node,
}

impl Node {
    /// In words, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The value of a member of a mapping.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().find(|entry| entry.name.value == name).map(|entry| &entry.node)
            }
            _ => None,
        }
    }
}

/// Something that was written at a certain place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot<T> {
    pub(crate) at: At,
    pub(crate) value: T,
}

impl<T> Spot<T> {
    pub(crate) const fn new(at: At, value: T) -> Self {
        Self { at, value }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Spot<U> {
        Spot { at: self.at, value: change(self.value) }
    }
}

/// To an editor, a place is invisible.
impl<T: JsonSchema> JsonSchema for Spot<T> {
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
