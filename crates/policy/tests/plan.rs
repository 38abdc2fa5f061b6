//! What requests owe under a plan.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use tidegate_core::{Cost, Span};
use tidegate_policy::{Mode, OnStoreError, Plan, Precision, Source};

fn plan(text: &str) -> Plan {
    let source = Source::new("test.yaml", text).unwrap();
    Plan::compile(&source).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The policies that apply, with their limits.
fn owed(plan: &Plan, request: &[(&str, &str)]) -> Vec<String> {
    let owed = plan.charges(request, Cost::ONE);
    let charges = owed.charges().iter().enumerate();
    charges
        .map(|(index, charge)| {
            let name = owed.policy(index).unwrap().name();
            format!("{name} {} {}", charge.rule().limit.quota(), charge.cost().get())
        })
        .collect()
}

fn counters(plan: &Plan, request: &[(&str, &str)]) -> Vec<tidegate_core::Fingerprint> {
    plan.charges(request, Cost::ONE).charges().iter().map(tidegate_core::Charge::counter).collect()
}

fn same(plan: &Plan, a: &[(&str, &str)], b: &[(&str, &str)]) -> bool {
    let (a, b) = (counters(plan, a), counters(plan, b));
    assert!(!a.is_empty() && !b.is_empty());
    a == b
}

#[test]
fn policies_that_match_apply_together() {
    let plan = plan(
        "
policies:
  - { name: login, match: { path: /login, method: POST }, key: [ip], limits: [5/minute, 20/hour] }
  - { name: api, match: { path: /api/**, method: [GET, HEAD] }, key: [user], limits: 100/minute }
  - { name: not-health, match: { path: !/health }, key: [], limits: [1000/s] }
  - { name: bots, match: { agent: bot-* }, key: [], limits: [1/s] }
",
    );
    let login = [("path", "//login/?x"), ("method", "POST"), ("ip", "1.2.3.4")];
    assert_eq!(owed(&plan, &login), ["login 5/1m 1", "login 20/1h 1", "not-health 1000/1s 1"]);
    let api = [("path", "/api/x"), ("method", "HEAD"), ("user", ""), ("agent", "bot-7")];
    assert_eq!(owed(&plan, &api), ["api 100/1m 1", "not-health 1000/1s 1", "bots 1/1s 1"]);
    assert_eq!(owed(&plan, &[("path", "/health")]), [""; 0]);
    // What is not there is not /health.
    assert_eq!(owed(&plan, &[]), ["not-health 1000/1s 1"]);
}

#[test]
fn a_missing_attribute_skips_and_an_empty_one_does_not() {
    let plan = plan(
        "
policies:
  - { name: user, key: [user], limits: [1/s] }
  - name: tenant
    key: [{ attribute: tenant, default: none }, user]
    limits: [2/s]
",
    );
    assert_eq!(owed(&plan, &[("tenant", "a")]), [""; 0]);
    assert_eq!(owed(&plan, &[("user", "")]), ["user 1/1s 1", "tenant 2/1s 1"]);
    assert!(same(&plan, &[("user", "x")], &[("user", "x"), ("tenant", "none")]));
    assert!(!same(&plan, &[("user", "x")], &[("user", "x"), ("tenant", "")]));
}

#[test]
fn keys_are_brought_into_one_form() {
    let plan = plan(
        "
policies:
  - { name: ip, match: { kind: ip }, key: [ip], limits: [1/s] }
  - { name: path, match: { kind: path }, key: [path], limits: [1/s] }
  - { name: raw, match: { kind: raw }, key: [{ attribute: path, as: text }], limits: [1/s] }
  - { name: mail, match: { kind: mail }, key: [{ attribute: mail, as: lower }], limits: [1/s] }
  - { name: net, match: { kind: net }, key: [{ attribute: ip, prefix: 48 }], limits: [1/s] }
  - name: route
    match: { kind: route }
    key: [{ attribute: path, as: route, routes: ['/users/{id}', '/files/{*rest}'] }]
    limits: [1/s]
",
    );
    for (kind, name, a, b, expected) in [
        ("ip", "ip", "203.0.113.9", "::ffff:203.0.113.9", true),
        ("ip", "ip", "2001:db8::1", "2001:db8::ffff", true),
        ("ip", "ip", "2001:db8::1", "2001:db8:0:1::1", false),
        ("net", "ip", "2001:db8::1", "2001:db8:0:1::1", true),
        ("ip", "ip", "unix:", "unix", false),
        ("path", "path", "/a/./b?q", "/a/b", true),
        ("raw", "path", "/a/./b", "/a/b", false),
        ("mail", "mail", "Bob@Example.org", "bob@example.ORG", true),
        ("route", "path", "/users/1", "/users/2/", true),
        ("route", "path", "/users/1", "/files/1", false),
        ("route", "path", "/nowhere", "/else", true),
    ] {
        let request = |value| [("kind", kind), (name, value)];
        assert_eq!(same(&plan, &request(a), &request(b)), expected, "{kind} {a} {b}");
    }
}

#[test]
fn tiers_and_overrides_replace_limits() {
    let plan = plan(
        "
policies:
  - name: per-user
    key: [tenant, user]
    limits: [100/minute]
    tiers:
      - { when: { plan: pro }, limits: [10000/day] }
      - { when: { plan: banned }, limits: [0/second] }
      - { when: { plan: staff, tenant: '!a' }, limits: unlimited }
    overrides:
      'user=42, tenant=a': [1000/minute]
      'tenant=a,b,user=x=y': unlimited
",
    );
    let user = |tenant, user, plan_name| [("tenant", tenant), ("user", user), ("plan", plan_name)];
    for (request, expected) in [
        (user("a", "1", "free"), "per-user 100/1m 1"),
        (user("a", "1", "pro"), "per-user 10000/1d 1"),
        (user("a", "1", "banned"), "per-user 0/1s 1"),
        (user("a", "1", "staff"), "per-user 100/1m 1"),
        (user("b", "1", "staff"), ""),
        (user("a", "42", "banned"), "per-user 1000/1m 1"),
        (user("a,b", "x=y", "free"), ""),
    ] {
        assert_eq!(owed(&plan, &request).join(""), expected, "{request:?}");
    }
    // The same window is the same counter, whatever the quota.
    assert!(same(&plan, &user("a", "1", "free"), &user("a", "1", "free")));
}

#[test]
fn costs_multiply_and_nonsense_never_fits() {
    let plan = plan(
        "
policies:
  - { name: fixed, key: [], limits: [100/s], cost: 5 }
  - { name: tokens, key: [], limits: [100/s], cost: { attribute: tokens, default: 7 } }
",
    );
    let costs = |tokens: Option<&str>, cost: u64| -> Vec<u64> {
        let request: Vec<(&str, &str)> =
            tokens.map(|tokens| ("tokens", tokens)).into_iter().collect();
        let owed = plan.charges(&request, Cost::new(cost).unwrap());
        owed.charges().iter().map(|charge| charge.cost().get()).collect()
    };
    assert_eq!(costs(None, 1), [5, 7]);
    assert_eq!(costs(Some("3"), 2), [10, 6]);
    assert_eq!(costs(Some("3"), 0), [0, 0]);
    assert_eq!(costs(Some("0"), 1), [5, 0]);
    let most = tidegate_core::MAX_COUNT;
    for nonsense in ["", "-1", "1.5", "NaN", "99999999999999999999999"] {
        assert_eq!(costs(Some(nonsense), 1), [5, most + 1], "{nonsense}");
    }
    assert_eq!(costs(None, most), [most + 1, most + 1]);
}

#[test]
fn what_is_unlimited_is_not_nobodys() {
    let plan = plan(
        "
policies:
  - { name: api, key: [user], limits: [5/s], overrides: { 'user=42': unlimited } }
  - { name: paths, key: [path], limits: [9/s] }
",
    );
    let unlimited = |request: &[(&str, &str)]| {
        plan.charges(request, Cost::ONE).unlimited_by().map(|policy| policy.name().to_owned())
    };
    assert_eq!(unlimited(&[("user", "42")]).as_deref(), Some("api"));
    assert_eq!(unlimited(&[("user", "1")]), None);
    assert_eq!(unlimited(&[("user", "42"), ("path", "/")]), None, "the other one limits it");
    assert_eq!(unlimited(&[]), None);
}

#[test]
fn a_cost_that_is_no_number_is_named_unless_nobody_is_limited_by_it() {
    let fault = |policy: &str, tokens: &str| {
        let plan = plan(&format!(
            "policies: [{{ name: a, key: [], cost: {{ attribute: tokens }}, {policy} }}]"
        ));
        let owed = plan.charges(&[("tokens", tokens)], Cost::ONE);
        owed.cost_fault().map(ToString::to_string)
    };
    let expected = "expected a whole number from 0 to 1000000000000000";
    for nonsense in ["", "-1", "1.5", "NaN", "1000000000000001"] {
        let said = fault("limits: [100/s]", nonsense);
        assert_eq!(said, Some(format!("tokens is {nonsense:?}: {expected}")));
    }
    assert_eq!(fault("limits: [100/s]", "1000000000000000"), None);
    assert_eq!(fault("limits: unlimited", "x"), None);
    assert_eq!(fault("limits: [100/s], mode: shadow", "x"), None);
    assert_eq!(fault("limits: [100/s], mode: off", "x"), None);
    assert!(fault("limits: [100/s]", &"x".repeat(9_000)).unwrap().len() < 200);
}

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
    assert_eq!((a.mode(), b.mode(), c.mode()), (Mode::Shadow, Mode::Enforce, Mode::Off));
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
    assert_eq!(owed(&plan, &[]), ["b 5/1m 1"]);
}

#[test]
fn a_recompiled_plan_finds_its_counters() {
    let text = |limit| format!("policies: [{{ name: a, key: [user], limits: [{limit}] }}]");
    let request = [("user", "42")];
    let counter = |limit| counters(&plan(&text(limit)), &request);
    assert_eq!(counter("5/minute"), counter("50/minute"));
    assert_ne!(counter("5/minute"), counter("5/hour"));
    assert_ne!(counter("5/31d"), counter("5/calendar-month"));
}

#[test]
fn policies_with_the_same_key_share_the_subject_and_no_counter() {
    let plan = plan(
        "policies: [{ name: a, key: [user], limits: [1/s] }, { name: b, key: [user], limits: [1/s] }]",
    );
    let owed = plan.charges(&[("user", "42")], Cost::ONE);
    assert_eq!(owed.subject(0), owed.subject(1));
    assert_ne!(owed.charges()[0].counter(), owed.charges()[1].counter());
}

#[test]
fn more_limits_than_can_be_settled_are_noticed() {
    let policy = |n| format!("  - {{ name: p{n}, match: {{ x: '*' }}, key: [], limits: [1/s] }}\n");
    let text: String = (0..40).map(policy).collect();
    let plan = plan(&format!("policies:\n{text}"));
    let owed = plan.charges(&[("x", "")], Cost::ONE);
    assert_eq!(owed.charges().len(), Plan::MAX_CHARGES);
    assert!(owed.is_crowded());
}

#[test]
fn a_policy_can_be_asked_by_name() {
    let plan = plan("policies: [{ name: a, match: { x: y }, key: [user], limits: [1/s] }]");
    let owed = plan.charges_of("a", &[("user", "1")], Cost::ONE).unwrap();
    assert_eq!(owed.charges().len(), 1);
    assert!(plan.charges_of("b", &[("user", "1")], Cost::ONE).is_none());
}

#[test]
fn anchors_work_and_addresses_match_networks() {
    let plan = plan(
        "
policies:
  - { name: a, match: &inside { ip: [10.0.0.0/8, '2001:db8::/32'] }, key: [], limits: &l [1/s] }
  - { name: b, match: { ip: '!10.0.0.0/8' }, key: [], limits: *l }
",
    );
    assert_eq!(owed(&plan, &[("ip", "::ffff:10.1.2.3")]), ["a 1/1s 1"]);
    assert_eq!(owed(&plan, &[("ip", "2001:db8::7")]), ["a 1/1s 1", "b 1/1s 1"]);
    assert_eq!(owed(&plan, &[("ip", "nonsense")]), ["b 1/1s 1"]);
}
