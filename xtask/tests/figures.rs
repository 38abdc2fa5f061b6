//! Checks that the documents show the figures that the benchmarks have recorded, and no others.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::{Path, PathBuf};

use xtask::figures;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

#[test]
fn documents_show_the_recorded_figures() {
    for document in figures::DOCUMENTS {
        let text = read(document);
        let is_fresh = figures::update(&root(), &text).unwrap() == text;
        assert!(is_fresh, "{document} is stale: cargo run -p xtask -- figures");
    }
}

#[test]
fn every_template_is_in_a_document() {
    let documents = figures::DOCUMENTS.map(read).concat();
    for entry in std::fs::read_dir(root().join("docs/figures")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".template") {
            assert!(documents.contains(&format!("<!-- figures: {name} -->")), "{name} is not used");
        }
    }
}

#[test]
fn the_readme_has_no_figure_of_its_own() {
    let readme = read("README.md");
    let (_, section) = readme.split_once("\n## How fast it is\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    assert!(section.contains("<!-- figures: "), "the section cites no figure");
    let text = figures::without_blocks(section);
    assert!(!text.contains(|c: char| c.is_ascii_digit()), "a figure outside of the block:\n{text}");
}
