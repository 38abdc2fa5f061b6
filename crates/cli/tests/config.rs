//! The commands that deal with configurations, and a server that follows one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tidegate_testkit::Scratch;

fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_remove("TIDEGATE_HTTP").env_remove("TIDEGATE_CONFIG").env("TIDEGATE_ADMIN", "off");
    command.env("TIDEGATE_RESP", "off").env("TIDEGATE_GRPC", "off");
    command
}

fn run(command: &str, file: &Path, rest: &[&str]) -> Output {
    tidegate().arg(command).arg(file).args(rest).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).unwrap()
}

#[test]
fn the_starter_validates() {
    let scratch = Scratch::new();
    let starter = text(&tidegate().arg("init").output().unwrap().stdout);
    let file = scratch.write("limits.yaml", &starter);
    let output = run("validate", &file, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("limits.yaml: ok, 4 policies\n"));
}

#[test]
fn every_problem_is_told_and_the_exit_code_is_1() {
    let scratch = Scratch::new();
    let file =
        scratch.write("bad.yaml", "policies:\n  - { nam: a, key: [x], limits: [5/minit] }\n");
    let output = run("validate", &file, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("bad.yaml:2:7: unknown field \"nam\""), "{said}");
    assert!(said.contains("unknown unit \"minit\""), "{said}");
    assert!(said.ends_with("3 problems\n"), "{said}");
    for command in ["explain", "import"] {
        assert_eq!(run(command, &file, &[]).status.code(), Some(1));
    }
    let mut serve = tidegate();
    let output = serve.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(&file).output();
    assert_eq!(output.unwrap().status.code(), Some(1));
}

