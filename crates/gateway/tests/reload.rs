//! Replaces the plan while requests arrive.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::echo::Echo;
use support::{Front, front, with};
use tidegate::config::PolicySource;
use tidegate_gateway::config::SECTIONS;
use tidegate_server::{PlanReloader, ReloadOutcome};

const TWO: &str = "[{ name: p, key: [ip], limits: [2/minute] }]";
const NINE: &str = "[{ name: p, key: [ip], limits: [9/minute] }]";
const SECRET: &str = "a secret of at least thirty-two bytes, as it should be";

/// The path of a file for one test only.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-reload-{name}-{}", std::process::id()))
}

fn jwt(keys: &Path) -> String {
    format!("  jwt: {{ keys: {}, algorithms: HS256 }}", keys.display())
}

/// The limit per minute, as the response reports it.
async fn limit(front: &Front) -> String {
    let reply = front.get("/").await;
    let said = reply.header("ratelimit-policy").unwrap().to_owned();
    said.split(";q=").nth(1).unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_reload_changes_routes_and_limits_and_keeps_counters() {
    let (one, two) = (Echo::start().await, Echo::start().await);
    let policy = "[{ name: p, key: [ip], limits: [3/minute] }]";
    let front = front(one.address, policy).await;
    let mut client = front.connect().await;
    assert_eq!(client.get("/").await.status, 200);
    front.reload(&with(two.address, "", policy));
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one.requests(), two.requests()), (1, 1));
    // A missing file leaves everything unchanged.
    assert!(front.try_reload(&with(one.address, &jwt(Path::new("/nowhere")), policy)).is_err());
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one.requests(), two.requests()), (1, 2));
    assert_eq!(client.get("/").await.status, 429);
}

#[tokio::test]
async fn a_plan_that_the_gateway_cannot_follow_does_not_take_effect_anywhere() {
    let echo = Echo::start().await;
    let front = front(echo.address, TWO).await;
    assert_eq!(limit(&front).await, "2");
    let secure = format!("up: {{ urls: 'https://{}', ca: /nowhere/ca.pem }}", echo.address);
    for (text, why) in [
        (with(echo.address, &jwt(Path::new("/nowhere/keys")), NINE), "/nowhere/keys"),
        (with(echo.address, "  access_log: { file: /nowhere/log }", NINE), "/nowhere/log"),
        (format!("gateway: {{ upstreams: {{ {secure} }} }}\npolicies: {NINE}"), "/nowhere/ca.pem"),
        (format!("policies: {NINE}"), "no gateway"),
    ] {
        let refused = front.try_reload(&text).unwrap_err().to_string();
        assert!(refused.starts_with("test: ") && refused.contains(why), "{refused}");
    }
    assert_eq!(limit(&front).await, "2");
}

#[tokio::test]
async fn files_are_read_when_a_plan_is_loaded_and_not_by_requests() {
    let echo = Echo::start().await;
    let front = front(echo.address, TWO).await;
    assert_eq!(limit(&front).await, "2");
    let keys = scratch("keys");
    std::fs::write(&keys, SECRET).unwrap();
    front.reload(&with(echo.address, &jwt(&keys), NINE));
    std::fs::remove_file(&keys).unwrap();
    assert_eq!(limit(&front).await, "9");
    // An operator changes only limits: the rest of the plan is unchanged, and is not read again.
    let amended = PolicySource::new("test", with(echo.address, &jwt(&keys), TWO))
        .unwrap()
        .with_sections(SECTIONS);
    front.app.limiter().reload(&amended).unwrap();
    assert_eq!(limit(&front).await, "2");
}

#[tokio::test]
async fn a_plan_takes_effect_when_the_file_that_it_misses_comes() {
    let echo = Echo::start().await;
    let (file, keys) = (scratch("late.yaml"), scratch("late-keys"));
    std::fs::write(&file, with(echo.address, "", TWO)).unwrap();
    let source = PolicySource::read(&file).unwrap().with_sections(SECTIONS);
    let front = Front::start(source.text()).await;
    assert_eq!(limit(&front).await, "2");
    front.app.add_extension(&front.gateway);
    let mut reloader = PlanReloader::new(Arc::clone(&front.app), &file, &source);
    std::fs::write(&file, with(echo.address, &jwt(&keys), NINE)).unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
    assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged), "it is still missing");
    std::fs::write(&keys, SECRET).unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::Changed));
    assert_eq!(limit(&front).await, "9");
    for path in [file, keys] {
        let _ = std::fs::remove_file(path);
    }
}
