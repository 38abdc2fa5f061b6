//! The JSON Schema of a configuration, for editors that complete and check as you type.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema as _, Schema, SchemaGenerator};

use crate::files::file::{ConfigFile, FileCostFields, FilePolicy, TableField, add_fields};
use crate::section::{SectionPlace, Sections};

/// Generates the schema of files with these sections. With those of all programs, it is checked in at
/// `schema/policies.schema.json`.
pub fn json_schema(sections: Sections) -> String {
    let mut generator = SchemaSettings::draft07().into_generator();
    let extend = |place, generator: &mut SchemaGenerator| -> Vec<TableField> {
        sections.iter().flat_map(|section| section.schema(place, generator)).collect()
    };
    let top = extend(SectionPlace::Top, &mut generator);
    generator.subschema_for::<FilePolicy>();
    for (place, name) in [
        (SectionPlace::Policy, FilePolicy::schema_name()),
        (SectionPlace::Cost, FileCostFields::schema_name()),
    ] {
        let fields = extend(place, &mut generator);
        let definition = generator.definitions_mut().get_mut(&*name);
        if let Some(Ok(definition)) = definition.map(<&mut Schema>::try_from) {
            add_fields(definition, fields);
        }
    }
    let mut schema = generator.into_root_schema_for::<ConfigFile>();
    add_fields(&mut schema, top);
    let mut text = format!("{:#}", schema.to_value());
    text.push('\n');
    text
}
