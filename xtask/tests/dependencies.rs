//! Bounds the number of third-party dependencies. To add one, change the number here and in the
//! documentation of `tidegate`.

#![allow(clippy::unwrap_used, reason = "tests panic")]
// Other systems need other crates.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeSet;
use std::process::Command;

/// A feature of `tidegate`, and the most third-party crates it may bring, without default features.
const MOST: &[(&str, usize)] = &[
    ("", 16),
    ("files", 36),
    ("macros", 20),
    ("serde", 23),
    ("redis", 85),
    ("http", 46),
    ("tower", 49),
    ("axum", 67),
    ("tonic", 83),
    ("client", 30),
    ("reqwest", 82),
    ("remote", 88),
];

/// The most crates that a limiter with limits in code may need, our own included.
const MOST_OF_LIMITER: usize = 25;

/// The lines of `cargo tree`, which names a crate again where it was expanded before.
fn tree(feature: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--offline", "--locked"])
        .args(["--package", "tidegate", "--no-default-features", "--features", feature])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn crates_of_others(feature: &str) -> usize {
    let lines = tree(feature);
    let others = lines.iter().filter(|line| !line.starts_with("tidegate"));
    // Name and version: two versions of a crate are two crates.
    others.map(|line| line.split(' ').take(2).collect::<Vec<_>>()).collect::<BTreeSet<_>>().len()
}

#[test]
fn third_party_crates_stay_within_their_number() {
    for (feature, most) in MOST {
        let count = crates_of_others(feature);
        assert!(count <= *most, "{feature:?}: {count} third-party crates, expected at most {most}");
    }
}

#[test]
fn a_limiter_with_limits_in_code_needs_few_crates() {
    let crates = tree("");
    assert!(crates.len() <= MOST_OF_LIMITER, "{crates:#?}");
}

#[test]
fn the_documentation_says_how_many() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tidegate/src/lib.rs");
    let text = std::fs::read_to_string(path).unwrap();
    for (feature, most) in MOST {
        let name = if feature.is_empty() { "none".to_owned() } else { format!("`{feature}`") };
        let row = text.lines().find(|line| line.starts_with(&format!("//! | {name} |")));
        assert!(row.is_some_and(|row| row.ends_with(&format!(" | {most} |"))), "{name}: {row:?}");
    }
}
