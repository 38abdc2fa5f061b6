//! The settings that a plan carries for other crates.

use tidegate_core::Span;
use tidegate_policy::{OnStoreError, PolicyMode, Precision};

use super::{plan, request_charges};

#[test]
fn every_address_of_a_redis_is_a_store() {
    for store in [
        "memory",
        "redis://h",
        "rediss://h",
        "redis+unix:///run/redis.sock",
        "unix:///run/redis.sock",
        "redis+sentinel://h/main",
        "rediss+sentinel://h/main",
        "redis+cluster://h",
        "rediss+cluster://h",
    ] {
        let text = format!("store: {store}\npolicies: [{{ name: a, key: [], limits: [1/s] }}]");
        assert_eq!(plan(&text).settings().store(), Some(store));
    }
}

#[test]
fn what_the_limiter_needs_is_carried_along() {
    let plan = plan(
        "
store: redis://secret@localhost
defaults: { on_store_error: open, store_deadline: 20ms, precision: exact, algorithm: fixed-window }
policies:
  - name: a
    key: [ip]
    limits: [5/minute]
    block_for: 15m
    mode: shadow
    on_store_error: closed
    store_deadline: 5ms
    precision: { leased: { max_over: 2.5% } }
    tiers: [{ when: { x: y }, limits: 50/s }]
  - { name: b, key: [], limits: [5/minute], count_denied: true, stagger: true }
  - { name: c, key: [], limits: [5/s], mode: off }
"
        .replace("5/minute]\n    block", "50/minute]\n    block")
        .as_str(),
    );
    let [a, b, c] = plan.policies() else { panic!() };
    assert_eq!(
        (a.mode(), b.mode(), c.mode()),
        (PolicyMode::Shadow, PolicyMode::Enforce, PolicyMode::Off)
    );
    assert_eq!(a.on_store_error(), OnStoreError::Closed);
    assert_eq!(b.on_store_error(), OnStoreError::Open);
    assert_eq!(
        (a.store_deadline(), b.store_deadline()),
        (Span::from_millis(5), Span::from_millis(20))
    );
    assert_eq!(a.precision(), Precision::Leased { max_over_permille: 25 });
    assert_eq!(b.precision(), Precision::Exact);
    let block = a.block().unwrap();
    assert_eq!(block.span, Span::from_secs(900));
    assert_ne!(block.rule.id, a.rules()[0].id);
    assert!(!a.rules()[0].enforced && !block.rule.enforced && b.rules()[0].staggered);
    assert_eq!(plan.settings().store(), Some("redis://secret@localhost"));
    assert!(!format!("{plan:?}").contains("secret"));
    assert_eq!(request_charges(&plan, &[]), ["b 5/minute 1"]);
}
