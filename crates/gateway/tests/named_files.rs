//! Files that a plan names: changes of them take effect like changes of the plan.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use support::echo::Echo;
use support::{Front, fields, request, soon, with};
use tidegate::config::PolicySource;
use tidegate::{Clock as _, ManualClock, MemoryStore, SystemClock};
use tidegate_gateway::config::SECTIONS;
use tidegate_server::{PlanReloader, ReloadOutcome, ReloadRequest};
use tidegate_testkit::Scratch;

const OLD: &str = "the old secret, of at least thirty-two bytes, as it should be";
const NEW: &str = "the new secret, of at least thirty-two bytes, as it should be";
const GENEROUS: &str = "[{ name: all, key: [ip], limits: [1000000/second] }]";

/// A request with a token for alice, signed with this secret.
fn of_alice(secret: &str) -> String {
    let now = SystemClock::new().now().as_micros() / 1_000_000;
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"sub": "alice", "exp": now + 3_600});
    let message = format!("{}.{}", encode(&json!({"alg": "HS256"})), encode(&claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let proof = URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()));
    request("GET", "/", &format!("authorization: Bearer {message}.{proof}\r\n"))
}

fn jwt(keys: &Path) -> String {
    format!("  jwt: {{ keys: {}, algorithms: HS256 }}", keys.display())
}

/// A gateway that is configured by a file, and its reloader.
async fn start(scratch: &Scratch, text: &str) -> (Front, PlanReloader<MemoryStore<ManualClock>>) {
    let file = scratch.write("limits.yaml", text);
    let front = Front::start(text).await;
    front.app.add_extension(&front.gateway);
    let source = PolicySource::read(&file).unwrap().with_sections(SECTIONS);
    let reloader = PlanReloader::new(Arc::clone(&front.app), &file, &source);
    (front, reloader)
}

/// The same gateway, with a watcher on its files.
async fn follow(scratch: &Scratch, text: &str) -> (Front, ReloadRequest) {
    let (front, reloader) = start(scratch, text).await;
    let request = reloader.request();
    tokio::spawn(reloader.follow(|_| {}));
    (front, request)
}

async fn until(front: &Front, request: &str, status: u16) {
    soon(async {
        while front.ask(request).await.status != status {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn attack_06_a_revoked_key_stops_working_without_any_request_for_it() {
    // The keys have a directory of their own, which must be watched too.
    let (echo, scratch, elsewhere) = (Echo::start().await, Scratch::new(), Scratch::new());
    let keys = elsewhere.write("keys", OLD);
    let (front, _) = follow(&scratch, &with(echo.address, &jwt(&keys), GENEROUS)).await;
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 200);
    assert_eq!(front.ask(&of_alice(NEW)).await.status, 401);
    fs::rename(elsewhere.write("next", NEW), &keys).unwrap();
    until(&front, &of_alice(OLD), 401).await;
    assert_eq!(front.ask(&of_alice(NEW)).await.status, 200);
    assert_eq!(front.app.reload_counts(), (1, 0));
}

#[tokio::test]
async fn attack_06_a_key_is_revoked_by_a_link_that_is_swapped() {
    let (echo, scratch) = (Echo::start().await, Scratch::new());
    for (version, secret) in [("one", OLD), ("two", NEW)] {
        fs::create_dir(scratch.file(version)).unwrap();
        scratch.write(&format!("{version}/keys"), secret);
    }
    let swap = |to: &str| {
        symlink(to, scratch.file("next")).unwrap();
        fs::rename(scratch.file("next"), scratch.file("..data")).unwrap();
    };
    swap("one");
    symlink("..data/keys", scratch.file("keys")).unwrap();
    let text = with(echo.address, &jwt(&scratch.file("keys")), GENEROUS);
    let (front, _) = follow(&scratch, &text).await;
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 200);
    swap("two");
    until(&front, &of_alice(OLD), 401).await;
    assert_eq!(front.ask(&of_alice(NEW)).await.status, 200);
}

#[tokio::test]
async fn attack_06_a_broken_key_file_is_reported_and_the_old_keys_stay() {
    let (echo, scratch) = (Echo::start().await, Scratch::new());
    let keys = scratch.write("keys", OLD);
    let (front, _) = follow(&scratch, &with(echo.address, &jwt(&keys), GENEROUS)).await;
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 200);
    fs::write(&keys, "{ half").unwrap();
    soon(async {
        while front.app.reload_problem().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let problem = front.app.reload_problem().unwrap();
    assert!(problem.contains("keys"), "{problem}");
    assert!(front.app.metrics_page().await.contains("tidegate_config_refused 1"));
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 200);
    fs::write(&keys, NEW).unwrap();
    until(&front, &of_alice(NEW), 200).await;
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 401);
    // The keys are in use a moment before the watcher, in its own thread, reports them.
    soon(async {
        while front.app.reload_problem().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn attack_06_whoever_asks_for_a_reload_is_told_what_was_read() {
    let (echo, scratch) = (Echo::start().await, Scratch::new());
    let keys = scratch.write("keys", OLD);
    let (front, request) = follow(&scratch, &with(echo.address, &jwt(&keys), GENEROUS)).await;
    let answer = soon(request.ask_and_wait()).await.unwrap();
    assert!(!answer.has_changed);
    assert_eq!(answer.read, [keys.clone(), scratch.file("limits.yaml")]);
    fs::write(&keys, NEW).unwrap();
    // The explicit reload and the watcher may notice the change in either order.
    soon(request.ask_and_wait()).await.unwrap();
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 401);
    assert_eq!(front.ask(&of_alice(NEW)).await.status, 200);
}

#[tokio::test]
async fn attack_06_a_key_is_revoked_while_the_policies_are_refused() {
    let (echo, scratch) = (Echo::start().await, Scratch::new());
    let keys = scratch.write("keys", OLD);
    let text = with(echo.address, &jwt(&keys), GENEROUS);
    let (front, mut reloader) = start(&scratch, &text).await;
    scratch.write("limits.yaml", "policies: [{ name: a }]");
    assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
    fs::write(&keys, NEW).unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 401);
    assert_eq!(front.ask(&of_alice(NEW)).await.status, 200);
    assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged));
}

