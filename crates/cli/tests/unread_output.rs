//! Commands whose output is not read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

use tidegate_testkit::Scratch;

const LIMITS: &str = "policies: [{ name: a, key: [user], limits: [5/minute] }]\n";
const THEIRS: &str =
    "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 3 } }]\n";

/// Every command that prints something and exits, and a log for those that read one.
fn commands(scratch: &Scratch) -> Vec<String> {
    let limits = scratch.write("limits.yaml", LIMITS).display().to_string();
    let theirs = scratch.write("theirs.yaml", THEIRS).display().to_string();
    let log = scratch.file("access.log");
    let mut generate = tidegate("replay --generate 200");
    assert!(generate.stdout(File::create(&log).unwrap()).status().unwrap().success());
    let log = log.display();
    vec![
        "init".to_owned(),
        format!("validate {limits}"),
        format!("explain {limits} user=a"),
        format!("import {theirs}"),
        "simulate --limits 5/second --for 1s".to_owned(),
        "simulate --limits 5/second --for 1s --json".to_owned(),
        "accuracy --requests 1000 --sources 10 --limit 5/second".to_owned(),
        format!("replay {log} --config {limits}"),
        "replay --generate 9".to_owned(),
        format!("suggest {log} --key ip --per 1m"),
        format!("suggest {log} --key ip --per 1m --snippet"),
    ]
}

fn tidegate(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(line.split(' '));
    command
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let scratch = Scratch::new();
    for line in commands(&scratch) {
        assert_eq!(tidegate(&line).output().unwrap().status.code(), Some(0), "{line}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = tidegate(&line).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        let expected = "tidegate: cannot write to standard output: No space left on device";
        assert!(said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn a_closed_reader_is_not_an_error() {
    let scratch = Scratch::new();
    for line in commands(&scratch) {
        let mut command = tidegate(&line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{line}: {said}");
        assert_eq!(said, "", "{line}");
    }
}
