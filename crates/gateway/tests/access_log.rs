//! The lines of the access log.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::{Value, json};
use support::echo::Echo;
use support::{Front, request, soon, with};

#[tokio::test]
async fn requests_are_written_down() {
    let echo = Echo::start().await;
    let file = std::env::temp_dir().join(format!("tidegate-access-{}", std::process::id()));
    let log = |keys: &str| format!("  access_log: {{ file: {}, keys: {keys} }}", file.display());
    let policies = "[{ name: p, key: ['header:x-user'], limits: [1/minute] }]";
    let mut lines = Vec::new();
    for keys in ["hashed", "plain"] {
        let mut front = Front::start(&with(echo.address, &log(keys), policies)).await;
        for _ in 0..2 {
            let fields = "x-user: \"alice\"\r\nuser-agent: test/1\r\n";
            front.ask(&request("GET", "/a/../b?secret=1", fields)).await;
        }
        front.ask("GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n").await;
        front.stop();
        let Front { app, gateway, .. } = front;
        drop((app, gateway));
        // The last holder of the log closes it.
        let read = || std::fs::read_to_string(&file).unwrap_or_default();
        soon(async {
            while read().lines().count() < 3 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        lines = read().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        let line = &lines[0];
        for (member, value) in [
            ("method", json!("GET")),
            ("host", json!("a")),
            ("path", json!("/b")),
            ("route", json!("up")),
            ("status", json!(200)),
            ("user_agent", json!("test/1")),
            ("policy", json!("p")),
            ("allowed", json!(true)),
            ("upstream", json!(format!("up http://{}", echo.address))),
        ] {
            assert_eq!(line[member], value, "{line}");
        }
        assert!(line["bytes"].as_u64().unwrap() > 100 && line["ms"].is_u64(), "{line}");
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!((&lines[1]["status"], &lines[1]["allowed"]), (&json!(429), &json!(false)));
        assert_eq!(lines[2]["status"], 400);
        let shown = line["attributes"]["header:x-user"].as_str().unwrap();
        assert_eq!(shown == "\"alice\"", keys == "plain");
        assert_eq!(line["ip"] == "127.0.0.1", keys == "plain");
        assert_eq!(lines[0]["ip"], lines[1]["ip"]);
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(lines.len(), 3);
}
