//! Checks which crate depends on which. The table is the architecture; a new edge must be justified
//! here.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Each crate, and which of our crates it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tidegate-core", &[]),
    ("tidegate-policy", &["tidegate-core"]),
    ("tidegate-store", &["tidegate-core"]),
    ("tidegate-store-redis", &["tidegate-core", "tidegate-store"]),
    ("tidegate-testkit", &[]),
    ("tidegate-macros", &["tidegate-core"]),
    (
        "tidegate-limiter",
        &[
            "tidegate-core",
            "tidegate-macros",
            "tidegate-policy",
            "tidegate-store",
            "tidegate-store-redis",
        ],
    ),
    ("tidegate-wire", &[]),
    ("tidegate-http", &["tidegate-limiter", "tidegate-wire"]),
    ("tidegate-tower", &["tidegate-http", "tidegate-limiter"]),
    ("tidegate-client", &["tidegate-limiter"]),
    ("tidegate", &["tidegate-client", "tidegate-limiter", "tidegate-tower"]),
    ("tidegate-server", &["tidegate", "tidegate-http", "tidegate-wire"]),
    ("tidegate-gateway", &["tidegate", "tidegate-http", "tidegate-server", "tidegate-wire"]),
    ("tidegate-sim", &["tidegate", "tidegate-core", "tidegate-policy"]),
    (
        "tidegate-cli",
        &["tidegate", "tidegate-gateway", "tidegate-server", "tidegate-sim", "tidegate-wire"],
    ),
    ("tidegate-conformance", &["tidegate-core", "tidegate-store"]),
    (
        "tidegate-bench",
        &[
            "tidegate",
            "tidegate-gateway",
            "tidegate-server",
            "tidegate-testkit",
            "tidegate-tower",
            "tidegate-wire",
        ],
    ),
    ("xtask", &["tidegate-conformance", "tidegate-core", "tidegate-policy", "tidegate-wire"]),
];

/// Crates that must not use certain others at all.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("tidegate-policy", &["tokio", "hyper", "http"]),
    ("tidegate-store", &["tokio", "hyper", "http", "serde"]),
    ("tidegate-limiter", &["hyper", "http", "prost"]),
];

/// The direct dependencies of each crate in the workspace, without dev-dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            let normal = all.filter(|dependency| dependency["kind"].is_null());
            let names = normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            (package["name"].as_str().unwrap().to_owned(), names.collect())
        })
        .collect()
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    let dependencies = dependencies();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    for (name, uses) in &dependencies {
        let allowed = allowed.get(name.as_str());
        let allowed = allowed.unwrap_or_else(|| panic!("{name} is new: give it a row in ALLOWED"));
        let ours = uses.iter().filter(|used| dependencies.contains_key(*used));
        let unexpected: Vec<_> = ours.filter(|used| !allowed.contains(&used.as_str())).collect();
        assert!(unexpected.is_empty(), "{name} must not depend on {unexpected:?}");
    }
    assert_eq!(dependencies.len(), ALLOWED.len(), "a row in ALLOWED has no crate");
}

#[test]
fn core_depends_on_nothing() {
    assert_eq!(dependencies()["tidegate-core"], BTreeSet::new());
}

#[test]
fn crates_do_not_use_forbidden_dependencies() {
    let dependencies = dependencies();
    for (name, unknown) in FORBIDDEN {
        let uses = &dependencies[*name];
        let known: Vec<_> = unknown.iter().filter(|other| uses.contains(**other)).collect();
        assert!(known.is_empty(), "{name} must not know {known:?}");
    }
}
