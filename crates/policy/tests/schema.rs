//! The checked-in JSON Schema is up to date with the types.

#[test]
fn the_schema_is_fresh() {
    let checked_in = include_str!("../../../schema/policies.schema.json");
    let hint = "run `cargo run -p xtask -- schema`";
    assert!(checked_in == tidegate_policy::json_schema(), "{hint}");
}
