//! The documentation's site: its table of contents, and the links of what mdBook makes of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testkit::{Scratch, peer};
use xtask::book;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn the_table_of_contents_has_every_page_once_in_the_order_of_the_index() {
    let pages = book::pages(&root()).unwrap();
    let summary = book::summary(&pages);
    let listed: Vec<&str> = summary
        .lines()
        .filter_map(|line| Some(line.split_once("](")?.1.strip_suffix(')').unwrap()))
        .collect();
    let once: BTreeSet<_> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "{summary}");
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    let mut places = Vec::new();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "README.md" {
            let listed = listed.iter().position(|page| *page == format!("docs/{name}"));
            let listed = listed.unwrap_or_else(|| panic!("{name} is not in the contents"));
            places.push((index.find(&format!("]({name})")).unwrap(), listed));
        }
    }
    places.sort_unstable();
    assert!(places.is_sorted_by_key(|(_, listed)| *listed), "{summary}");
}

#[test]
fn no_link_of_the_site_is_dead() {
    let Some(mdbook) = peer("mdbook") else { return };
    let scratch = Scratch::new();
    let (source, site) = (scratch.file("book"), scratch.file("site"));
    book::write(&root(), &source).unwrap();
    let output =
        Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&site).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in ["index.html", "docs/policies.html", "api/index.html", "api/openapi.json"] {
        assert!(site.join(file).is_file(), "{file}");
    }
    let mut folders = vec![site.clone()];
    let (mut dead, mut seen, mut indexes) = (Vec::new(), 0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            indexes += usize::from(name.starts_with("searchindex"));
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".html") && name != "404.html" {
                let page = std::fs::read_to_string(&path).unwrap();
                for link in links(&page) {
                    seen += 1;
                    if !leads_somewhere(&path, link) {
                        dead.push(format!("{}: {link}", path.display()));
                    }
                }
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(seen > 500, "{seen} links are too few: were they found?");
    assert!(indexes > 0, "the site has no search");
}

/// The targets of `href="..."` and `src="..."`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    [" href=\"", " src=\""]
        .into_iter()
        .flat_map(|start| page.split(start).skip(1))
        .filter_map(|rest| rest.split_once('"').map(|(target, _)| target))
}

fn leads_somewhere(page: &Path, link: &str) -> bool {
    // Rustdoc is made by scripts/docs, and not by mdBook.
    let is_elsewhere =
        link.contains("://") || link.starts_with("rustdoc/") || link.starts_with("data:");
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let file = file.split('?').next().unwrap();
    if is_elsewhere {
        return true;
    }
    let target = if file.is_empty() { page.to_owned() } else { page.with_file_name(file) };
    if target.is_dir() {
        return target.join("index.html").is_file();
    }
    let Ok(text) = std::fs::read(&target) else { return false };
    let id = format!("id=\"{fragment}\"");
    fragment.is_empty() || String::from_utf8_lossy(&text).contains(&id)
}
