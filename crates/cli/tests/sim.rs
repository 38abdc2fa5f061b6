//! The commands that simulate, replay and measure.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tidegate_testkit::Scratch;

fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).output().unwrap()
}

/// The output of a command that succeeds.
#[track_caller]
fn said(line: &str) -> String {
    let output = run(&line.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(
        output.stderr.is_empty(),
        "nobody watches: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(line: &str, code: i32, part: &str) {
    let output = run(&line.split(' ').collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    assert!(said.contains(part), "{line}: {said}");
}

fn row<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.trim_start().starts_with(start));
    line.unwrap_or_else(|| panic!("no {start:?} in\n{text}")).split_whitespace().collect()
}

#[test]
fn the_table_of_bursts_at_a_boundary_comes_out_of_one_command() {
    let text = said("simulate --limits 5/minute");
    assert_eq!(row(&text, "59s"), ["59s", "5", "5", "5", "5", "5", "5"]);
    assert_eq!(row(&text, "61s"), ["61s", "5", "5", "0", "0", "0", "0"]);
    assert_eq!(row(&text, "total"), ["total", "10", "10", "5", "5", "5", "5"]);
    assert!(row(&text, "fixed-window  ").contains(&"2.00x"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn the_readme_shows_what_is_printed_and_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = Scratch::new();
    let svg = scratch.file("boundary.svg");
    let text = said(&format!("simulate --limits 5/minute --svg {}", svg.display()));
    let readme = read(&root.join("README.md"));
    let (_, block) = readme.split_once("$ tidegate simulate --limits 5/minute").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let (_, table) = block.split_once('\n').unwrap();
    assert!(table.lines().count() == 5 && text.contains(table), "{table}\nis not in\n{text}");
    let drawn = root.join("docs/boundary.svg");
    assert!(read(&svg) == read(&drawn), "{} is not what --svg draws", drawn.display());
}

#[test]
fn simulations_are_written_as_files_too() {
    let scratch = Scratch::new();
    let [html, svg] = ["a.html", "a.svg"].map(|name| scratch.file(name));
    said(&format!("simulate --traffic poisson --html {} --svg {}", html.display(), svg.display()));
    let (html, svg) = (read(&html), read(&svg));
    assert!(
        html.starts_with("<!doctype html>") && html.contains("tidegate simulate --traffic poisson")
    );
    assert!(svg.starts_with("<svg xmlns") && svg.contains("token-bucket"));
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn scripts_get_json() {
    let json = said("simulate --limits 5/minute --algorithm fixed-window --json");
    assert!(json.contains(r#""worst window": 10"#), "{json}");
}

#[test]
fn the_trade_off_comes_out_of_one_command_and_again_the_same() {
    let line = "accuracy --sources 90 --requests 40000 --seed 5";
    let text = said(line);
    assert_eq!(row(&text, "sliding-log")[..5], ["sliding-log", "0", "%", "0", "%"], "{text}");
    assert!(text.contains("seed 5") && text.contains("Cloudflare"), "{text}");
    let rest = |text: &str| text.split_once("Beside Cloudflare").map(|(_, rest)| rest.to_owned());
    assert_eq!(rest(&text), rest(&said(line)));
}

#[test]
fn a_generated_log_is_replayed_compared_and_limited() {
    let scratch = Scratch::new();
    let log = scratch.write("access.log", &said("replay --generate 20000 --seed 7"));
    let new = scratch.write(
        "new.yaml",
        "policies: [{ name: login, match: { path: /login }, key: [ip], limits: [5/hour] }]",
    );
    let old = scratch.write("old.yaml", &read(&new).replace("5/hour", "500/hour"));
    let (log, new, old) = (log.display(), new.display(), old.display());
    let text = said(&format!("replay {log} --config {new} --against {old}"));
    assert!(text.contains("Of 20,000 requests from 2025-01-01"), "{text}");
    assert!(text.contains("203.0.113."), "the attack is found: {text}");
    assert!(text.contains("denied, but not today"), "{text}");

    let line = format!("suggest {log} --key ip --per minute --tolerate 1% --match path=/login");
    let snippet = said(&format!("{line} --snippet"));
    let suggested = scratch.write("suggested.yaml", &snippet);
    let json = said(&format!("replay {log} --config {} --json", suggested.display()));
    let json: Vec<&str> = json.lines().collect();
    assert!(json.iter().any(|line| line.contains("\"denied\"")), "{json:?}");
    assert!(said(&line).contains("Smallest limits"));
}

#[test]
fn logs_come_by_a_pipe_and_bad_lines_are_no_end() {
    let scratch = Scratch::new();
    let config = scratch.write("a.yaml", "policies: [{ name: a, key: [ip], limits: [1/minute] }]");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["replay", "-", "--config"])
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = r#"1.1.1.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1"#;
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "{line}\nrubbish\n{line}\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(text.contains("Of 2 requests") && text.contains("standard input:2:"), "{text}");
}

#[test]
fn mistakes_are_named() {
    let scratch = Scratch::new();
    let log = scratch.write("a.log", "no log\n");
    let bad = scratch.write("bad.yaml", "policies: [{ name: a, key: [ip], limits: [1/minit] }]");
    let good = scratch.write("good.yaml", "policies: [{ name: a, key: [ip], limits: [1/minute] }]");
    let (log, bad, good) = (log.display(), bad.display(), good.display());
    refused("simulate --traffic rain", 2, "expected burst-at-boundary, greedy, poisson");
    refused("simulate --algorithm leaky", 2, "unknown algorithm");
    refused("simulate --limits many", 2, "expected a quota such as 100/minute");
    refused("simulate --traffic poisson --rate 1000000/second", 2, "expected at most 20000000");
    refused("accuracy --limit 5/minute --arrivals never", 2, "expected poisson or on-off");
    refused(&format!("replay {log} --config {bad}"), 1, "unknown unit");
    refused(&format!("replay {log} --config {good}"), 2, "cannot tell the format from \"no log\"");
    refused(
        &format!("replay /no/such.log --config {good}"),
        2,
        "cannot open /no/such.log: No such file or directory (os error 2)\n",
    );
    let empty = scratch.write("empty.log", "");
    let empty = empty.display();
    refused(&format!("replay {empty} --config {good}"), 2, "no request in the log: it is empty\n");
    refused(&format!("suggest {empty} --key ip"), 2, "no request in the log: it is empty\n");
    let binary = scratch.write("binary.log", "\u{1}\u{2}PNG\u{0}");
    let said = "from \"\\u{1}\\u{2}PNG\\u{0}\"; expected";
    refused(&format!("replay {} --config {good}", binary.display()), 2, said);
    refused(&format!("replay --config {good}"), 2, "no log: expected a file");
    refused(&format!("replay {log}"), 2, "--config");
    for tolerate in ["lots", "0.1"] {
        let line = format!("suggest {log} --key ip --tolerate {tolerate}");
        refused(&line, 2, "expected a share such as 0.1%, with the percent sign");
    }
    let html = format!("suggest {log} --key ip --html /nowhere/report.html");
    refused(&html, 2, "cannot write /nowhere/report.html");
    refused(
        &format!("suggest {log} --key ip --tolerate 200%"),
        2,
        "expected a share of 0% to 100%",
    );
}
