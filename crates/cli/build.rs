//! Tells `tidegate version` which commit it was built from.
//!
//! The first that is there counts: `TIDEGATE_BUILD_COMMIT` (`HASH YYYY-MM-DD`), `commit.txt` as `git archive` writes it,
//! and the repository. Nothing else that could differ from one build to the next is recorded.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed={ARCHIVED}");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = from_environment().or_else(from_archive).or_else(from_repository);
    let commit = commit.filter(|text| !text.contains('\n')).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=TIDEGATE_COMMIT={commit}");
    for variable in ["TARGET", "PROFILE"] {
        let value = std::env::var(variable).unwrap_or_else(|_| "unknown".to_owned());
        println!("cargo::rustc-env=TIDEGATE_{variable}={value}");
    }
}

fn from_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// In a checkout the file still holds the pattern.
fn from_archive() -> Option<String> {
    let text = std::fs::read_to_string(ARCHIVED).ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.starts_with("$Format")).then(|| text.to_owned())
}

/// Only for releases: a development build would have to be made again after every commit, and seldom is what the
/// commit says.
fn from_repository() -> Option<String> {
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    // An archive inside somebody else's repository is not a part of it.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["show", "--no-patch", "--no-show-signature", "--format=%H %cs", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

const VARIABLE: &str = "TIDEGATE_BUILD_COMMIT";
const ARCHIVED: &str = "commit.txt";
