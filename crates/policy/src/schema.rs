//! The JSON Schema of a configuration, for editors that complete and check as you type.

use schemars::generate::SchemaSettings;

use crate::file::ConfigFile;

/// Generates the schema that is checked in at `schema/policies.schema.json`.
pub fn json_schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ConfigFile>();
    let mut text = format!("{:#}", schema.to_value());
    text.push('\n');
    text
}
