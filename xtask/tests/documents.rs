//! Checks that links in the documents have a target, and that the README stays short.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Markdown file that people read.
fn documents() -> Vec<PathBuf> {
    files(".md")
}

/// The files of the repository whose names end with this.
fn files(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let is_ours = !name.starts_with('.') && name != "target" && name != "node_modules";
            if entry.file_type().unwrap().is_dir() && is_ours {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The names by which a page's headings can be linked to.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let (mut dead, mut seen) = (Vec::new(), 0);
    for page in documents() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in prose(&text).flat_map(links).filter(|link| !link.contains("://")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let has_anchor =
                || anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor);
            if !target.exists() || !(anchor.is_empty() || has_anchor()) {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(seen > 50, "{seen} links are too few: were they found?");
}

/// A name may leave out the folders that its context makes clear.
#[test]
fn every_source_file_that_a_map_names_exists() {
    let sources = files(".rs");
    let is_map = |page: &PathBuf| page.ends_with("ARCHITECTURE.md") || page.ends_with("README.md");
    let (mut missing, mut seen) = (Vec::new(), 0);
    for page in documents().into_iter().filter(is_map) {
        let text = std::fs::read_to_string(&page).unwrap();
        for name in prose(&text).flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let is_placeholder = name.ends_with("/x.rs");
            if name.ends_with(".rs") && !name.contains([' ', '*', '{']) && !is_placeholder {
                seen += 1;
                if !sources.iter().any(|source| source.ends_with(name)) {
                    missing.push(format!("{}: {name}", page.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no such files:\n{}", missing.join("\n"));
    assert!(seen > 50, "{seen} names are too few: were they found?");
}

#[test]
fn every_page_of_docs_is_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_page = name.ends_with(".md") && name != "README.md";
        assert!(
            !is_page || index.contains(&format!("({name})")),
            "{name} is not in docs/README.md"
        );
    }
}

/// The README is an introduction: longer texts belong in docs.
#[test]
fn the_readme_is_short() {
    let length = std::fs::metadata(root().join("README.md")).unwrap().len();
    assert!(length <= 14 * 1024, "README.md has {length} bytes: move some of it to docs");
}
