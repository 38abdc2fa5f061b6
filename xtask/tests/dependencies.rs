//! Bounds the number of third-party dependencies. To add one, change the number here and in the
//! documentation of `tidegate`.

#![allow(clippy::unwrap_used, reason = "tests panic")]
// Other systems need other crates.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeSet;
use std::process::Command;

/// A feature of `tidegate`, and the most third-party crates it may bring.
const MOST: &[(&str, usize)] = &[
    ("", 38),
    ("macros", 39),
    ("serde", 39),
    ("redis", 99),
    ("tower", 51),
    ("axum", 69),
    ("tonic", 85),
    ("client", 45),
    ("reqwest", 97),
];

fn crates_of_others(feature: &str) -> usize {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--offline", "--locked"])
        .args(["--package", "tidegate", "--features", feature])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let others = text.lines().filter(|line| !line.is_empty() && !line.starts_with("tidegate"));
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
fn the_documentation_says_how_many() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tidegate/src/lib.rs");
    let text = std::fs::read_to_string(path).unwrap();
    for (feature, most) in MOST {
        let name = if feature.is_empty() { "none".to_owned() } else { format!("`{feature}`") };
        let row = text.lines().find(|line| line.starts_with(&format!("//! | {name} |")));
        assert!(row.is_some_and(|row| row.ends_with(&format!(" | {most} |"))), "{name}: {row:?}");
    }
}
