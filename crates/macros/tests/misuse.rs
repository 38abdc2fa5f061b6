//! Compile errors point at the mistake.

#[test]
fn errors_point_at_the_token() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
