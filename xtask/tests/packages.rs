//! Every crate that is published has what people who find it need, and nothing that cannot be published.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All packages of the workspace.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

fn texts<'a>(package: &'a Value, field: &str) -> Vec<&'a str> {
    package[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn only_tools_are_not_published() {
    let packages = packages();
    let tools: BTreeSet<_> =
        packages.iter().filter(|package| !is_published(package)).map(name).collect();
    let expected = ["tidegate-bench", "tidegate-conformance", "tidegate-testkit", "xtask"];
    assert_eq!(tools, BTreeSet::from(expected));
}

#[test]
fn every_published_crate_describes_itself() {
    for package in packages().iter().filter(|package| is_published(package)) {
        let name = name(package);
        for field in ["description", "license", "readme", "repository", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        let keywords = texts(package, "keywords");
        assert!(
            (1..=5).contains(&keywords.len()),
            "{name}: the registry takes one to five keywords"
        );
        let is_keyword = |word: &&str| {
            word.len() <= 20
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        assert!(keywords.iter().all(is_keyword), "{name}: {keywords:?}");
        assert!((1..=5).contains(&texts(package, "categories").len()), "{name}: no category");

        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            // A link to a file of the workspace is packaged as the file.
            assert!(folder.join(file).is_file(), "{name} has no {file}");
        }
        let library = folder.join("src/lib.rs");
        if library.exists() {
            let docs = &package["metadata"]["docs"]["rs"];
            assert_eq!(docs["all-features"], true, "{name}: docs.rs would leave out its features");
            assert_eq!(docs["rustdoc-args"][1], "docsrs", "{name}");
            let text = std::fs::read_to_string(library).unwrap();
            let badges = "#![cfg_attr(docsrs, feature(doc_cfg))]";
            assert!(
                text.contains(badges),
                "{name}: its page would not say which item needs which feature"
            );
            let is_outside = |line: &&str| line.contains("include_str!(\"../..");
            assert_eq!(text.lines().find(is_outside), None, "{name} includes what is not packaged");
        }
    }
}

/// A package is published with its dependencies by version. What it needs has to be there before it.
#[test]
fn published_crates_need_only_published_crates() {
    let packages = packages();
    let published: BTreeSet<_> =
        packages.iter().filter(|package| is_published(package)).map(name).collect();
    let ours: BTreeSet<_> = packages.iter().map(name).collect();
    for package in packages.iter().filter(|package| is_published(package)) {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        for dependency in dependencies.filter(|it| ours.contains(it["name"].as_str().unwrap())) {
            let (from, to) = (name(package), dependency["name"].as_str().unwrap());
            // Cargo leaves out dependencies of tests that have no version.
            let is_left_out = dependency["kind"] == "dev" && dependency["req"] == "*";
            assert!(is_left_out || dependency["req"] != "*", "{from} needs a version of {to}");
            assert!(
                is_left_out || published.contains(to),
                "{from} needs {to}, which is not published"
            );
        }
    }
}

/// The order in which the crates can be published exists: no crate needs itself.
#[test]
fn there_is_an_order_of_publication() {
    let packages = packages();
    let mut waiting: Vec<_> = packages.iter().filter(|package| is_published(package)).collect();
    while !waiting.is_empty() {
        let names: BTreeSet<_> = waiting.iter().map(|package| name(package).to_owned()).collect();
        let is_ready = |package: &&Value| {
            let mut needed = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|it| it["req"] != "*" && names.contains(it["name"].as_str().unwrap()));
            needed.next().is_none()
        };
        let (ready, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_ready);
        assert!(!ready.is_empty(), "these need each other: {names:?}");
        waiting = rest;
    }
}
