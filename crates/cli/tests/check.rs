//! `tidegate check` against `tidegate serve`, both the real binary.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::path::Path;
use std::process::{Command, Output};

use tidegate_testkit::{Daemon, free_port};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

const LIMITS: &str = "policies: [
  { name: login, key: [ip], limits: [2/day], algorithm: fixed-window },
  { name: all, match: { path: /x }, key: [], limits: [5/hour], mode: shadow }]";

fn server() -> (Daemon, String) {
    let (daemon, [http, ..]) = server_with_ports();
    (daemon, http)
}

/// The same, with the URLs of HTTP, gRPC and Redis clients.
fn server_with_ports() -> (Daemon, [String; 3]) {
    let [port, grpc, resp] = [(); 3].map(|()| free_port());
    let address = |port: u16| format!("127.0.0.1:{port}");
    let daemon = Daemon::start(Path::new(TIDEGATE), |directory, command| {
        std::fs::write(directory.join("limits.yaml"), LIMITS).unwrap();
        command.args(["serve", "--config", "limits.yaml", "--admin", "off"]);
        command.args(["--http", &address(port), "--grpc", &address(grpc)]);
        command.args(["--resp", &address(resp)]);
    });
    let daemon = daemon.listening_on(port).listening_on(grpc).listening_on(resp);
    (daemon, [port, grpc, resp].map(|port| format!("http://{}", address(port))))
}

/// The exit code, and the text on standard output or else on standard error.
fn check(server: &str, args: &[&str]) -> (Option<i32>, String) {
    let command = &mut Command::new(TIDEGATE);
    let Output { status, stdout, stderr } =
        command.arg("check").args(args).env("TIDEGATE_SERVER", server).output().unwrap();
    let said = if stdout.is_empty() { stderr } else { stdout };
    (status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn the_exit_code_says_allowed_or_denied() {
    let (_server, url) = server();
    let ask = ["--policy", "login", "--key", "203.0.113.9"];
    let (code, said) = check(&url, &ask);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.starts_with("allowed by login: within the limit\n  login fixed-window over "),
        "{said}"
    );
    assert!(said.contains(": 1 of 2 left, full again in "), "{said}");
    let (code, said) = check(&url, &["--attribute", "ip=203.0.113.9", "-a", "path=/x"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("4 of 5 left") && said.contains("(shadow)"), "{said}");
    let (code, said) = check(&url, &ask);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.starts_with("denied by login: the limit is used up; try again in "), "{said}");
    let (code, said) = check(&url, &["--policy", "login", "--key", "::1", "--cost", "3"]);
    assert_eq!(
        (code, said.lines().next()),
        (Some(3), Some("denied by login: the cost exceeds the limit"))
    );
    let (code, said) = check(&url, &["--policy", "login", "--key", "::1", "--cost", "0", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with(r#"{"allowed":true,"policy":"login""#) && said.ends_with("}\n"));
}

#[test]
fn a_check_without_a_policy_lists_the_key_attributes() {
    let (_server, url) = server();
    let (code, said) = check(&url, &["-a", "pi=203.0.113.9"]);
    assert_eq!(code, Some(0), "{said}");
    let hint = "  hint: is an attribute misspelt? The policies count by ip\n";
    assert_eq!(said, format!("allowed: no policy applies\n{hint}"));
}

#[test]
fn an_invalid_check_is_an_error() {
    let (_server, url) = server();
    let (code, said) = check(&url, &["--policy", "lgoin", "--key", "a"]);
    assert_eq!(code, Some(2));
    assert_eq!(said, "tidegate: no policy is named \"lgoin\": expected login, all\n");
    let (code, said) = check(&url, &["--policy", "login"]);
    assert!(code == Some(2) && said.contains("--key"), "{said}");
    let (code, said) = check(&url, &["--attribute", "ip"]);
    assert!(code == Some(2) && said.contains("expected name=value"), "{said}");
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let (code, said) = check(&nobody, &["--policy", "login", "--key", "a"]);
    assert!(code == Some(2) && said.contains(&format!("cannot reach {nobody}: ")), "{said}");
    let (code, said) = check("127.0.0.1:8080", &["--policy", "login", "--key", "a"]);
    assert!(code == Some(2) && said.contains("expected http://host:port"), "{said}");
}

#[test]
fn a_check_needs_a_caller_and_one_value_for_each_attribute() {
    let (code, said) = check("http://127.0.0.1:1", &[]);
    assert_eq!(code, Some(2));
    let expected = "no caller: expected --policy NAME and --key TEXT, or --attribute";
    assert!(said.contains(expected), "{said}");
    let (code, said) =
        check("http://127.0.0.1:1", &["-a", "user=x", "-a", "ip=::1", "-a", "user=y"]);
    assert_eq!(code, Some(2));
    assert_eq!(said, "tidegate: \"user\" is given twice: expected one value for each attribute\n");
}

#[test]
fn a_listener_of_another_protocol_is_recognised() {
    let (_server, [http, grpc, resp]) = server_with_ports();
    let ask = ["--policy", "login", "--key", "a"];
    for url in [grpc, resp] {
        let (code, said) = check(&url, &ask);
        let expected = format!(
            "tidegate: cannot reach {url}: the peer does not speak HTTP/1: expected https:// if \
             the port has TLS, and not the port for gRPC or Redis clients\n"
        );
        assert_eq!((code, said), (Some(2), expected));
    }
    let (code, said) = check(&http.replace("http://", "https://"), &ask);
    assert!(code == Some(2) && said.contains(": it does not speak TLS on this port: "), "{said}");
}
