//! `tidegate judge` against `tidegate serve` and other limiters, all of them real.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests panic")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tidegate_testkit::{Daemon, Scratch, free_port};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

const LIMITS: &str = "policies: [
  { name: fixed, key: [user], limits: [20/second], algorithm: fixed-window },
  { name: log, key: [user], limits: [20/second], algorithm: sliding-log },
  { name: sliding, key: [user], limits: [20/second], algorithm: sliding-window },
  { name: stepped, key: [user], limits: [20/second], algorithm: stepped-window },
  { name: edge, match: { domain: edge }, key: [client], limits: [20/second burst 5] }]";

const BODY: &str = r#"{"policy": "POLICY", "key": "{key}", "cost": {cost}}"#;

/// A server, with its addresses for HTTP, gRPC and Redis clients.
fn server() -> (Daemon, [String; 3]) {
    let ports = [(); 3].map(|()| free_port());
    let [http, grpc, resp] = ports.map(|port| format!("127.0.0.1:{port}"));
    let daemon = Daemon::start(Path::new(TIDEGATE), |directory, command| {
        std::fs::write(directory.join("limits.yaml"), LIMITS).unwrap();
        command.args(["serve", "--config", "limits.yaml", "--admin", "off", "--workers", "2"]);
        command.args(["--http", &http, "--grpc", &grpc, "--resp", &resp]);
    });
    let daemon = ports.into_iter().fold(daemon, Daemon::listening_on);
    (daemon, [http, grpc, resp])
}

/// The exit code, the findings, and what was said on standard error.
fn judge(args: &[&str]) -> (Option<i32>, Value, String) {
    let command = &mut Command::new(TIDEGATE);
    let Output { status, stdout, stderr } =
        command.arg("judge").args(args).arg("--json").output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    (status.code(), serde_json::from_slice(&stdout).unwrap_or(Value::Null), said)
}

#[track_caller]
fn clean(args: &[&str]) {
    let (code, report, said) = judge(args);
    assert_eq!(code, Some(0), "{report:#} {said}");
    let facts = &report["facts"];
    assert!(
        facts["admitted"].as_u64() > Some(20) && facts["denied"].as_u64() > Some(20),
        "{facts}"
    );
    assert_eq!(facts["no answer"], 0, "{facts}");
}

fn over_http<'a>(url: &'a str, algorithm: &'a str, body: &'a str) -> Vec<&'a str> {
    let shape = ["--allowed", "/allowed", "--remaining", "/limits/0/remaining"];
    let wait = ["--retry-after", "/limits/0/retry_after_ms", "--retry-unit", "1ms"];
    let args = ["--limits", "20/second", "--algorithm", algorithm, "--http", url, "--body", body];
    args.into_iter().chain(shape).chain(wait).chain(["--for", "3s"]).collect()
}

#[test]
fn our_server_keeps_its_rules_over_every_protocol() {
    let (_server, [http, grpc, resp]) = server();
    let url = format!("http://{http}/v1/check");
    for (policy, algorithm) in [
        ("fixed", "fixed-window"),
        ("log", "sliding-log"),
        ("sliding", "sliding-window"),
        ("stepped", "stepped-window"),
    ] {
        clean(&over_http(&url, algorithm, &BODY.replace("POLICY", policy)));
    }
    let [cell, check] =
        ["CL.THROTTLE {key} 4 20 1 {cost}", "RL.CHECK edge client={key} domain=edge COST {cost}"];
    for ways in [
        &["--resp", &resp, "--send", cell][..],
        &["--resp", &resp, "--send", check],
        &["--grpc", &grpc, "--domain", "edge", "--descriptor", "client={key}"],
    ] {
        clean(&[&["--limits", "20/second burst 5", "--for", "3s"][..], ways].concat());
    }
}

#[test]
fn two_servers_with_counters_of_their_own_are_found_out() {
    let (servers, scratch) = ([server(), server()], Scratch::new());
    let urls = servers.each_ref().map(|(_, [http, ..])| format!("http://{http}/v1/check"));
    let (record, page) = (scratch.file("history"), scratch.file("page.html"));
    let body = BODY.replace("POLICY", "log");
    let mut args = over_http(&urls[0], "sliding-log", &body);
    args.extend(["--http", &urls[1], "--record", record.to_str().unwrap()]);
    let (code, report, said) = judge(&args);
    assert_eq!(code, Some(3), "{report:#} {said}");
    assert!(report["facts"]["over-admission"].as_u64() > Some(0), "{report:#}");
    // What was recorded is judged in the same way, and by other rules.
    let history = ["--history", record.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let rule = ["--limits", "20/second", "--algorithm", "sliding-log"];
    let (code, again, _) = judge(&[&history[..], &rule].concat());
    assert_eq!((code, &again["facts"]), (Some(3), &report["facts"]));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("over-admission") && html.contains("<svg"), "{html}");
    let (code, ..) =
        judge(&[&history[..], &["--limits", "1k/second", "--promise", "at-most"]].concat());
    assert_eq!(code, Some(2), "not a quota");
    let (_, wide, _) =
        judge(&[&history[..], &["--limits", "1000/second", "--promise", "at-most"]].concat());
    assert_eq!(wide["facts"]["over-admission"], 0, "{wide:#}");
}

#[test]
fn a_command_is_a_limiter_too() {
    let yes = r#"while read -r line; do id=${line#*\"id\":}; echo "{\"id\":${id%%,*},\"allowed\":true}"; done"#;
    let args = ["--limits", "5/second", "--promise", "at-most", "--for", "1s", "--command", yes];
    let (code, report, said) = judge(&args);
    assert_eq!(code, Some(3), "{report:#} {said}");
    let dies = ["--limits", "5/second", "--for", "1s", "--command", "exit 1"];
    let (code, _, said) = judge(&dies);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no call was answered"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, part) in [
        (&["--limits", "5/second"][..], "nothing to judge"),
        (&["--limits", "5/second", "--http", "https://x/"], "not an http:// URL"),
        (
            &["--limits", "5/second", "--resp", "127.0.0.1:1", "--send", "GET {key}"],
            "unknown command",
        ),
        (&["--limits", "5/second", "--steps", "3", "--http", "http://x/"], "only a stepped-window"),
        (&["--limits", "5/second", "--history", "/nonexistent"], "cannot read"),
    ] {
        let (code, _, said) = judge(args);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
