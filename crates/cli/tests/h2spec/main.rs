//! Checks with h2spec that every HTTP/2 listener follows RFC 9113, except for the deviations in
//! `accepted.txt`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tidegate_testkit::{Daemon, Scratch, free_port, peer};

#[test]
fn the_http_listener_speaks_http_2() {
    check("http", "/healthz");
}

#[test]
fn the_grpc_listener_speaks_http_2() {
    check("grpc", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
}

#[test]
fn the_admin_listener_speaks_http_2() {
    check("admin", "/admin/v1/status");
}

#[test]
fn the_gateway_speaks_http_2() {
    check("gateway", "/healthz");
}

/// A section of the specification, and a case in it.
type Case = (String, String);

fn check(listener: &str, path: &str) {
    let Some(h2spec) = peer("h2spec") else { return };
    let (server, port) = serve(listener);
    let accepted = accepted(listener);
    let (cases, mut failed) = run(&h2spec, port, path, None);
    assert!(cases > 100, "{cases} cases:\n{}", server.printed());
    failed.retain(|case| !accepted.contains(case));
    // On a busy machine an answer may come too late. A real deviation fails every time.
    for _ in 0..3 {
        let sections: BTreeSet<String> = failed.iter().map(|case| case.0.clone()).collect();
        let again = sections.iter().flat_map(|it| run(&h2spec, port, path, Some(it)).1);
        let again: Vec<Case> = again.collect();
        failed.retain(|case| again.contains(case));
    }
    assert!(failed.is_empty(), "{listener}: {failed:#?}");
}

/// With this listener, and with the HTTP listener, which is also the service behind the gateway.
fn serve(listener: &str) -> (Daemon, u16) {
    let port = free_port();
    let http = if listener == "http" { port } else { free_port() };
    let address = |port: u16| format!("127.0.0.1:{port}");
    let daemon = Daemon::start(Path::new(env!("CARGO_BIN_EXE_tidegate")), |_, command| {
        command.args(["serve", "--resp", "off", "--http", &address(http)]);
        for name in ["grpc", "admin"].into_iter().filter(|name| *name != listener) {
            command.arg(format!("--{name}")).arg("off");
        }
        match listener {
            "http" => {}
            "gateway" => {
                let upstream = format!("http://{}", address(http));
                command.args(["--upstream", &upstream, "--gateway", &address(port)]);
            }
            name => {
                command.arg(format!("--{name}")).arg(address(port));
            }
        }
    });
    (daemon.listening_on(port), port)
}

/// How many cases there were, and those that failed.
fn run(h2spec: &Path, port: u16, path: &str, section: Option<&str>) -> (usize, Vec<Case>) {
    let scratch = Scratch::new();
    let report = scratch.file("report.xml");
    let mut command = Command::new(h2spec);
    command.args(section).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-P", path]);
    command.args(["-o", "5", "-j"]).arg(&report);
    let output = command.output().expect("h2spec runs");
    let Ok(report) = std::fs::read_to_string(&report) else {
        panic!("no report: {}", String::from_utf8_lossy(&output.stdout));
    };
    let cases = report.split("<testcase ").skip(1).map(|case| case.split("</testcase>").next());
    let cases: Vec<&str> = cases.map(Option::unwrap_or_default).collect();
    let failed = cases.iter().filter(|it| it.contains("<failure") || it.contains("<error"));
    let failed = failed.map(|it| (attribute(it, "package"), attribute(it, "classname")));
    (cases.len(), failed.collect())
}

fn attribute(element: &str, name: &str) -> String {
    let start = element.split_once(&format!("{name}=\"")).unwrap_or_default().1;
    let value = start.split('"').next().unwrap_or_default();
    value.replace("&#34;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

fn accepted(listener: &str) -> Vec<Case> {
    let rows = include_str!("accepted.txt").lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = rows.map(|row| match row[..] {
        [listener, section, case, reason] if !reason.is_empty() => (listener, section, case),
        _ => panic!("{row:?}: expected a listener, a section, a case and a reason"),
    });
    rows.filter(|row| row.0 == listener).map(|row| (row.1.to_owned(), row.2.to_owned())).collect()
}
