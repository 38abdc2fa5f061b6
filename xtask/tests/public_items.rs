//! The public items of `tidegate` are those of a list, so that none becomes part of its interface by accident.
//!
//! `TIDEGATE_BLESS=1 cargo test -p xtask --test public_items` writes the list anew. Read the difference as users would.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The modules that are written out: the file, the path of its items, and what comes before them in the file.
const MODULES: [(&str, &str, &str); 5] = [
    ("crates/tidegate/src/lib.rs", "tidegate", ""),
    ("crates/limiter/src/lib.rs", "tidegate::config", "pub mod config {"),
    ("crates/limiter/src/attribute/mod.rs", "tidegate::attribute", ""),
    ("crates/tower/src/lib.rs", "tidegate::tower", ""),
    ("crates/client/src/lib.rs", "tidegate::client", ""),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The names that a file makes public, without hidden ones: those of its `pub use`s, its modules and its items.
fn public_items(text: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    let mut is_hidden = false;
    // The module that the line is in, if it is written out in this file.
    let mut module = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "}" {
            module.clear();
        }
        let line = line.trim();
        if line.starts_with("#[") {
            is_hidden |= line == "#[doc(hidden)]";
            continue;
        }
        if line.starts_with("///") {
            continue;
        }
        let was_hidden = std::mem::take(&mut is_hidden);
        if let Some(rest) = line.strip_prefix("pub use ") {
            let mut statement = rest.to_owned();
            while !statement.contains(';') {
                statement.push_str(lines.next().unwrap().trim());
                statement.push(' ');
            }
            let names = if was_hidden { Vec::new() } else { imported(&statement) };
            items.extend(names.into_iter().map(|name| format!("{module}{name}")));
        } else if let Some(rest) = line.strip_prefix("pub ").filter(|_| !was_hidden) {
            let rest = rest.trim_start_matches("const ").trim_start_matches("async ");
            let name = rest.split_once(' ').map(|(_, name)| name).unwrap_or_default();
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &name[..end.unwrap_or(name.len())];
            if !(line.ends_with('{') && rest.starts_with("mod ")) {
                items.insert(format!("{module}{name}"));
            } else if !text.starts_with(line) {
                // Not the first line, which is the module that was asked for.
                module = format!("{name}::");
            }
        }
        // Items within a module of their own belong to that module.
        if line == "}" && text.starts_with("pub mod") {
            break;
        }
    }
    items
}

/// The names that a `use` brings: the last part of each path, or what it is renamed to.
fn imported(statement: &str) -> Vec<String> {
    let statement = statement.trim_end_matches([' ', ';']);
    let list = match statement.split_once('{') {
        Some((_, list)) => list.trim_end_matches('}'),
        None => statement,
    };
    let name = |path: &str| {
        let path = path.rsplit(" as ").next().unwrap();
        path.rsplit("::").next().unwrap().trim().to_owned()
    };
    list.split(',').map(name).filter(|name| !name.is_empty()).collect()
}

fn all_items() -> String {
    let mut lines = Vec::new();
    for (file, path, after) in MODULES {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let start = text.find(after).unwrap();
        // What follows is of tests.
        let part = text[start..].split("#[cfg(test)]\nmod tests {").next().unwrap();
        lines.extend(public_items(part).into_iter().map(|item| format!("{path}::{item}")));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let (list, items) = (root().join("xtask/tests/public_items.txt"), all_items());
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&list, &items).unwrap();
    }
    let expected = std::fs::read_to_string(&list).unwrap_or_default();
    let difference = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|it| it == *line)).map(str::to_owned).collect()
    };
    let (new, gone) = (difference(&items, &expected), difference(&expected, &items));
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\ngone: {gone:#?}");
    // The list is what a reader of the documentation meets.
    assert!(items.lines().count() < 150, "{} items", items.lines().count());
}

#[test]
fn no_glob_makes_items_public() {
    for (file, path, _) in MODULES {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let globs = text.lines().filter(|line| line.starts_with("pub use") && line.contains('*'));
        assert_eq!(globs.count(), 0, "{path}");
    }
}

#[test]
fn hidden_items_and_renames_are_understood() {
    let text = "
/// Text.
#[doc(inline)]
pub use a::{
    B, C as D,
    e::F,
};
#[doc(hidden)]
pub use g::H;
#[cfg(feature = \"x\")]
pub use i as j;
#[doc(hidden)]
pub fn k() {}
pub fn l(x: u8) {}
pub mod m;
pub mod n {
    pub use o::P;
}
";
    assert_eq!(Vec::from_iter(public_items(text)), ["B", "D", "F", "j", "l", "m", "n::P"]);
}
