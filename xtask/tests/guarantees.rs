//! The promises in docs/guarantees.md name tests that exist, and every invariant of ARCHITECTURE.md is
//! among them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of all tables whose header begins with these columns, as lists of cells.
fn rows<'t>(page: &'t str, header: &str) -> Vec<Vec<&'t str>> {
    let mut found = Vec::new();
    for table in page.split(header).skip(1) {
        let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        found.extend(lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()));
    }
    found
}

/// The first five words, by which an invariant and its row find each other.
fn beginning(text: &str) -> String {
    let is_part = |c: &char| c.is_alphanumeric() || c.is_whitespace() || *c == '_';
    let plain: String = text.chars().filter(is_part).collect();
    plain.split_whitespace().take(5).collect::<Vec<_>>().join(" ").to_lowercase()
}

const TESTED: &str = "| Promise | Where | Test |";
const UNTESTED: &str = "| Invariant | Held by |";

#[test]
fn every_guarantee_names_tests_that_exist() {
    let page = read("docs/guarantees.md");
    let suite = read("crates/conformance/src/lib.rs");
    let rows = rows(&page, TESTED);
    assert!(rows.len() >= 60, "{} guarantees are too few: were they found?", rows.len());
    for row in rows {
        let [promise, _, tests] = row[..] else { panic!("not three columns: {row:?}") };
        // `file: name`, in backticks.
        let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {promise}");
        for test in tests {
            let (file, name) = test.split_once(": ").unwrap_or_else(|| panic!("no name: {test}"));
            let source = read(file);
            let found = source.split_once(&format!("fn {name}("));
            let (before, _) = found.unwrap_or_else(|| panic!("{name} is not in {file}"));
            // A law is a function, which `suite!` makes a test of every store.
            let attributes = before.rsplit('}').next().unwrap_or_default();
            let is_test = attributes.contains("test]") || attributes.contains("test(");
            let is_law = file.starts_with("crates/conformance/") && suite.contains(name);
            assert!(is_test || is_law, "{name} in {file} is not a test");
        }
    }
}

#[test]
fn every_invariant_has_a_row() {
    let (page, architecture) = (read("docs/guarantees.md"), read("ARCHITECTURE.md"));
    let rows = [rows(&page, TESTED), rows(&page, UNTESTED)].concat();
    let known: BTreeSet<_> = rows.iter().map(|row| beginning(row[0])).collect();
    let invariants: Vec<_> =
        architecture.split("- **Invariant:** ").skip(1).map(beginning).collect();
    assert!(invariants.len() > 60, "{} invariants are too few", invariants.len());
    let missing: Vec<_> = invariants.iter().filter(|one| !known.contains(*one)).collect();
    assert!(missing.is_empty(), "not in docs/guarantees.md: {missing:#?}");
}

/// Other modules of the store must not depend on which crate talks to Redis.
#[test]
fn only_the_link_uses_the_redis_crate() {
    let mut folders = vec![root().join("crates/store-redis/src")];
    let (mut outside, mut inside) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')));
            let mut uses = words.filter(|word| word.starts_with("redis::"));
            if uses.next().is_none() {
                continue;
            }
            let is_link = path.components().any(|part| part.as_os_str() == "link");
            if is_link { inside += 1 } else { outside.push(path) }
        }
    }
    assert!(outside.is_empty(), "they use the redis crate: {outside:?}");
    assert!(inside > 3, "{inside} modules use it: were they found?");
}