#[tokio::test]
async fn attack_06_a_key_is_revoked_while_another_file_is_broken() {
    let (echo, scratch) = (Echo::start().await, Scratch::new());
    let (keys, secret) = (scratch.write("keys", OLD), scratch.write("secret", "blue\n"));
    let rules =
        format!("  request_headers: {{ set: {{ x-team: {{ file: {} }} }} }}", secret.display());
    let text = with(echo.address, &format!("{}\n{rules}", jwt(&keys)), GENEROUS);
    let (front, mut reloader) = start(&scratch, &text).await;
    assert_eq!(fields(&front.ask(&of_alice(OLD)).await.json(), "x-team"), ["blue"]);
    fs::write(&secret, "").unwrap();
    fs::write(&keys, NEW).unwrap();
    let ReloadOutcome::FilesRefused(problems) = reloader.reload() else { panic!("accepted") };
    assert!(problems.len() == 1 && problems[0].contains("secret: empty"), "{problems:?}");
    assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged), "it is reported once");
    reloader.request().ask();
    assert!(matches!(reloader.reload(), ReloadOutcome::FilesRefused(_)), "or to whoever asks");
    assert_eq!(front.ask(&of_alice(OLD)).await.status, 401);
    assert_eq!(fields(&front.ask(&of_alice(NEW)).await.json(), "x-team"), ["blue"]);
    fs::write(&secret, "green").unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::FilesChanged));
    assert_eq!(fields(&front.ask(&of_alice(NEW)).await.json(), "x-team"), ["green"]);
    assert_eq!(front.app.reload_problem(), None);
}

#[tokio::test]
async fn attack_15_values_of_headers_come_from_files_and_from_the_environment() {
    let (echo, scratch) = (Echo::start().await, Scratch::new());
    let secret = scratch.write("secret", "s3cr3t\n");
    let rules = format!(
        "  request_headers: {{ set: {{ x-key: {{ file: {} }} }}, add: {{ x-dir: {{ env: \
         CARGO_MANIFEST_DIR }} }} }}",
        secret.display()
    );
    let text = with(echo.address, &rules, GENEROUS);
    let (front, _) = follow(&scratch, &text).await;
    let seen = front.get("/").await.json();
    assert_eq!(fields(&seen, "x-key"), ["s3cr3t"]);
    assert_eq!(fields(&seen, "x-dir"), [env!("CARGO_MANIFEST_DIR")]);
    fs::write(&secret, "an0ther").unwrap();
    soon(async {
        while fields(&front.get("/").await.json(), "x-key") != ["an0ther"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let absent = rules.replace("CARGO_MANIFEST_DIR", "TIDEGATE_NOBODY_SETS_THIS");
    let refused = front.try_reload(&with(echo.address, &absent, GENEROUS)).unwrap_err().to_string();
    assert!(
        refused.contains("$TIDEGATE_NOBODY_SETS_THIS: not set (the value of x-dir)"),
        "{refused}"
    );
    fs::write(&secret, "hunter2\nhunter2").unwrap();
    let refused = front.try_reload(&text).unwrap_err().to_string();
    assert!(
        refused.contains("not a valid field value") && !refused.contains("hunter2"),
        "{refused}"
    );
}
