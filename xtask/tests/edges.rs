//! Checks which crate depends on which. The code map in ARCHITECTURE.md is the table of allowed edges; a
//! new edge must be justified there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHITECTURE: &str = include_str!("../../ARCHITECTURE.md");

/// Each crate, and which of our crates it may use: the first and third column of the code map.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let (_, map) = ARCHITECTURE.split_once("\n## Code map\n").unwrap();
    let rows = map.trim_start().lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, _, uses, ..] = &cells[..] else { panic!("not a row of the code map: {row}") };
        (crates_in(name).remove(0), crates_in(uses).into_iter().collect())
    })
    .collect()
}

/// The crates that a cell names, by their names in Cargo.
fn crates_in(cell: &str) -> Vec<String> {
    let names = cell.split('`').skip(1).step_by(2);
    names
        .map(|name| match name {
            "tidegate" | "xtask" => name.to_owned(),
            _ => format!("tidegate-{name}"),
        })
        .collect()
}

/// Words of one crate that no other crate below it may know, apart from the files that are named.
const WORDS: &[(&str, &[&str], &[&str])] = &[(
    "policy",
    &[
        "jwt",
        "upstream",
        "upstreams",
        "tls",
        "access_log",
        "response_header",
        "response_status",
        "on_denied",
        "max_wait",
    ],
    &["files/section/elsewhere.rs"],
)];

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
    let (dependencies, allowed) = (dependencies(), allowed());
    for (name, uses) in &dependencies {
        let allowed = allowed.get(name);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} is not in the code map"));
        let ours = uses.iter().filter(|used| dependencies.contains_key(*used));
        let unexpected: Vec<_> = ours.filter(|used| !allowed.contains(*used)).collect();
        assert!(unexpected.is_empty(), "{name} must not depend on {unexpected:?}");
    }
    let gone: Vec<_> = allowed.keys().filter(|name| !dependencies.contains_key(*name)).collect();
    assert!(gone.is_empty(), "in the code map, but not a crate: {gone:?}");
}

#[test]
fn the_code_map_has_no_edge_that_is_not_used() {
    let dependencies = dependencies();
    for (name, allowed) in allowed() {
        let unused: Vec<_> = allowed.difference(&dependencies[&name]).collect();
        assert!(unused.is_empty(), "{name} does not use {unused:?}");
    }
}

#[test]
fn nobody_speaks_of_what_belongs_to_another_crate() {
    for (name, words, exceptions) in WORDS {
        let root = format!("{}/../crates/{name}/src", env!("CARGO_MANIFEST_DIR"));
        for path in sources(Path::new(&root)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(&root).unwrap().display().to_string();
            if exceptions.contains(&path.as_str()) || path.ends_with("tests.rs") {
                continue;
            }
            // Comments explain to readers, who know more than the crate does. Tests come last.
            let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in lines {
                let of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let mut known = line.split(|c| !of_a_word(c)).filter(|word| words.contains(word));
                assert_eq!(known.next(), None, "{name}/src/{path}: {line}");
            }
        }
    }
}

/// Folders of a crate, which modules of the crate they may use, and what of the engine.
const FOLDERS: &[(&str, &[&str], &[&str])] =
    &[("server/src/net", &["net", "files"], &["tidegate::text"])];

#[test]
fn a_folder_uses_only_the_folders_below_it() {
    for (folder, modules, engine) in FOLDERS {
        let root = format!("{}/../crates/{folder}", env!("CARGO_MANIFEST_DIR"));
        for path in sources(Path::new(&root)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in lines {
                let used = line.split("crate::").skip(1);
                let is_below = |used: &str| modules.iter().any(|module| starts(used, module));
                assert!({ used }.all(is_below), "{}: {line}", path.display());
                let mut used = line.match_indices("tidegate::").map(|(at, _)| &line[at..]);
                let is_known = |used: &str| engine.iter().any(|module| starts(used, module));
                assert!(used.all(is_known), "{}: {line}", path.display());
            }
        }
    }
}

/// Whether a path begins with a module.
fn starts(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// The files of one request must be few enough to be read in one go.
#[test]
fn a_request_is_read_in_a_few_files_that_exist() {
    let (_, section) = ARCHITECTURE.split_once("\n### The files of a request\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let requests: Vec<_> = section.split("\n- **").skip(1).collect();
    assert_eq!(requests.len(), 4, "{section}");
    for request in requests {
        // A name in braces stands for several files: `a/{b,c}.rs`.
        let names = request.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs"));
        let files: Vec<_> = names.flat_map(expanded).collect();
        for file in &files {
            let path = format!("{}/../crates/{file}", env!("CARGO_MANIFEST_DIR"));
            assert!(Path::new(&path).is_file(), "{file}");
        }
        assert!(files.len() <= 25, "{} files: {request}", files.len());
    }
}

fn expanded(name: &str) -> Vec<String> {
    let Some((start, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (names, end) = rest.split_once('}').unwrap();
    names.split(',').map(|name| format!("{start}{name}{end}")).collect()
}

/// All Rust files of a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
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
