//! YAML as a tree that remembers where everything stood.
//!
//! Deserialising into types stops at the first mistake. A tree lets the reader go on, and report
//! all of them at once.

mod builder;
mod fields;
mod node;

pub(crate) use builder::parse;
pub(crate) use fields::{YamlFields, entries, one_or_many, text, unexpected};
pub(crate) use node::{ByteRange, SourceValue, YamlEntry, YamlNode, YamlValue};
