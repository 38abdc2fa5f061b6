//! The checked-in JSON Schema, with the sections of all programs, is up to date with the types.

use tidegate::config::json_schema;
use tidegate_gateway::config::SECTIONS;

#[test]
fn the_schema_is_fresh() {
    let checked_in = include_str!("../../../schema/policies.schema.json");
    let hint = "run `cargo run -p xtask -- schema`";
    assert!(checked_in == json_schema(SECTIONS), "{hint}");
}
