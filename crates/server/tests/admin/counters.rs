//! What operators see, reset and refund.

use serde_json::{Value, json};
use tidegate_server::App;

use crate::admin_server::AdminServer;

#[tokio::test]
async fn peeks_take_nothing_resets_and_refunds_give_back() {
    let admin = AdminServer::open("").await;
    let alice = json!({ "policy": "api", "key": "alice" });
    admin.passes("alice").await;
    let seen = admin.post("/peek", alice.clone()).await;
    assert_eq!(seen["decision"]["remaining"], 1);
    let key = seen["keys"]["api"].as_str().unwrap().to_owned();
    assert!(key.starts_with('#') && key.len() == 17, "{key}");
    admin.passes("alice").await;
    assert!(!admin.passes("alice").await);
    admin.post("/refund", json!({ "policy": "api", "key": "alice", "amount": 1 })).await;
    assert!(admin.passes("alice").await);
    assert!(!admin.passes("alice").await);
    let reset = admin.post("/reset", json!({ "attributes": { "user": "alice" } })).await;
    assert_eq!(reset, json!({ "policies": ["api"], "counters": 1 }));
    assert_eq!(admin.post("/peek", alice).await["decision"]["remaining"], 2);
    let top = admin.get("/top").await;
    assert_eq!(top["busiest"][0]["key"], key, "by the same name as in a peek");
    for (body, expected) in [
        (json!({ "policy": "pair", "key": "x" }), "tells callers apart by tenant and user"),
        (json!({ "key": "x" }), "a key without a policy"),
        (json!({ "attributes": {} }), "no limit applies"),
    ] {
        let said = admin.ask("POST", "/reset", &body).await.problem(400);
        assert!(said.contains(expected), "{said}");
    }
    let pair = json!({ "policy": "pair", "attributes": { "tenant": "t", "user": "u" } });
    assert_eq!(admin.post("/reset", pair).await["counters"], 1);
    let list = json!(["api", "alice", {}, 1]);
    let said = admin.ask("POST", "/reset", &list).await.problem(400);
    assert!(said.starts_with("the body is [") && said.contains("expected an object"), "{said}");
    let nothing = json!({ "policy": "api", "key": "alice", "amount": 0 });
    admin.ask("POST", "/refund", &nothing).await.problem(400);
}

#[tokio::test]
async fn policies_status_and_top_are_what_happened() {
    let admin = AdminServer::of("", App::with_shown_keys).await;
    for _ in 0..3 {
        admin.passes("alice").await;
    }
    admin.passes("bob").await;
    let policies = admin.get("/policies").await;
    assert_eq!(policies["policies"][0]["name"], "api", "the busiest first");
    assert_eq!(policies["policies"][0]["allowed"], 3);
    assert_eq!(policies["policies"][0]["denied"], 1);
    let status: tidegate_wire::admin::ServerStatus =
        serde_json::from_value(admin.get("/status").await).unwrap();
    assert_eq!(status.policies.len(), 2);
    assert_eq!(status.policies[0].limits, ["2/hour"]);
    assert_eq!(status.store.keys, Some(2));
    assert!(status.store.max_keys > Some(2) && status.store.max_bytes > status.store.bytes);
    assert_eq!((status.store.overflowed, status.policies[0].overflowed), (Some(0), Some(0)));
    assert!(!status.store.is_remote && !status.store.breaker_open);
    let shown = |keys: &[tidegate_wire::admin::TopKey]| -> Vec<(String, u64)> {
        keys.iter().map(|key| (key.key.clone(), key.count)).collect()
    };
    assert_eq!(shown(&status.top.busiest), [("alice".to_owned(), 3), ("bob".to_owned(), 1)]);
    assert_eq!(shown(&status.top.denied), [("alice".to_owned(), 1)]);
}

#[tokio::test]
async fn without_a_file_there_is_nothing_to_reload() {
    let admin = AdminServer::open("").await;
    let said = admin.ask("POST", "/reload", &Value::Null).await.problem(409);
    assert!(said.contains("--config"), "{said}");
}
