//! Languages and their packages, if they are installed. What is missing is reported as SKIPPED.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testkit::{peer, peers, skipped};

/// The directory of Node's packages.
pub(crate) fn node_modules() -> PathBuf {
    peers().unwrap_or_default().join("node_modules")
}

/// Node, if it has this package.
pub(crate) fn node(package: &str) -> Option<PathBuf> {
    found(package, node_modules().join(package).is_dir())?;
    peer("node")
}

/// Python, if it has this package.
pub(crate) fn python(package: &str) -> Option<PathBuf> {
    let python = peer("python")?;
    found(package, succeeds(&python, &["-c", &format!("import {package}")]))?;
    Some(python)
}

/// PHP, if this code exits with 0.
pub(crate) fn php(package: &str, code: &str) -> Option<PathBuf> {
    let php = peer("php")?;
    found(package, succeeds(&php, &["-r", code]))?;
    Some(php)
}

/// A directory of peers with a library, and the program that uses it.
pub(crate) fn library(program: &str, directory: &str) -> Option<(PathBuf, PathBuf)> {
    let directory = peers()?.join(directory);
    found(&directory.file_name()?.to_string_lossy(), directory.is_dir())?;
    Some((peer(program)?, directory))
}

fn succeeds(program: &Path, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn found(what: &str, is_there: bool) -> Option<()> {
    if !is_there {
        skipped(what);
    }
    is_there.then_some(())
}
