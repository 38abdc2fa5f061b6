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

/// The page at /docs shows each request as a command to copy. The shell must read it as it was meant.
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_page_can_be_pasted() {
    let (Some(node), Some(_)) = (peer("node"), peer("curl")) else { return };
    let server = Server::start().await;
    let scratch = tidegate_testkit::Scratch::new();
    let code = include_str!("../src/transport/http/docs/curl.js");
    let script = r#"
        import { curl, fieldsIn } from './curl.mjs';
        const url = process.argv[2];
        const body = JSON.stringify({ policy: 'demo', key: "it's $HOME `id` \\ \"é\"\n" });
        const fields = fieldsIn('X-Forwarded-Uri: /a b\nnonsense\nX-Forwarded-Host: example.org');
        console.log(curl({ method: 'POST', url: `${url}/v1/check`, body }));
        console.log(curl({ method: 'GET', url: `${url}/v1/authz`, fields }));
        console.log(curl({ method: 'DELETE', url: `${url}/healthz` }));
    "#;
    scratch.write("curl.mjs", code);
    let file = scratch.write("use.mjs", script);
    let url = format!("http://{}", server.address);
    let output = Command::new(node).arg(file).arg(url).output().unwrap();
    let commands = String::from_utf8(output.stdout).unwrap();
    assert_eq!(commands.lines().count(), 3, "{}", String::from_utf8_lossy(&output.stderr));
    let mut answers = commands.lines().map(|command| {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let check = answers.next().unwrap();
    assert!(check.starts_with("HTTP/1.1 200 ") && check.contains(r#""remaining":9"#), "{check}");
    let authz = answers.next().unwrap();
    assert!(authz.starts_with("HTTP/1.1 "), "{authz}");
    assert!(answers.next().unwrap().starts_with("HTTP/1.1 405 "), "{commands}");
    // The key arrived with every character.
    let key = r#"{"policy": "demo", "key": "it's $HOME `id` \\ \"é\"\n", "cost": 0}"#;
    assert_eq!(server.check(key).await.json()["remaining"], 9);
}

/// What the document does not say, because generators of clients would make noise of it: proxies use the
/// method of the client's request, so `/v1/authz` answers all; and a batch with an invalid item is answered
/// with 200, and a problem in its place.
const EXCEPTIONS: &str = r#"
[phases.coverage]
unexpected-methods = ["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]

[[operations]]
include-path = "/v1/authz"
phases.coverage.unexpected-methods = []

[[operations]]
include-path = "/v1/check/batch"
checks.negative_data_rejection.expected-statuses = ["200", "400", "408", "413"]
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
    std::fs::write(directory.join("schemathesis.toml"), EXCEPTIONS).unwrap();
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
