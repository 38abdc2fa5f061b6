//! Checks that unit tests are where a reader looks for them: in a module `tests` at the end of a file,
//! or in `tests.rs` in the folder of the module.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::{Path, PathBuf};

/// Every source file of the workspace.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let members =
        std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> =
        members.chain([root.join("xtask")]).map(|it| it.join("src")).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                sources.push(path);
            }
        }
    }
    sources
}

#[test]
fn files_of_unit_tests_are_called_tests() {
    let sources = sources();
    assert!(sources.len() > 300, "{} sources: were they found?", sources.len());
    for path in sources {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_odd = name == "test" || name.ends_with("_test") || name.ends_with("_tests");
        assert!(!is_odd, "{}: expected tests.rs in the folder of its module", path.display());
        let is_odd = path.ends_with("tests/mod.rs");
        assert!(!is_odd, "{}: expected tests.rs beside the folder", path.display());
        let text = std::fs::read_to_string(&path).unwrap();
        let is_odd = text.contains("#[path = ");
        assert!(!is_odd, "{}: a module is in the file of its name", path.display());
    }
}

#[test]
fn modules_of_unit_tests_end_their_file() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        if let Some((_, after)) = text.split_once("\n#[cfg(test)]\nmod tests {\n") {
            let item = after.lines().find(|line| ITEMS.iter().any(|item| line.starts_with(item)));
            assert_eq!(item, None, "{}: something follows the tests", path.display());
        }
    }
}

/// How an item begins.
const ITEMS: [&str; 9] =
    ["const ", "enum ", "fn ", "impl", "mod ", "pub", "struct ", "trait ", "#["];
