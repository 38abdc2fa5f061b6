//! The official Python client, with messages built from the descriptors that we expose.

use std::process::Command;

use serde_json::{Value, json};

use super::support::Server;

const FILE: &str = "
domain: edge
descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }]
";

#[tokio::test(flavor = "multi_thread")]
async fn grpcio_is_told_what_envoy_would_be() {
    let Some(python) = tidegate_testkit::peer("python") else { return };
    let server = Server::start(FILE).await;
    let port = server.address.port().to_string();
    let root = env!("CARGO_MANIFEST_DIR");
    let asked = tokio::task::spawn_blocking(move || {
        Command::new(python)
            .arg(format!("{root}/tests/grpc/client.py"))
            .args([port, format!("{root}/../wire/src/generated/descriptors.bin")])
            .output()
            .unwrap()
    });
    let output = asked.await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ModuleNotFoundError") {
        tidegate_testkit::skipped("grpcio or protobuf");
        return;
    }
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    assert_eq!(told[0]["overallCode"], "OK");
    let status = &told[0]["statuses"][0];
    let limit = json!({ "name": "edge.user", "requestsPerUnit": 3, "unit": "MINUTE" });
    assert_eq!((&status["currentLimit"], &status["limitRemaining"]), (&limit, &json!(2)));
    assert_eq!(status["durationUntilReset"], "60s");
    assert_eq!(told[3]["overallCode"], "OVER_LIMIT");
    let names: Vec<_> = told[3]["responseHeadersToAdd"].as_array().unwrap().iter().collect();
    assert!(names.contains(&&json!({ "key": "retry-after", "value": "60" })), "{names:?}");
    // One was refunded, which shows; a limit that comes with the request has its own counter.
    assert_eq!(told[4]["statuses"][0]["limitRemaining"], 1);
    assert_eq!(told[5]["statuses"][0]["limitRemaining"], 1);
    assert_eq!(told[6]["statuses"][0]["limitRemaining"], 8);
    assert_eq!(told[7]["overallCode"], "OVER_LIMIT");
    let expected = json!({ "refused": "malformed", "detail": "domain is empty: expected a name" });
    assert_eq!(told[7]["dynamicMetadata"], expected);
}
