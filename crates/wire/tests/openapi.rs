//! The checked-in document is the one that the types describe.

#[test]
fn the_document_is_fresh() {
    let checked_in = include_str!("../../../schema/openapi.json");
    let hint = "run `cargo run -p xtask -- openapi`";
    assert!(checked_in == tidegate_wire::openapi(), "{hint}");
}
