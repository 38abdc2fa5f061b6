#![allow(clippy::unwrap_used, reason = "tests panic")]

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::*;
use crate::{PolicySource, file_choice, file_table};

file_table! {
    /// How a boat
    /// is moored.
    struct FileMooring("Mooring", "a mooring") {
        /// Its berth.
        berth: SourceValue<String> [required "the number of a berth"],
        /// Its ropes.
        ropes: Vec<SourceValue<String>> as OneOrMany<String> [wanted "at least one rope"]
            = texts("a rope"),
        /// Its tide.
        tide as "as": Option<SourceValue<TideName>>,
        /// Its length.
        length: Option<SourceValue<String>> as u8,
        /// Whether it is afloat.
        afloat: Option<SourceValue<bool>>,
        /// Boats alongside.
        alongside: Vec<FileMooring>,
    }
}

file_choice! {
    /// The state of the water.
    #[derive(Default)]
    enum TideName("tide", "Tide", "The tides.") {
        #[default]
        Ebb = "ebb",
        Flood = "flood",
    }
}

fn read(text: &str) -> (Option<FileMooring>, String) {
    let source = PolicySource::new("f", text).unwrap();
    let mut report = ProblemReport::new(&source);
    let root = crate::files::yaml::parse(&mut report).unwrap();
    let mooring = FileMooring::read(&root, &mut report);
    let problems = report.into_problems();
    let messages: Vec<_> = problems.iter().map(|problem| problem.message().to_owned()).collect();
    (mooring, messages.join("\n"))
}

#[test]
fn fields_are_read_by_their_types_and_readers() {
    let text = "{ berth: 7, ropes: bow, as: flood, length: 12, afloat: true, \
                alongside: [{ berth: 8, ropes: [bow, stern] }] }";
    let (mooring, messages) = read(text);
    assert_eq!(messages, "");
    let mooring = mooring.unwrap();
    assert_eq!((mooring.berth.value.as_str(), &text[mooring.berth.at]), ("7", "7"));
    assert_eq!(mooring.ropes.len(), 1);
    assert_eq!(mooring.tide.map(|tide| tide.value), Some(TideName::Flood));
    assert_eq!(mooring.length.map(|length| length.value).as_deref(), Some("12"));
    assert!(mooring.afloat.unwrap().value);
    assert_eq!(mooring.alongside[0].ropes.len(), 2);
}

#[test]
fn absent_and_null_fields_have_their_defaults() {
    let (mooring, messages) = read("{ berth: 7, ropes: [], as: null }");
    assert_eq!(messages, "");
    let mooring = mooring.unwrap();
    assert!(mooring.tide.is_none() && mooring.ropes.is_empty() && mooring.alongside.is_empty());
}

#[test]
fn without_a_wanted_field_there_is_a_struct_and_without_a_required_one_there_is_none() {
    let (mooring, messages) = read("{ berth: 7 }");
    assert_eq!(messages, "no \"ropes\": expected at least one rope");
    assert!(mooring.unwrap().ropes.is_empty());
    let (mooring, messages) = read("{ ropes: bow }");
    assert_eq!(messages, "no \"berth\": expected the number of a berth");
    assert!(mooring.is_none());
}

#[test]
fn one_run_reports_every_field() {
    let (_, messages) =
        read("{ berth: [], ropes: [{}], as: slack, length: {}, afloat: 1, alongside: 1, rope: 1 }");
    assert_eq!(
        messages,
        "a list: expected text\n\
         a mapping: expected a rope\n\
         unknown tide \"slack\": expected ebb, flood\n\
         a mapping: expected text\n\
         \"1\": expected true or false\n\
         \"1\": expected a list\n\
         unknown field \"rope\" (did you mean \"ropes\"?): expected berth, ropes, as, length, \
         afloat, alongside"
    );
    let (mooring, messages) = read("[]");
    let fields = FileMooring::FIELDS.join(", ");
    assert_eq!(messages, format!("a list: expected a mooring: a mapping with {fields}"));
    assert!(mooring.is_none());
}

#[test]
fn the_schema_is_made_from_the_same_table() {
    let mut generator = SchemaGenerator::default();
    let schema = FileMooring::json_schema(&mut generator).to_value();
    let names: Vec<_> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut fields = FileMooring::FIELDS.to_vec();
    fields.sort_unstable();
    assert_eq!(names, fields);
    assert_eq!(schema["description"], "How a boat\nis moored.");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["berth", "ropes"]));
    let properties = &schema["properties"];
    assert_eq!(properties["berth"], json!({ "description": "Its berth.", "type": "string" }));
    assert_eq!(properties["length"]["type"], json!(["integer", "null"]));
    assert_eq!(properties["alongside"]["items"], json!({ "$ref": "#/$defs/Mooring" }));
    let choice: &Value = &generator.definitions()["Tide"];
    let expected =
        json!({ "description": "The tides.", "type": "string", "enum": ["ebb", "flood"] });
    assert_eq!(*choice, expected);
}

#[test]
fn a_choice_has_a_name() {
    assert_eq!(TideName::ALL, [TideName::Ebb, TideName::Flood]);
    assert_eq!(TideName::default().to_string(), "ebb");
}
