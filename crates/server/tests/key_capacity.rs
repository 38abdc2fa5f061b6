//! A flood of one policy's keys, or of limits that come with requests, does not displace other policies.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

use tidegate::config::PolicySource;
use tidegate::{ChargeIntent, Cost, MemoryStore};
use tidegate_server::App;

const POLICIES: &str = "policies:
- { name: search, match: { path: /search }, key: [q], limits: [10/day] }
- { name: login, match: { path: /login }, key: [ip], limits: [5/minute] }
";

fn app() -> App {
    let source = PolicySource::new("limits.yaml", POLICIES).unwrap();
    App::load(&source, MemoryStore::builder().max_keys(1_000).build()).unwrap()
}

async fn search(app: &App, made_up: u32) {
    let plan = app.limiter().plan();
    let asked = [("path", "/search"), ("q", &*made_up.to_string())];
    let _ = app.decide(&plan.charges(&asked, Cost::ONE), ChargeIntent::Take).await;
}

/// How many of these addresses, after six logins each, were admitted exactly five times.
async fn log_in(app: &App, addresses: u8) -> usize {
    let (plan, mut fair) = (app.limiter().plan(), 0);
    for address in 0..addresses {
        let asked = [("path", "/login"), ("ip", &*format!("203.0.113.{address}"))];
        let mut admitted = Vec::new();
        for _ in 0..6 {
            let request_charges = plan.charges(&asked, Cost::ONE);
            admitted.push(app.decide(&request_charges, ChargeIntent::Take).await.is_allowed());
        }
        fair += usize::from(admitted == [true, true, true, true, true, false]);
    }
    fair
}

async fn overflowed(app: &App, policy: &str) -> u64 {
    let sample = format!("tidegate_overflowed_total{{policy=\"{policy}\"}} ");
    let page = app.metrics_page().await;
    page.lines().find_map(|line| line.strip_prefix(&sample)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn made_up_keys_of_a_public_policy_leave_room_for_logins() {
    let app = app();
    for made_up in 0..3_000 {
        search(&app, made_up).await;
    }
    assert_eq!(log_in(&app, 80).await, 80);
    assert_eq!(app.overflowing().await, ["search"]);
    assert_eq!(overflowed(&app, "search").await, 2_300);
    assert_eq!((overflowed(&app, "login").await, overflowed(&app, "").await), (0, 0));
}

#[tokio::test]
async fn limits_that_come_with_requests_leave_room_for_logins() {
    let app = app();
    for number in 0..3_000_u32 {
        let limit = format!("5/{}s burst 5", 86_400 + number).parse().unwrap();
        let asked = app.limiter().plan().ad_hoc("cl.throttle", limit, &*number.to_string());
        let _ = app.decide(&asked.request_charges(Cost::ONE), ChargeIntent::Take).await;
    }
    assert_eq!(log_in(&app, 80).await, 80);
    assert_eq!(app.overflowing().await, [""; 0]);
    assert_eq!((overflowed(&app, "login").await, overflowed(&app, "").await), (0, 2_300));
}

#[tokio::test]
async fn what_overflowed_never_falls_when_policies_come_and_go() {
    let app = app();
    for made_up in 0..3_000 {
        search(&app, made_up).await;
    }
    let number = async |policy| (overflowed(&app, policy).await, overflowed(&app, "").await);
    assert_eq!(number("search").await, (2_300, 0));
    // Limits that came with requests belong to no policy.
    let limit = "5/day burst 5".parse().unwrap();
    for number in 0..200_u32 {
        let asked = app.limiter().plan().ad_hoc("cl.throttle", limit, &*number.to_string());
        let _ = app.decide(&asked.request_charges(Cost::ONE), ChargeIntent::Take).await;
    }
    let others = overflowed(&app, "").await;
    assert!(others > 0);
    let without = POLICIES.lines().filter(|line| !line.contains("search"));
    let without = without.collect::<Vec<_>>().join("\n");
    for text in [&*without, POLICIES, &*without, POLICIES] {
        app.reload(&PolicySource::new("limits.yaml", text.to_owned()).unwrap()).unwrap();
        assert_eq!(overflowed(&app, "").await, others);
        assert_eq!(overflowed(&app, "login").await, 0);
    }
    assert_eq!(number("search").await, (2_300, others));
    search(&app, 3_000).await;
    assert_eq!(number("search").await, (2_301, others));
    // A request in progress when its policy was removed belongs to no policy, even if the policy returns.
    let old = app.limiter().plan();
    let reload =
        |text: &str| app.reload(&PolicySource::new("limits.yaml", text.to_owned()).unwrap());
    reload(&without).unwrap();
    let asked = [("path", "/search"), ("q", "late")];
    let _ = app.decide(&old.charges(&asked, Cost::ONE), ChargeIntent::Take).await;
    assert_eq!(overflowed(&app, "").await, others + 1);
    reload(POLICIES).unwrap();
    assert_eq!(number("search").await, (2_301, others + 1));
}
