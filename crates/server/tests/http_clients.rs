//! Third-party programs against a real server: curl, and schemathesis with our own document.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::path::Path;
use std::process::Command;

use support::Server;
use tidegate_testkit::peer;

#[tokio::test(flavor = "multi_thread")]
async fn curl_as_in_the_readme() {
    let Some(curl) = peer("curl") else { return };
    let server = Server::start().await;
    let ask = |path: &str, body: &str| {
        let url = format!("http://{}{path}", server.address);
        let output = Command::new(&curl).args(["-s", "-i", "-d", body, &url]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let check = r#"{"policy": "demo", "key": "alice", "cost": 10}"#;
    let answer = ask("/v1/check", check);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("ratelimit: \"demo\";r=0;t=60\r\n"), "{answer}");
    let answer = ask("/v1/check", check);
    assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
    assert!(answer.contains("retry-after: 120\r\n"), "{answer}");
    let answer = ask("/v1/refund", r#"{"policy": "demo", "key": "alice", "amount": 3}"#);
    assert!(answer.contains(r#""remaining":3"#), "{answer}");
    let answer = ask("/v1/check/batch", &format!(r#"{{"checks": [{check}, {{}}]}}"#));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(r#""member":"checks[1]""#), "{answer}");
}

/// The methods that OpenAPI can name. Proxies use the method of the client's request, so
/// `/v1/authz` answers others too (`QUERY`, say), which no document can express.
const METHODS: &str = r#"
[phases.coverage]
unexpected-methods = ["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]
"#;

/// Everything that the document promises and forbids, tried out. `TIDEGATE_FUZZ_EXAMPLES` makes it
/// try harder.
#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing() {
    let Some(schemathesis) = peer("schemathesis") else { return };
    // The document cannot say which attributes a named policy needs; so this policy needs none.
    let server = Server::of(
        "policies: [
          { name: demo, key: [{ attribute: key, default: none }], limits: [1000000/minute] },
          { name: others, key: [user], limits: [1000000/minute] }]",
    )
    .await;
    let examples = std::env::var("TIDEGATE_FUZZ_EXAMPLES").unwrap_or_else(|_| "15".to_owned());
    let url = format!("http://{}/openapi.json", server.address);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(directory.join("schemathesis.toml"), METHODS).unwrap();
    let output = Command::new(schemathesis)
        .current_dir(directory)
        .args([
            "--config-file",
            "schemathesis.toml",
            "run",
            "--checks",
            "all",
            "--phases",
            "examples,coverage,fuzzing",
        ])
        .args(["--max-examples", &examples, "--seed", "7", "--no-color"])
        .args(["--generation-database", "none", &url])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
