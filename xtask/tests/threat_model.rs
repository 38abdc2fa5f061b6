//! Checks that every test that SECURITY.md names exists in the file that it names.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::Path;

/// `[name_of_a_test](path/to/file.rs)`: the names and the paths.
fn tests(text: &str) -> Vec<(&str, &str)> {
    let links = text.split('[').skip(1).filter_map(|link| link.split_once("]("));
    let links = links.filter_map(|(name, rest)| Some((name, rest.split_once(')')?.0)));
    links.filter(|(_, path)| path.ends_with(".rs")).collect()
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let tests = tests(&text);
    assert!(tests.len() > 40, "{} tests are named", tests.len());
    for (name, path) in tests {
        let source = std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| {
            panic!("SECURITY.md names {name} in {path}: {error}");
        });
        let (before, _) = source
            .split_once(&format!("fn {name}("))
            .unwrap_or_else(|| panic!("SECURITY.md names {name}, which is not in {path}"));
        let attribute = before.rsplit('}').next().unwrap_or_default();
        assert!(attribute.contains("test]") || attribute.contains("test("), "{name}: not a test");
    }
}

/// Every promise needs a test.
#[test]
fn every_promise_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let table = text.split_once("| Promise | Tests |").unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<&str> = rows.collect();
    assert!(rows.len() > 10, "{} promises", rows.len());
    for row in rows {
        assert!(!tests(row).is_empty(), "{row}");
    }
}
