//! `tidegate serve --store redis://...`, the real binary and a real Redis.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tidegate_testkit::{Mode, Proxy, Redis, wait_until};

struct Server(Child, String);

impl Server {
    fn start(redis: &Redis, arguments: &[&str]) -> Self {
        Self::with_secret(redis, arguments, "")
    }

    fn with_secret(redis: &Redis, arguments: &[&str], secret: &str) -> Self {
        Self::at(&redis.url(), arguments, secret, Stdio::inherit())
    }

    fn at(url: &str, arguments: &[&str], secret: &str, log: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--http", "127.0.0.1:0", "--workers", "1", "--store", url])
            .args(arguments)
            .stderr(log)
            .env("TIDEGATE_SECRET", secret)
            .env("TIDEGATE_RESP", "off")
            .env("TIDEGATE_GRPC", "off")
            .env("TIDEGATE_ADMIN", "off")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let server = Self(child, address);
        server.connected();
        server
    }

    /// Waits until its worker is connected: decisions without Redis are not counted there.
    fn connected(&self) {
        let question = r#"{"attributes": {"key": "x", "user": "x", "userId": "x"}}"#;
        let is_asked = || self.ask("POST /v1/check", question).1.contains(r#""source":"store""#);
        wait_until("the store", Duration::from_secs(10), is_asked);
    }

    /// The status and the whole answer.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.1).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    fn check(&self) -> (u16, String) {
        self.ask("POST /v1/check", r#"{"policy": "demo", "key": "alice"}"#)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn instances_with_one_secret_share_their_counters() {
    let redis = Redis::start();
    let [one, two] = [(); 2].map(|()| Server::with_secret(&redis, &[], "of this deployment"));
    let other = Server::with_secret(&redis, &[], "of another deployment");
    let statuses: Vec<u16> = (0..6).flat_map(|_| [one.check().0, two.check().0]).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10);
    assert_eq!(other.check().0, 200);
}

#[test]
fn without_redis_an_instance_limits_by_itself_and_says_so() {
    let redis = Redis::start();
    let server = Server::start(&redis, &["--expected-nodes", "5"]);
    redis.kill();
    let answers: Vec<_> = (0..3).map(|_| server.check()).collect();
    let (status, ready) = server.ask("GET /readyz", "");
    assert_eq!(status, 200);
    assert!(ready.contains("deciding without the store: store "), "{ready}");
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 200, 429]);
    assert!(answers[2].1.contains(r#""source":"fallback""#), "{}", answers[2].1);
    let detail = "policy demo allows 2 of 10/minute here while the store is unavailable";
    assert!(answers[2].1.contains(detail), "{}", answers[2].1);
}

#[test]
fn a_far_redis_decides_and_is_said_to_be_far_with_the_deadline_to_set() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    proxy.set_mode(Mode::Delay(Duration::from_millis(120)));
    let path = std::env::temp_dir().join(format!("tidegate-far-{}.yaml", std::process::id()));
    let text = "policies: [{ name: api, key: [user], limits: [100/hour], store_deadline: 200ms }]";
    std::fs::write(&path, text).unwrap();
    let arguments = ["--config", path.to_str().unwrap()];
    let mut server = Server::at(&proxy.url(), &arguments, "", Stdio::piped());
    let lines = BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let (tell, log) = mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| drop(tell.send(line))));
    let mut log = std::iter::from_fn(|| log.recv_timeout(Duration::from_secs(60)).ok());
    let said = log.find(|line| line.contains("the store usually takes")).unwrap();
    assert!(said.contains(r#"policy "api" waits for 200ms"#), "{said}");
    assert!(said.contains("set store_deadline to "), "{said}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_of_rlaas_keeps_its_keys_where_rlaas_does() {
    let redis = Redis::start();
    let path = std::env::temp_dir().join(format!("tidegate-rlaas-{}.yaml", std::process::id()));
    let text = "rate-limiter: { use-algo: fixed-window-algo, max-requests: 2, window-size: 3600 }";
    std::fs::write(&path, text).unwrap();
    let server = Server::start(&redis, &["--config", path.to_str().unwrap()]);
    for status in [200, 200, 429] {
        assert_eq!(server.ask("GET /check?userId=bob", "").0, status);
    }
    // All but the list of instances.
    let keys = redis.command(&["KEYS", "[^{]*"]);
    let names: Vec<_> = keys.items().iter().map(tidegate_testkit::Reply::text).collect();
    assert!(names.iter().all(|name| name.starts_with("rlaas:rate_limit:")), "{names:?}");
    assert!(!names.is_empty());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_closed_policy_without_redis_says_when_to_come_back() {
    let redis = Redis::start();
    let path = std::env::temp_dir().join(format!("tidegate-closed-{}.yaml", std::process::id()));
    let text = "policies: [{ name: door, key: [user], limits: [5/m], on_store_error: closed }]";
    std::fs::write(&path, text).unwrap();
    let server = Server::start(&redis, &["--config", path.to_str().unwrap()]);
    redis.kill();
    let (status, answer) = server.ask("POST /v1/check", r#"{"policy": "door", "key": "alice"}"#);
    assert_eq!(status, 429);
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    std::fs::remove_file(path).unwrap();
}

/// Nothing is restarted, Redis is not flushed, and old keys expire.
#[test]
fn another_algorithm_takes_effect_while_the_server_runs() {
    let redis = Redis::start();
    let path = std::env::temp_dir().join(format!("tidegate-switch-{}.yaml", std::process::id()));
    let write = |algorithm: &str| {
        let rest = "max-requests: 2, window-size: 3600";
        std::fs::write(&path, format!("rate-limiter: {{ use-algo: {algorithm}, {rest} }}"))
            .unwrap();
    };
    write("fixed-window-algo");
    let server = Server::start(&redis, &["--config", path.to_str().unwrap()]);
    assert_eq!(server.ask("GET /check?userId=bob", "").0, 200);
    write("sliding-window-algo");
    let kind = || redis.command(&["TYPE", "rlaas:rate_limit:carol"]).text();
    wait_until("a sorted set", Duration::from_secs(10), || {
        let _ = server.ask("GET /check?userId=carol", "");
        kind() == "zset"
    });
    for status in [200, 200, 429] {
        assert_eq!(server.ask("GET /check?userId=dave", "").0, status);
    }
    std::fs::remove_file(path).unwrap();
}

/// Instances that share a Redis share blocks too, whatever their counters are called.
#[test]
fn a_block_is_shared_where_keys_have_the_names_of_another_limiter() {
    let redis = Redis::start();
    let path = std::env::temp_dir().join(format!("tidegate-block-{}.yaml", std::process::id()));
    let text = "key_format: 'bf:{{entity}}:{window_start}'\ndefaults: { store_deadline: 2s }\n\
                policies: [{ name: door, key: [user], \
                algorithm: fixed-window, limits: [1/s], block_for: 1h }]";
    std::fs::write(&path, text).unwrap();
    let [one, two] = [(); 2].map(|()| Server::start(&redis, &["--config", path.to_str().unwrap()]));
    let ask = |server: &Server| server.ask("POST /v1/check", r#"{"policy": "door", "key": "eve"}"#);
    wait_until("a block", Duration::from_secs(10), || {
        ask(&one).1.contains(r#""reason":"blocked""#)
    });
    let (status, answer) = ask(&two);
    assert_eq!(status, 429);
    assert!(answer.contains(r#""reason":"blocked""#), "{answer}");
    assert!(answer.contains(r#""source":"store""#), "{answer}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn policies_may_have_names_of_their_own_for_their_keys() {
    let redis = Redis::start();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies/keys.yaml");
    let server = Server::start(&redis, &["--config", path]);
    let export = r#"{"attributes": {"user": "fay", "path": "/export/1"}}"#;
    let (_, answer) = server.ask("POST /v1/check", export);
    assert!(answer.contains(r#""source":"store""#), "{answer}");
    let keys = redis.command(&["KEYS", "gateway:fay:*"]);
    let names: Vec<_> = keys.items().iter().map(tidegate_testkit::Reply::text).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("gateway:fay:export:")), "{names:?}");
    // A policy that opts out of the file's template has one of our keys.
    let search = r#"{"attributes": {"user": "fay", "path": "/search/1"}}"#;
    let (_, answer) = server.ask("POST /v1/check", search);
    assert!(answer.contains(r#""source":"store""#), "{answer}");
    assert_eq!(redis.command(&["KEYS", "{???}v*"]).items().len(), 1);
}

/// A certificate that is its own authority, and its key.
fn certificate(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let (cert_file, key_file) =
        (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    std::fs::write(&cert_file, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    (cert_file, key_file)
}

#[test]
fn attack_22_redis_over_tls_with_its_own_authority_and_a_certificate_of_ours() {
    let directory = std::env::temp_dir().join(format!("tidegate-redis-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (cert, key) = certificate(&directory, "redis");
    let (our_cert, our_key) = certificate(&directory, "ours");
    // Redis trusts our certificate, and refuses clients without it.
    let redis = Redis::builder().tls(&cert, &key, &our_cert).arg("tls-auth-clients", "yes").start();
    let url = redis.tls_url().unwrap();
    let file = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let (ca, our_cert, our_key) = (file(&cert), file(&our_cert), file(&our_key));
    let flags = ["--redis-ca", &ca, "--redis-cert", &our_cert, "--redis-key", &our_key];
    // Returns once the store has decided.
    let server = Server::at(&url, &flags, "", Stdio::inherit());
    assert_eq!(server.check().0, 200);

    let refused = |url: &str, flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--http", "127.0.0.1:0", "--store", url])
            .args(flags)
            .env("TIDEGATE_RESP", "off")
            .env("TIDEGATE_GRPC", "off")
            .env("TIDEGATE_ADMIN", "off")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&redis.url(), &["--redis-ca", &ca]);
    assert!(said.contains("need TLS: expected rediss://"), "{said}");
    let said = refused("memory", &["--redis-ca", &ca]);
    assert!(said.contains("counters are in memory"), "{said}");
    let said = refused(&url, &["--redis-cert", &our_cert]);
    assert!(said.contains("expected --redis-key as well"), "{said}");
    let said = refused(&url, &["--redis-ca", "/nowhere/ca.crt"]);
    assert!(said.contains("--redis-ca: cannot read /nowhere/ca.crt"), "{said}");
    std::fs::remove_dir_all(directory).unwrap();
}
