//! `tidegate serve`, the real binary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use support::{Server, failure, output, output_of, serve, tidegate};
use tidegate_testkit::peer;

const DEMO: &str = "  demo: 10/minute, sliding-window: at most 19 in any minute; by key, enforce";

/// A path that no other test uses.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-serve-{}-{name}", std::process::id()))
}

#[test]
fn it_answers_checks_and_stops_when_told() {
    for signal in ["TERM", "INT"] {
        let server = serve(&[]);
        let reply = server.check();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(reply.contains(r#""remaining":9"#), "{reply}");
        assert_eq!(server.signal(signal), Some(0));
    }
}

#[test]
fn a_log_for_programs_tells_when_the_server_started_and_stopped() {
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--log-format", "json"]);
    let mut server = Server::start(command.stderr(Stdio::piped()));
    let log = server.stderr();
    let http = format!(r#""listeners":"http://{}""#, server.address());
    server.send("TERM");
    let lines: Vec<String> = log.lines().map(Result::unwrap).collect();
    assert!(lines.iter().all(|line| line.starts_with('{') && line.ends_with('}')), "{lines:?}");
    let (first, last) = (lines.first().unwrap(), lines.last().unwrap());
    let version = concat!(r#""version":""#, env!("CARGO_PKG_VERSION"), '"');
    for part in [r#""event":"started""#, &http, version, r#""policies":"1""#, r#""store":"memory"#]
    {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(last.contains(r#""event":"stopped""#), "{last}");
    assert!(last.contains("every request that had arrived was answered"), "{last}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn the_start_message_answers_operators_questions() {
    let server = serve(&["--workers", "3", "--max-connections", "100", "--max-keys", "5000"]);
    let url = server.greeting[0].strip_prefix("listening on ").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let workers = format!("tidegate {version}: 3 workers, at most 100 connections per listener");
    assert_eq!(server.greeting[1], workers);
    assert_eq!(server.greeting[2], "store: memory, at most 5000 keys");
    assert!(server.greeting[3].starts_with("config: a demo policy;"), "{:?}", server.greeting);
    assert_eq!(server.greeting[4..6], ["policies:", DEMO]);
    let curl = format!(r#"curl -i {url}/v1/check -d '{{"policy": "demo", "key": "alice"}}'"#);
    assert_eq!(server.greeting[6], format!("try: {curl}"));
}

#[test]
fn it_says_how_much_memory_counters_may_take() {
    let said = |more: &[&str]| serve(more).said("store: ").to_owned();
    let by_default = said(&[]);
    assert!(by_default.starts_with("memory, at most "), "{by_default}");
    assert!(by_default.contains(" (half of what this process may use), room for "), "{by_default}");
    assert_eq!(said(&["--max-memory", "512MiB"]), "memory, at most 512 MiB, room for 3355443 keys");
    let both = said(&["--max-memory", "512MiB", "--max-keys", "9"]);
    assert_eq!(both, "memory, at most 512 MiB, room for 9 keys");
}

#[test]
fn it_says_once_whose_new_keys_find_no_room() {
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"]);
    let mut server = Server::start(command.args(["--max-keys", "1"]).stderr(Stdio::piped()));
    let ask = |server: &Server, key: &str| {
        let (mut stream, mut reply) = (server.connect(), String::new());
        let body = format!(r#"{{"policy": "demo", "key": "{key}"}}"#);
        let head = "POST /v1/check HTTP/1.1\r\nconnection: close\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    };
    ["alice", "bob", "carol"].iter().for_each(|key| ask(&server, key));
    let mut log = server.log();
    assert!(log.any(|line| line.starts_with("demo: no room for new keys, which share counters")));
    ask(&server, "dave");
    server.send("TERM");
    assert!(!log.any(|line| line.contains("no room")), "said once");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn the_suggested_command_works_for_a_policy_with_several_attributes() {
    let file = scratch("several.yaml");
    let text = "policies: [{ name: login, match: { path: /login }, key: [ip, path], limits: [5/m] },\n\
                { name: api, key: [user, path], limits: [9/m] }]";
    std::fs::write(&file, text).unwrap();
    let server = serve(&["--config", file.to_str().unwrap()]);
    let tried = server.said("try: ");
    let body = r#"-d '{"attributes": {"user": "alice", "path": "/"}}'"#;
    assert!(tried.ends_with(body), "{tried}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn it_says_what_happens_without_redis_and_which_secrets_are_seen() {
    let file = scratch("limits.yaml");
    let text = "policies: [{ name: login, key: [ip], limits: [5/m], on_store_error: closed },\n\
                { name: api, key: [user], limits: [9/m] }]";
    std::fs::write(&file, text).unwrap();
    // No Redis listens there, and the server does not wait for it.
    let store = ["--store", "redis://:hunter2@127.0.0.1:1", "--expected-nodes", "4"];
    let server = serve(&[&store[..], &["--config", file.to_str().unwrap()]].concat());
    let without = server.said("without Redis: ");
    assert!(without.contains("1/4") && without.contains("(api); denied (login)"), "{without}");
    assert!(server.said("keys: ").contains("TIDEGATE_SECRET"));
    assert!(server.said("config: ").starts_with(file.to_str().unwrap()));
    assert!(server.said("warning: the password in --store").contains("TIDEGATE_STORE"));
    assert!(!server.greeting.iter().any(|line| line.contains("hunter2")));

    let secret = scratch("secret");
    std::fs::write(&secret, "open sesame, please\n").unwrap();
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--secret-file"]).arg(&secret);
    let server = Server::start(command.env("TIDEGATE_STORE", "redis://:hunter2@127.0.0.1:1"));
    assert_eq!(server.said("keys: "), "hashed with the deployment's secret");
    assert!(!server.greeting.iter().any(|line| line.contains("password")));
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--secret-file"]).arg(&secret);
    let server = Server::start(&mut command);
    assert!(server.said("keys: ").ends_with("the deployment's secret is not used"));
    std::fs::remove_file(file).unwrap();
    std::fs::remove_file(secret).unwrap();
}

#[test]
fn secrets_do_not_come_by_the_command_line() {
    let output = output(&["serve", "--secret", "s"]);
    assert_eq!(output.status.code(), Some(2));
    let missing = scratch("no-secret");
    let missing = missing.to_str().unwrap();
    for store in ["redis://127.0.0.1:1", "memory"] {
        let off = ["serve", "--http", "off", "--grpc", "off", "--resp", "off", "--store", store];
        let said = failure(&self::output(&[&off[..], &["--secret-file", missing]].concat()));
        assert!(said.contains("cannot read the secret in"), "{said}");
    }
}

#[test]
fn attack_21_secrets_that_can_be_guessed_are_refused() {
    let file = scratch("short");
    std::fs::write(&file, "fifteen letters\n").unwrap();
    let file = file.to_str().unwrap();
    let store = ["serve", "--store", "redis://127.0.0.1:1"];
    for (variable, flag) in
        [("TIDEGATE_RESP_PASSWORD", "--resp-password-file"), ("TIDEGATE_SECRET", "--secret-file")]
    {
        let expected = "a secret of 15 characters: expected at least 16";
        let mut command = tidegate();
        let said = failure(&output_of(command.args(store).env(variable, "fifteen letters")));
        assert!(said.contains(&format!("{variable}: {expected}")), "{said}");
        assert!(!said.contains("fifteen letters"), "{said}");
        let said = failure(&output_of(tidegate().args(store).args([flag, file])));
        assert!(said.contains(&format!("{file}: {expected}")), "{said}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_flag_overrides_its_environment_variable() {
    let mut command = tidegate();
    command.arg("serve").envs([("TIDEGATE_HTTP", "127.0.0.1:0"), ("TIDEGATE_WORKERS", "1")]);
    let server = Server::start(&mut command);
    assert!(server.check().starts_with("HTTP/1.1 200"));
    assert!(server.said("tidegate ").contains("1 worker,"));
    let mut both = tidegate();
    both.args(["serve", "--http", "127.0.0.1:0"]).env("TIDEGATE_HTTP", "nonsense");
    assert!(Server::start(&mut both).check().starts_with("HTTP/1.1 200"));
}

#[test]
fn every_flag_has_a_twin_in_the_environment() {
    let help = String::from_utf8(output(&["serve", "--help"]).stdout).unwrap();
    // Texts are wrapped, and indented further than flags are.
    let flags = help.lines().filter_map(|line| line.strip_prefix("      --"));
    let flags: Vec<&str> = flags.map(|line| line.split([' ', '=']).next().unwrap()).collect();
    assert!(flags.len() > 15, "{help}");
    let unwrapped = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for flag in flags {
        let twin = format!("[env: TIDEGATE_{}", flag.to_uppercase().replace('-', "_"));
        assert!(unwrapped.contains(&twin), "{flag} has no twin:\n{help}");
    }
}

#[test]
fn an_invalid_address_is_refused() {
    for address in ["nonsense", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:http", "unix:"] {
        let said = failure(&output(&["serve", "--http", address]));
        let expected = format!("tidegate: --http: {address:?} is not an address");
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.contains("expected host:port"), "{said}");
    }
}

#[test]
fn bounds_that_make_no_sense_are_refused() {
    for (flag, value) in [
        ("--workers", "0"),
        ("--max-connections", "0"),
        ("--header-timeout", "0s"),
        ("--idle-timeout", "soon"),
        ("--drain-delay", "10"),
        ("--drain-timeout", "99d"),
        ("--max-body", "much"),
        ("--max-keys", "0"),
        ("--max-memory", "lots"),
        ("--max-memory", "5G"),
        ("--max-memory", "64KiB"),
    ] {
        let output = output(&["serve", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(value) && said.contains(flag), "{said}");
    }
}

#[test]
fn common_mistakes_are_answered_with_the_right_option() {
    for (arguments, expected) in [
        (
            &["limits.yaml"][..],
            "limits.yaml is not an option of `serve`: expected --config limits.yaml",
        ),
        (
            &["--gateway", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            "expected --upstream, or a gateway in",
        ),
        (&["--http", ":9999"], "--http: \":9999\" is not an address: expected host:port"),
        (&["--max-keys", "1X"], "expected a number from 1 to 10G"),
        (&["--max-body", "64k"], "expected a size such as 64KiB"),
        (&["--workers", "0"], "expected a number from 1 to 1024"),
        (&["--tls-cert", "c.pem"], "--tls-cert needs its private key: expected --tls-key as well"),
    ] {
        let output = output(&[&["serve"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(serve(&["--max-keys", "1M"]).said("store: "), "memory, at most 1000000 keys");
}

#[test]
fn a_listener_can_be_off_but_not_all_of_them() {
    let said = failure(&output(&["serve", "--http", "off", "--grpc", "off", "--resp", "off"]));
    assert!(said.contains("every listener is off: expected an address"), "{said}");
    let server = serve(&["--resp", "127.0.0.1:0"]);
    assert!(server.said("listening on redis://").starts_with("127.0.0.1:"));
}

#[test]
fn a_port_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // Another program's, and that of a server like ours, with which it could be shared.
    let server = serve(&[]);
    for address in [&address, server.address()] {
        let said = failure(&output(&["serve", "--http", address]));
        assert!(said.contains(&format!("--http: cannot listen on {address:?}")), "{said}");
        assert!(said.contains("in use") && said.contains("expected"), "{said}");
    }
}

#[test]
fn a_unix_socket_is_served_and_cleaned_up() {
    let path = scratch("http.sock");
    let address = format!("unix:{}", path.display());
    let mut command = tidegate();
    let server = Server::start(command.args(["serve", "--http", &address]));
    assert_eq!(server.said("listening on http+unix:"), path.to_str().unwrap());
    if let Some(curl) = peer("curl") {
        // Run exactly the command that it suggests.
        let suggested = server
            .said("try: curl ")
            .replace('\'', "\"")
            .replace(r#"{"policy": "demo", "key": "alice"}"#, "BODY");
        let body = r#"{"policy": "demo", "key": "alice"}"#;
        let args = suggested.split(' ').map(|arg| if arg == "\"BODY\"" { body } else { arg });
        let output = Command::new(curl).args(args).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().contains(r#""remaining":9"#));
    }
    assert_eq!(server.signal("TERM"), Some(0));
    assert!(!path.exists());
}

#[test]
fn an_unknown_store_is_refused_with_a_list_of_stores() {
    for store in ["foo://x", "mem"] {
        let said = failure(&output(&["serve", "--http", "127.0.0.1:0", "--store", store]));
        assert!(said.contains(&format!("{store:?}")), "{said}");
        assert!(said.contains("redis+cluster://") && said.contains("; or memory"), "{said}");
    }
}

#[test]
fn a_file_in_the_way_of_a_socket_is_named_as_such() {
    let path = scratch("precious");
    std::fs::write(&path, "precious").unwrap();
    let address = format!("unix:{}", path.display());
    let said = failure(&output(&["serve", "--http", &address]));
    assert!(
        said.contains(&format!("cannot listen on {address:?}: a file that is not a socket")),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn flags_stand_below_what_they_are_about() {
    let help = String::from_utf8(output(&["serve", "--help"]).stdout).unwrap();
    let below = |heading: &str| {
        let (_, rest) = help.split_once(&format!("\n{heading}:\n")).unwrap();
        rest.split("\n\n").next().unwrap().to_owned()
    };
    for flag in ["--admin ", "--admin-tokens-file ", "--show-keys ", "--log-format "] {
        assert!(below("Operating").contains(flag), "{flag}: {help}");
        assert!(!below("Gateway").contains(flag), "{flag}: {help}");
    }
    assert!(below("Gateway").contains("--upstream "), "{help}");
}

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let output = output(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["serve", "validate", "Exit codes:", "  0  ", "  1  ", "  2  "] {
        assert!(help.contains(part), "{help}");
    }
    assert_eq!(self::output(&["surf"]).status.code(), Some(2));
}
