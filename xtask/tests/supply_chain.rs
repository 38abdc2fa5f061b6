//! Checks that every third-party dependency has a fixed version and is verified.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::path::Path;
use std::process::Command;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn an_image_is_built_from_nothing_that_may_change() {
    let file = read("deploy/container/Containerfile");
    let lines: Vec<&str> = file.lines().collect();
    let stages = lines.iter().filter_map(|line| line.strip_prefix("FROM "));
    for stage in stages {
        let image = stage.split(' ').next().unwrap_or_default();
        let is_asked_for = image.strip_prefix("${").and_then(|name| name.strip_suffix('}'));
        // Without a default, so that nobody builds from a tag by accident.
        let is_given =
            is_asked_for.is_some_and(|name| lines.contains(&format!("ARG {name}").as_str()));
        assert!(image == "scratch" || image.contains("@sha256:") || is_given, "FROM {stage}");
    }
    assert!(
        !file.contains("apk add") && !file.contains("apt-get"),
        "packages without a fixed version"
    );
}

#[test]
fn tools_are_installed_in_one_version_each() {
    let script = read("scripts/tool");
    let list = script.lines().skip_while(|line| *line != "declare -A versions=(");
    let rows =
        list.take_while(|line| *line != ")").filter_map(|line| line.trim().strip_prefix('['));
    let versions: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once("]=")).collect();
    assert!(versions.len() >= 4, "{versions:?}");
    for (tool, version) in versions {
        let numbers: Vec<&str> = version.split('.').collect();
        let is_one = numbers.len() == 3 && numbers.iter().all(|it| it.parse::<u32>().is_ok());
        assert!(is_one, "{tool} is {version:?}: expected a whole version, such as 0.20.2");
    }
}

#[test]
fn continuous_integration_always_checks_what_we_depend_on() {
    assert!(read(".ci/run").lines().any(|line| line.trim() == "./scripts/supply-chain"));
    assert!(read(".github/workflows/ci.yml").contains("- run: .ci/run audit\n"));
    let script = read("scripts/supply-chain");
    assert!(script.contains("check licenses bans sources") && script.contains("check advisories"));
    assert!(read("deny.toml").contains("\n[advisories]\n"));
}

/// Crates come from crates.io only, each with its checksum.
#[test]
fn every_crate_of_others_has_a_checksum() {
    for file in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let lock = read(file);
        for package in lock.split("[[package]]").skip(1) {
            let is_ours = !package.contains("\nsource = ");
            let has_sum = package.contains("\nchecksum = \"")
                && package.contains("registry+https://github.com/rust-lang/crates.io-index");
            assert!(is_ours || has_sum, "{file}: {package}");
        }
    }
}

/// The C compiler of a release, and the certificates of its image.
#[test]
fn what_a_release_downloads_has_a_checksum() {
    let text = read("scripts/release-requirements.txt").replace("\\\n", "");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() >= 2, "{lines:?}");
    for line in lines {
        assert!(line.contains("==") && line.contains("--hash=sha256:"), "{line}");
    }
    assert!(read("scripts/release").contains("--require-hashes"));
}

#[test]
fn every_fuzz_target_is_listed_and_has_a_corpus() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new("scripts/fuzz").current_dir(root).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let targets = std::fs::read_dir(format!("{root}/fuzz/targets")).unwrap();
    for target in targets.map(|entry| entry.unwrap().path()) {
        let name = target.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(text.lines().any(|line| line.trim() == name), "{name} is not listed in {text}");
        let corpus = std::fs::read_dir(format!("{root}/fuzz/corpus/{name}")).unwrap();
        assert!(corpus.count() >= 10, "{name}: expected a corpus of some files");
    }
}
