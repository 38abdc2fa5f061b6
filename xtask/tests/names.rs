//! A type's name is defined once in the product, so that a reader who meets it in one crate knows
//! what it is in all of them.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names that two types may share, and why.
const SHARED: [(&str, &str); 0] = [];

/// Crates that are not part of the product: they help to test and to measure it.
const TOOLS: [&str; 3] = ["bench", "conformance", "testkit"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates")
}

/// The product's source files, without generated ones and files of tests.
fn sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let members = std::fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap());
    let mut folders: Vec<_> = members
        .filter(|entry| !TOOLS.contains(&entry.file_name().to_str().unwrap()))
        .map(|entry| entry.path().join("src"))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.extend((!matches!(&*name, "generated" | "tests")).then(|| entry.path()));
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                sources.push(entry.path());
            }
        }
    }
    sources
}

/// The type that a line of source defines.
fn defined_type(line: &str) -> Option<&str> {
    // An associated type of a trait or an impl is indented and belongs to it.
    let is_nested = line.starts_with(' ');
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let is_type =
        matches!(keyword, "struct" | "enum" | "trait" | "union") || keyword == "type" && !is_nested;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    (is_type && rest.starts_with(|c: char| c.is_ascii_uppercase())).then(|| &rest[..end])
}

/// What comes before the tests of a file.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap()
}

#[test]
fn a_type_name_means_one_type() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in without_tests(&text).lines().filter_map(defined_type) {
            let place = path.strip_prefix(crates()).unwrap().display().to_string();
            places.entry(name.to_owned()).or_default().push(place);
        }
    }
    assert!(places.len() > 900, "{} types are too few: were they found?", places.len());
    let is_allowed = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let twice: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    let unexpected: Vec<_> = twice.iter().filter(|(name, _)| !is_allowed(name)).collect();
    assert!(
        unexpected.is_empty(),
        "rename one of each, or put the name on the list of this test with a reason: {unexpected:#?}"
    );
    for (name, reason) in SHARED {
        assert!(twice.iter().any(|(other, _)| *other == name), "{name} ({reason}) is unique now");
    }
}
