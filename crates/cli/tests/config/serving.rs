//! A server that follows its file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tidegate_testkit::Scratch;

use super::tidegate;

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
        // Keep reading, or else the server would write to a closed pipe.
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
        server.logged("refused; the previous policies stay in effect");
    }
    let ready = server.get("GET /readyz HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("was refused: "), "{ready}");
    assert!(ask(&server).contains(r#""remaining":0"#));
}

#[test]
fn attack_15_a_reload_that_is_refused_shows_no_secret() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", ONE);
    let server = Server::start(&file);
    std::fs::write(&file, format!("set: hunter2\n{ONE}")).unwrap();
    server.logged(" 1 | set: ***");
    server.logged("refused; the previous policies stay in effect");
    let ready = server.get("GET /readyz HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(ready.contains("was refused: ") && !ready.contains("hunter2"), "{ready}");
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
fn sighup_reloads_and_reports_problems_again() {
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
    server.logged("refused; the previous policies stay in effect");
    for _ in 0..2 {
        hang_up();
        server.logged("no \"key\": expected");
        server.logged("refused; the previous policies stay in effect");
    }
}

#[test]
fn an_rlaas_file_enables_the_rlaas_endpoint() {
    let scratch = Scratch::new();
    let text =
        "rate-limiter:\n  use-algo: sliding-window-algo\n  max-requests: 2\n  window-size: 60\n";
    let server = Server::start(&scratch.write("application.yaml", text));
    let ask = |path: &str| server.get(&format!("GET {path} HTTP/1.1\r\nconnection: close\r\n\r\n"));
    for (count, expected) in [(1, "HTTP/1.1 200"), (2, "HTTP/1.1 200"), (2, "HTTP/1.1 429")] {
        let reply = ask("/check?userId=42");
        assert!(reply.ends_with(&format!(",\"count\":{count},\"ttl\":60}}")), "{reply}");
        assert!(reply.starts_with(expected), "{reply}");
        assert_eq!(reply.contains("retry-after: "), expected.ends_with("429"), "{reply}");
    }
    assert!(ask("/check?userId=43").starts_with("HTTP/1.1 200"));
    assert!(ask("/check").starts_with("HTTP/1.1 400"));
    let reply = ask("/check?userId=44&userId=45");
    assert!(reply.starts_with("HTTP/1.1 400") && reply.contains("occurs twice"), "{reply}");
    let reply = ask("/check?userId=44&user%49d=44");
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"count\":1,"), "{reply}");
    let ours = Server::start(&scratch.write("limits.yaml", ONE));
    let reply = ours.get("GET /check?userId=42 HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 404"), "{reply}");
}

/// Nothing listens at this URL, so the server decides without Redis, but still checks the keys.
#[test]
fn a_file_whose_keys_a_cluster_cannot_have_changes_nothing() {
    let scratch = Scratch::new();
    let policies = |format: &str, limit: u32| {
        format!(
            "store: redis+cluster://127.0.0.1:1\nkey_format: '{format}'\npolicies: [{{ name: a, \
             key: [user], algorithm: fixed-window, limits: [{limit}/hour] }}]\n"
        )
    };
    let file = scratch.write("limits.yaml", &policies("rl:{{entity}}:{window_index}", 50));
    let server = Server::start(&file);
    scratch.write("limits.yaml", &policies("rl:{entity}:{window_index}", 60));
    server.logged("expected a hash tag");
    server.logged("the previous policies stay in effect");
    let reply = server.check(r#"{"policy": "a", "key": "alice"}"#);
    assert!(reply.contains(r#""limit":50"#), "{reply}");
}
