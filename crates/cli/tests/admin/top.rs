//! `tidegate top`, against a running server.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use tidegate_testkit::Scratch;

use crate::server::{FILE, Server, TOKEN, scratch, serve, tidegate};

#[test]
fn top_shows_a_running_server() {
    let config = scratch("top.yaml", FILE);
    let server = Server::start(&mut serve("memory", &config));
    for _ in 0..5 {
        server.check("alice");
    }
    let top = |admin: &str, token: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["top", "--once", "--admin", &format!("http://{admin}")]);
        command.env("TIDEGATE_ADMIN_TOKEN", token).output().unwrap()
    };
    let output = top(&server.admin, TOKEN);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["tidegate 0.", "store: memory", " api ", "2/h", "most denied, of 3", "busiest"] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    assert!(shown.lines().count() == 24 && shown.lines().all(|line| line.chars().count() <= 80));
    assert!(!shown.contains("alice"), "{shown}");
    let refused = top(&server.admin, "");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("requires a token: expected it in TIDEGATE_ADMIN_TOKEN"), "{said}");
    let refused = top(&server.admin, "not-the-token-of-this-server");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("does not know the token in TIDEGATE_ADMIN_TOKEN"), "{said}");
    let elsewhere = top(&server.http, TOKEN);
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("is this its admin address?"));
    std::fs::remove_file(config).unwrap();
}

#[test]
fn a_unix_socket_is_an_admin_address_of_both() {
    let scratch = Scratch::new();
    let socket = scratch.file("admin.sock");
    let at = format!("unix:{}", socket.display());
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--admin", &at]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = format!("admin on http+unix:{}", socket.display());
    assert!(lines.any(|line| line == said), "{said}");
    let output = tidegate().args(["top", "--once", "--admin", &at]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && shown.contains("demo"), "{output:?}");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!socket.exists());
}
