//! Files with a wrong `gateway` section or wrong fields of a policy that only a gateway reads, and the
//! messages about them.
//!
//! `TIDEGATE_BLESS=1 cargo test -p tidegate-gateway --test bad_files` rewrites the messages; read the diff
//! before you commit it.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::{Path, PathBuf};

use tidegate::Plan;
use tidegate::config::PolicySource;
use tidegate_gateway::config::SECTIONS;

fn refusal(name: &str, bytes: &[u8]) -> String {
    let source = PolicySource::from_bytes(name, bytes).map(|it| it.with_sections(SECTIONS));
    source.and_then(|source| Plan::compile(&source)).map(|_| ()).unwrap_err().to_string()
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

#[test]
fn every_mistake_in_a_gateway_is_explained() {
    assert!(files().len() >= 15);
    let mut wrong = Vec::new();
    for path in files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let said = refusal(name, &std::fs::read(&path).unwrap()) + "\n";
        let expected = path.with_extension("txt");
        if std::env::var_os("TIDEGATE_BLESS").is_some() {
            std::fs::write(&expected, &said).unwrap();
        }
        if std::fs::read_to_string(&expected).unwrap_or_default() != said {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "not as in tests/bad:\n{}", wrong.join("\n"));
}

#[test]
fn attack_15_a_mistake_in_a_gateway_does_not_show_a_secret() {
    for path in files().iter().filter(|it| it.to_string_lossy().contains("bad/secret-")) {
        let said = refusal("f", &std::fs::read(path).unwrap());
        assert!(!said.contains("hunter2"), "{said}");
    }
}
