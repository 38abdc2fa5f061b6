//! Overrides and modes that are set for a limited time.

use serde_json::{Value, json};
use tidegate::config::PolicySource;

use crate::admin_server::{AdminServer, FILE};

#[tokio::test]
async fn an_override_is_obeyed_at_once_seen_and_removed() {
    let admin = AdminServer::open("").await;
    for expected in [true, true, false] {
        assert_eq!(admin.passes("42").await, expected);
    }
    let body =
        json!({ "policy": "api", "key": "user=42", "limits": ["5/hour"], "expires_in": "1h" });
    let set = admin.post("/overrides", body).await;
    assert_eq!(set, json!({ "policy": "api", "expires_in_secs": 3600 }));
    for expected in [true, true, true, false] {
        assert_eq!(admin.passes("42").await, expected, "the count is kept, the limit is another");
    }
    let listed = admin.get("/overrides").await;
    assert_eq!(listed["overrides"][0]["key"], "user=42");
    assert_eq!(listed["overrides"][0]["limits"], json!(["5/hour"]));
    assert!(listed["overrides"][0]["expires_in_secs"].as_u64().unwrap() <= 3_600);
    // The override survives a reload.
    let text = FILE.replace("2/hour", "3/hour");
    admin.app.reload(&PolicySource::new("limits.yaml", text).unwrap()).unwrap();
    assert!(!admin.passes("42").await);
    assert_eq!(admin.get("/policies/api").await["overrides"], 1);

    let which = json!({ "policy": "api", "key": "user=42" });
    assert_eq!(admin.ask("DELETE", "/overrides", &which).await.status, 200);
    assert_eq!(admin.get("/overrides").await["overrides"], json!([]));
    admin.ask("DELETE", "/overrides", &which).await.problem(404);
}

#[tokio::test]
async fn who_is_unlimited_is_seen_as_such() {
    let admin = AdminServer::open("").await;
    let unlimited =
        json!({ "policy": "api", "key": "user=42", "limits": ["unlimited"], "expires_in": "1h" });
    admin.post("/overrides", unlimited).await;
    for _ in 0..5 {
        assert!(admin.passes("42").await);
    }
    for whom in [json!({ "policy": "api", "key": "42" }), json!({ "attributes": { "user": "42" } })]
    {
        let seen = admin.post("/peek", whom.clone()).await;
        assert_eq!(
            seen["decision"],
            json!({
                "allowed": true, "policy": "api", "reason": "within_limit", "limit": null,
                "remaining": null, "retry_after_ms": null, "reset_after_ms": null,
                "source": "none", "limits": [],
            })
        );
        let reset = admin.post("/reset", whom).await;
        assert_eq!(reset, json!({ "policies": [], "counters": 0 }));
    }
    assert_eq!(admin.get("/policies/api").await["allowed"], 5);
    assert_eq!(admin.get("/status").await["unmatched"], 0);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_as_in_a_file_and_changes_nothing() {
    let admin = AdminServer::open("").await;
    let body = |key: &str, limit: &str, lasts: &str| json!({ "policy": "api", "key": key, "limits": [limit], "expires_in": lasts });
    for (body, expected) in [
        (body("user=1", "5/minit", "1h"), "unknown unit \"minit\""),
        (body("usr=1", "5/minute", "1h"), "did you mean \"user\"?"),
        (body("user=1", "5/minute", "0s"), "expected a time above 0, at most 400d"),
        (body("user=1", "5/minute", "soon"), "\"soon\""),
    ] {
        let said = admin.ask("POST", "/overrides", &body).await.problem(400);
        assert!(said.contains(expected), "{said}");
    }
    let unknown =
        json!({ "policy": "apo", "key": "user=1", "limits": ["1/s"], "expires_in": "1h" });
    assert!(admin.ask("POST", "/overrides", &unknown).await.problem(404).contains("api"));
    let mode = admin.ask("POST", "/policies/api/mode", &json!({ "mode": "on" })).await;
    assert_eq!(mode.problem(400), "`mode` is \"on\": expected enforce, shadow or off");
    assert_eq!(admin.get("/overrides").await["overrides"], json!([]));
}

#[tokio::test]
async fn a_body_that_makes_no_sense_is_refused_by_its_member() {
    let admin = AdminServer::open("").await;
    let with = |name: &str, value: Value| {
        let mut body =
            json!({ "policy": "api", "key": "user=1", "limits": ["1/s"], "expires_in": "1h" });
        body[name] = value;
        body
    };
    let limits = "expected a list of limits such as \"5/minute\", or \"unlimited\"";
    for (path, body, member, said) in [
        ("overrides", json!({ "policy": "api", "key": "a" }), "limits", "`limits` is missing: "),
        ("overrides", with("limits", json!(5)), "limits", limits),
        ("overrides", with("limits", json!([5])), "limits", "`limits` is [5]: expected a list"),
        ("overrides", with("key", json!(1)), "key", "`key` is 1: expected a string"),
        ("overrides", with("key", Value::Null), "key", "`key` is null: expected a string"),
        (
            "overrides",
            with("polici", json!("")),
            "polici",
            "`polici` is unknown: expected policy, key, limits or expires_in",
        ),
        ("overrides", with("expires_in", json!("soon")), "expires_in", "is \"soon\": expected"),
        ("policies/api/mode", json!({}), "mode", "`mode` is missing: expected a string"),
        (
            "peek",
            json!({ "attributes": { "user": 1 } }),
            "attributes.user",
            "is 1: expected a string",
        ),
        ("peek", json!({ "attributes": [] }), "attributes", "is []: expected an object whose"),
        ("refund", json!({ "amount": -1 }), "amount", "`amount` is -1: expected a whole number"),
    ] {
        let reply = admin.ask("POST", &format!("/{path}"), &body).await;
        let problem = reply.json();
        assert_eq!((reply.status, &problem["member"]), (400, &json!(member)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    let nothing = admin.ask("POST", "/peek", &json!([])).await.problem(400);
    assert_eq!(
        nothing,
        "the body is []: expected an object with policy, key, attributes and amount"
    );
}

#[tokio::test]
async fn limits_may_be_one_limit_as_in_a_file() {
    let admin = AdminServer::open("").await;
    let body = |limits: &str| json!({ "policy": "api", "key": "user=42", "limits": limits, "expires_in": "1h" });
    admin.post("/overrides", body("unlimited")).await;
    for _ in 0..5 {
        assert!(admin.passes("42").await);
    }
    admin.post("/overrides", body("1/hour")).await;
    assert!(admin.passes("42").await && !admin.passes("42").await);
}

#[tokio::test]
async fn a_mode_lasts_until_it_is_taken_back() {
    let admin = AdminServer::open("").await;
    admin.post("/policies/api/mode", json!({ "mode": "shadow", "expires_in": "1h" })).await;
    for _ in 0..5 {
        assert!(admin.passes("42").await);
    }
    let policy = admin.get("/policies/api").await;
    assert_eq!((&policy["mode"], &policy["shadow_denied"]), (&json!("shadow"), &json!(3)));
    assert_eq!(admin.ask("DELETE", "/policies/api/mode", &Value::Null).await.status, 200);
    assert!(!admin.passes("42").await);
}
