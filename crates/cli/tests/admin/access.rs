//! Access to the admin listener, and what it must not show to anyone.

use std::fs::File;

use tidegate_testkit::{Redis, wait_until};

use crate::server::{FILE, SOON, Server, TOKEN, scratch, serve, tidegate};

#[test]
fn no_secret_is_in_any_line_page_or_answer() {
    let redis = Redis::builder().password("hunter2secret").start();
    let text = format!("store: {}\n{FILE}", redis.url());
    let config = scratch("secret.yaml", &text);
    let server = Server::start(&mut serve(&redis.url(), &config));
    assert_eq!(server.check("alice"), 200);
    redis.kill();
    wait_until("word of the lost store", SOON, || {
        server.check("bob");
        server.log().contains("deciding without the store")
    });
    std::fs::write(&config, format!("{text}\nstroe: {}", redis.url())).unwrap();
    wait_until("a refused file", SOON, || server.log().contains("refused;"));
    let mut seen = server.log();
    for path in ["/status", "/config", "/policies", "/overrides", "/top"] {
        let (status, body) = server.admin("GET", path, "");
        assert_eq!(status, 200, "{body}");
        seen += &body;
    }
    seen += &server.admin("POST", "/reset", r#"{"policy": "api", "key": "x"}"#).1;
    for path in ["/metrics", "/readyz", "/nowhere"] {
        seen += &server.send(&server.http, &format!("GET {path} HTTP/1.1"), "").1;
    }
    assert!(seen.contains("redis://:***@"), "{seen}");
    for secret in ["hunter2secret", TOKEN] {
        assert!(!seen.contains(secret), "{seen}");
    }
    std::fs::remove_file(config).unwrap();
}

#[test]
fn an_address_that_everybody_can_reach_needs_a_token() {
    let start = |tokens: &str| {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
        command.env("TIDEGATE_ADMIN_TOKENS", tokens);
        command
    };
    let refused = start("").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.starts_with("tidegate: the admin listener on 0.0.0.0:"), "{said}");
    assert!(
        said.contains("would be open to everybody who can reach it: expected a token"),
        "{said}"
    );

    let weak = start("admin hunter2").output().unwrap();
    let said = String::from_utf8_lossy(&weak.stderr).into_owned();
    let expected =
        "tidegate: TIDEGATE_ADMIN_TOKENS: line 1: a token of 7 bytes: expected 24 to 128\n";
    assert_eq!((weak.status.code(), &*said), (Some(2), expected));

    let server = Server::start(&mut start(&format!("read {TOKEN}")));
    let address = server.admin.replace("0.0.0.0", "127.0.0.1");
    let head = format!("GET /admin/v1/status HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
    assert_eq!(server.send(&address, &head, "").0, 200);
    assert_eq!(server.send(&address, "GET /admin/v1/status HTTP/1.1", "").0, 401);
}

#[test]
fn tokens_in_a_file_are_exchanged_while_the_server_runs() {
    let [old, new] = ["a", "b"].map(|letter| letter.repeat(32));
    let file = scratch("tokens", &format!("read {old}\n"));
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--log-format", "json"]).arg("--admin-tokens-file").arg(&file);
    let server = Server::start(&mut command);
    let status = |token: &str| {
        let head = format!("GET /admin/v1/status HTTP/1.1\r\nauthorization: Bearer {token}");
        server.send(&server.admin, &head, "").0
    };
    assert_eq!((status(&old), status(&new)), (200, 401));
    std::fs::write(&file, format!("read {old}\nread {new}\n")).unwrap();
    wait_until("both tokens", SOON, || (status(&old), status(&new)) == (200, 200));
    std::fs::write(&file, format!("read {new}\n")).unwrap();
    wait_until("the end of the old token", SOON, || (status(&old), status(&new)) == (401, 200));
    // Neither the size nor the time of a file tells whether its content has changed.
    let exchanges = || server.log().matches("admin tokens: in effect").count();
    let (before, written) = (exchanges(), file.metadata().unwrap().modified().unwrap());
    std::fs::write(&file, format!("read {old}\n")).unwrap();
    File::options().append(true).open(&file).unwrap().set_modified(written).unwrap();
    wait_until("the old token again", SOON, || exchanges() > before);
    assert_eq!((status(&old), status(&new)), (200, 401));
    std::fs::write(&file, format!("read {new}\n")).unwrap();
    wait_until("the new token again", SOON, || exchanges() > before + 1);
    std::fs::write(&file, "read short\n").unwrap();
    wait_until("word of a bad file", SOON, || {
        server.log().contains("the previous ones stay in effect")
    });
    assert_eq!(status(&new), 200);
    let log = server.log();
    let is_json = |line: &str| line.starts_with('{') && line.contains(r#""event":"tokens""#);
    // The startup message is text, even if the log is JSON.
    let said = log.lines().skip_while(|line| !line.starts_with('{'));
    assert!(said.clone().count() >= 2 && said.filter(|it| it.contains("tokens")).all(is_json));
    assert!(!log.contains(&old) && !log.contains(&new), "{log}");
    std::fs::remove_file(file).unwrap();
}