#[test]
fn a_store_that_serve_would_refuse_does_not_validate() {
    let scratch = Scratch::new();
    let validate = |store: &str| {
        let policies = "policies: [{ name: a, key: [user], limits: [5/minute] }]";
        let file = scratch.write("limits.yaml", &format!("store: {store}\n{policies}\n"));
        run("validate", &file, &[])
    };
    for (store, why) in [
        ("redis://:hunter2@h:99999", "port \"99999\" is not a number from 1 to 65535"),
        ("redis://", "no host"),
        ("redis://h/abc", "database \"abc\" is not a number"),
        ("redis+cluster://", "no host"),
        ("redis+sentinel://h1,h2", "no service"),
        ("redis+unix://", "no path"),
        ("redis://h:6379/0?foo=1", "unknown parameter \"foo\""),
    ] {
        let output = validate(store);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{store}: {said}");
        assert!(said.contains("limits.yaml: store \"redis") && said.contains(why), "{said}");
        assert!(said.ends_with("1 problem\n") && !said.contains("hunter2"), "{said}");
    }
    for store in ["memory", "redis://:hunter2@h:6379/1", "rediss+cluster://h1,h2"] {
        assert_eq!(validate(store).status.code(), Some(0), "{store}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_the_exit_code_is_2() {
    let directory = std::env::temp_dir();
    let commands =
        ["validate", "explain", "import", "serve --http 127.0.0.1:0 --config", "replay --config"];
    for (file, why) in [("/nonexistent.yaml", "No such file"), ("", "Is a directory")] {
        let file = if file.is_empty() { directory.as_path() } else { Path::new(file) };
        for command in commands {
            let output = tidegate().args(command.split(' ')).arg(file).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            let expected = format!("tidegate: {}: cannot be read: {why}", file.display());
            assert!(said.starts_with(&expected), "{command}: {said}");
        }
    }
}

#[test]
fn explain_says_what_applies_and_why_the_rest_does_not() {
    let scratch = Scratch::new();
    let starter = text(&tidegate().arg("init").output().unwrap().stdout);
    let file = scratch.write("limits.yaml", &starter);
    let request = ["user=7", "plan=pro", "path=/search/x", "method=GET", "shoe=42"];
    let output = run("explain", &file, &request);
    let expected = "\
2 of 4 policies apply
- per-ip: skipped, its key needs ip
+ per-user (enforce) for user=\"7\", by tier 1
    1000/1m, sliding-window: at most 1999 in any 1m
- login: does not match, path is \"/search/x\"
+ search (shadow) for user=\"7\", by limits
    30/1m burst 10, token-bucket: at most 40 in any 1m
note: no policy asks for shoe
";
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(run("explain", &file, &["nonsense"]).status.code(), Some(2));
}

#[test]
fn explain_shows_keys_as_they_are_counted() {
    let scratch = Scratch::new();
    let keys = [
        ("by-route", "{ attribute: path, as: route, routes: [\"/users/{id}\"] }"),
        ("by-path", "path"),
        ("by-ip", "ip"),
        ("by-mail", "{ attribute: mail, as: lower }"),
        ("by-user", "{ attribute: user, default: nobody }"),
    ];
    let policy = |(name, key): (&str, &str)| {
        format!("  - {{ name: {name}, key: [{key}], limits: [1/minute] }}\n")
    };
    let policies: String = keys.map(policy).concat();
    let file = scratch.write("limits.yaml", &format!("policies:\n{policies}"));
    for (request, expected) in [
        (
            ["path=/a/../users/7", "ip=2001:DB8::1", "mail=Bob@X.org"],
            [
                "by-route (enforce) for path=\"/users/{id}\", by",
                "by-path (enforce) for path=\"/users/7\", by",
                "by-ip (enforce) for ip=\"2001:db8::/64\", by",
                "by-mail (enforce) for mail=\"bob@x.org\", by",
                "by-user (enforce) for user=\"nobody\", by",
            ],
        ),
        (
            ["path=/else", "ip=[::ffff:203.0.113.9]:80", "mail=b"],
            [
                "by-route (enforce) for path=any other route, by",
                "by-path (enforce) for path=\"/else\", by",
                "by-ip (enforce) for ip=\"203.0.113.9\", by",
                "by-mail (enforce) for mail=\"b\", by",
                "by-user (enforce) for user=\"nobody\", by",
            ],
        ),
    ] {
        let said = text(&run("explain", &file, &request).stdout);
        for line in expected {
            assert!(said.contains(line), "no {line:?} in {said}");
        }
    }
}

#[test]
fn import_writes_a_file_that_validates() {
    let scratch = Scratch::new();
    let theirs = "domain: d\ndescriptors:\n  - { key: a, rate_limit: { unit: day, requests_per_unit: 3 } }\n";
    let output = run("import", &scratch.write("ratelimit.yaml", theirs), &[]);
    let ours = scratch.write("limits.yaml", &text(&output.stdout));
    assert_eq!(run("validate", &ours, &[]).status.code(), Some(0));
}

#[test]
fn import_tells_what_is_switched_off_from_what_is_not() {
    let scratch = Scratch::new();
    let limit = "unit: day, requests_per_unit: 3";
    let usual = format!("  - {{ key: a, rate_limit: {{ name: usual, {limit} }} }}\n");
    let vip =
        format!("  - {{ key: b, rate_limit: {{ {limit}, replaces: [{{ name: usual }}] }} }}\n");
    let not = format!("  - {{ key: c, value: '!x', rate_limit: {{ {limit} }} }}\n");
    let kept = "1 not carried over and still limited: see the comments\n";
    let off = "1 not carried over and switched off: see the comments\n";
    for (descriptors, expected) in [
        (usual.clone(), String::new()),
        (format!("{usual}{vip}"), kept.to_owned()),
        (format!("{usual}{vip}{not}"), format!("{off}{kept}")),
    ] {
        let theirs = format!("domain: d\ndescriptors:\n{descriptors}");
        let output = run("import", &scratch.write("ratelimit.yaml", &theirs), &[]);
        assert_eq!(text(&output.stderr), expected, "{theirs}");
    }
}

#[test]
fn explain_walks_descriptors_of_an_envoy_file() {
    let scratch = Scratch::new();
    let text = "domain: d\ndescriptors:\n  - { key: a, value: b, rate_limit: { unit: day, requests_per_unit: 3 } }\n  - { key: c, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 3 } }\n";
    let file = scratch.write("ratelimit.yaml", text);
    let limit = "    3/1d, fixed-window: at most 6 in any 1d\n";
    let enforced = format!("+ d.a_b (enforce) for this descriptor in domain d\n{limit}");
    let watched = format!("+ d.c (shadow) for this descriptor in domain d\n{limit}");
    for (attributes, expected) in [
        (&["a=b"][..], enforced.as_str()),
        (&["domain=d", "a=b"], &enforced),
        (&["domain=e", "a=b"], "- d: does not match, domain is \"e\"\n"),
        (&["c=x"], &watched),
        (&["a=c"], "- d: no limit for this descriptor\n"),
    ] {
        let output = run("explain", &file, attributes);
        assert_eq!(self::text(&output.stdout), expected, "{attributes:?}");
    }
}

struct Server {
    child: Child,
    address: String,
    /// Its lines, as they come.
    log: Receiver<String>,
}

impl Server {
    fn start(file: &Path) -> Self {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(file);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut greeting = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = greeting.next().unwrap().unwrap();
        let address = first.strip_prefix("listening on http://").unwrap().to_owned();
        // Whoever goes away early would make the server write to nobody.
        let _ = greeting.take_while(|line| !line.as_ref().unwrap().starts_with("try: ")).count();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (said, log) = mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|it| said.send(it))
        });
        Self { child, address, log }
    }

    fn get(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn check(&self, body: &str) -> String {
        let head = "POST /v1/check HTTP/1.1\r\nconnection: close\r\n";
        self.get(&format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
    }

    #[track_caller]
    fn logged(&self, part: &str) {
        while let Ok(line) = self.log.recv_timeout(Duration::from_secs(20)) {
            if line.contains(part) {
                return;
            }
        }
        panic!("the log goes no further, without {part:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ONE: &str = "policies: [{ name: a, match: { path: /x/** }, key: [user], limits: [1/day] }]";

#[test]
fn attributes_meet_the_policies_that_match() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.write("limits.yaml", ONE));
    let ask = |path: &str| {
        server.check(&format!(r#"{{"attributes": {{"user": "1", "path": "{path}"}}}}"#))
    };
    assert!(ask("/x/1").starts_with("HTTP/1.1 200"));
    let denied = ask("/x/2");
    assert!(denied.starts_with("HTTP/1.1 429"), "{denied}");
    assert!(denied.contains(r#""violated-policies":["a"]"#), "{denied}");
    assert!(ask("/y").contains(r#""reason":"no_policy""#));
    assert!(server.check(r#"{"policy": "a", "key": "2"}"#).starts_with("HTTP/1.1 200"));
    assert!(server.check(r#"{"policy": "b", "key": "2"}"#).starts_with("HTTP/1.1 404"));
}

#[test]
fn a_good_change_takes_effect_a_bad_one_does_not_and_counts_stay() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", ONE);
    let server = Server::start(&file);
    let ask = |server: &Server| server.check(r#"{"policy": "a", "key": "1"}"#);
    assert!(ask(&server).contains(r#""remaining":0"#));
    // As an editor saves: a new file takes the old one's place.
    let new = scratch.write("new.yaml", &ONE.replace("1/day", "3/day"));
    std::fs::rename(new, &file).unwrap();
    server.logged("limits.yaml: in effect");
    assert!(ask(&server).contains(r#""remaining":1"#), "one of three was used, and now another");
    for bad in ["", "policies: [{ name: a }]"] {
        std::fs::write(&file, bad).unwrap();
        server.logged("refused; the policies before it stay in effect");
    }
    let ready = server.get("GET /readyz HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("was refused: "), "{ready}");
    assert!(ask(&server).contains(r#""remaining":0"#));
}

#[test]
fn a_swapped_link_is_noticed_as_kubernetes_does_it() {
    let scratch = Scratch::new();
    for (version, quota) in [("..v1", "1/day"), ("..v2", "7/day")] {
        std::fs::create_dir(scratch.file(version)).unwrap();
        scratch.write(&format!("{version}/limits.yaml"), &ONE.replace("1/day", quota));
    }
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, scratch.file(name)).unwrap();
    };
    link("..v1", "..data");
    link("..data/limits.yaml", "limits.yaml");
    let server = Server::start(&scratch.file("limits.yaml"));
    link("..v2", "..data_tmp");
    std::fs::rename(scratch.file("..data_tmp"), scratch.file("..data")).unwrap();
    server.logged("limits.yaml: in effect");
    assert!(server.check(r#"{"policy": "a", "key": "1"}"#).contains(r#""limit":7"#));
}

#[test]
fn a_hangup_is_no_end_and_says_again_what_is_wrong() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", ONE);
    let server = Server::start(&file);
    let id = server.child.id().to_string();
    let hang_up = || {
        assert!(Command::new("kill").args(["-s", "HUP", &id]).status().unwrap().success());
    };
    hang_up();
    assert!(server.check(r#"{"policy": "a", "key": "1"}"#).starts_with("HTTP/1.1 200"));
    std::fs::write(&file, "policies: [{ name: a }]").unwrap();
    server.logged("refused; the policies before it stay in effect");
    for _ in 0..2 {
        hang_up();
        server.logged("no \"key\": expected");
        server.logged("refused; the policies before it stay in effect");
    }
}

#[test]
fn an_rlaas_file_brings_its_door_along() {
    let scratch = Scratch::new();
    let text =
        "rate-limiter:\n  use-algo: sliding-window-algo\n  max-requests: 2\n  window-size: 60\n";
    let server = Server::start(&scratch.write("application.yaml", text));
    let ask = |path: &str| server.get(&format!("GET {path} HTTP/1.1\r\nconnection: close\r\n\r\n"));
    for expected in ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429"] {
        let reply = ask("/check?userId=42");
        assert!(reply.starts_with(expected), "{reply}");
        assert_eq!(reply.contains("retry-after: "), expected.ends_with("429"), "{reply}");
    }
    assert!(ask("/check?userId=43").starts_with("HTTP/1.1 200"));
    assert!(ask("/check").starts_with("HTTP/1.1 400"));
    let ours = Server::start(&scratch.write("limits.yaml", ONE));
    let reply = ours.get("GET /check?userId=42 HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 404"), "{reply}");
}
