//! Files with a wrong `gateway` section or wrong fields of a policy that only a gateway reads, and the
//! messages about them.
//!
//! `TIDEGATE_BLESS=1 cargo test -p tidegate-gateway --test bad_files` rewrites the messages; read the diff
//! before you commit it.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use tidegate::Plan;
use tidegate::config::PolicySource;
use tidegate_gateway::config::SECTIONS;
use tidegate_testkit::RefusedFiles;

fn refusal(name: &str, bytes: &[u8]) -> String {
    let source = PolicySource::from_bytes(name, bytes).map(|it| it.with_sections(SECTIONS));
    source.and_then(|source| Plan::compile(&source)).map(|_| ()).unwrap_err().to_string()
}

fn files() -> RefusedFiles {
    RefusedFiles::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad"), 15)
}

#[test]
fn every_mistake_in_a_gateway_is_explained() {
    files().assert_messages(refusal);
}

#[test]
fn attack_15_a_mistake_in_a_gateway_does_not_show_a_secret() {
    for bytes in files().with_prefix("secret-") {
        let said = refusal("f", &bytes);
        assert!(!said.contains("hunter2"), "{said}");
    }
}
