//! Which policies apply to a request, and which of their limits.

use tidegate_core::Cost;
use tidegate_policy::Plan;

use super::{plan, request_charges, same};

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
    assert_eq!(
        request_charges(&plan, &login),
        ["login 5/minute 1", "login 20/hour 1", "not-health 1000/second 1"]
    );
    let api = [("path", "/api/x"), ("method", "HEAD"), ("user", ""), ("agent", "bot-7")];
    assert_eq!(
        request_charges(&plan, &api),
        ["api 100/minute 1", "not-health 1000/second 1", "bots 1/second 1"]
    );
    assert_eq!(request_charges(&plan, &[("path", "/health")]), [""; 0]);
    // A missing path is not /health.
    assert_eq!(request_charges(&plan, &[]), ["not-health 1000/second 1"]);
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
    assert_eq!(request_charges(&plan, &[("tenant", "a")]), [""; 0]);
    assert_eq!(request_charges(&plan, &[("user", "")]), ["user 1/second 1", "tenant 2/second 1"]);
    assert!(same(&plan, &[("user", "x")], &[("user", "x"), ("tenant", "none")]));
    assert!(!same(&plan, &[("user", "x")], &[("user", "x"), ("tenant", "")]));
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
        (user("a", "1", "free"), "per-user 100/minute 1"),
        (user("a", "1", "pro"), "per-user 10000/day 1"),
        (user("a", "1", "banned"), "per-user 0/second 1"),
        (user("a", "1", "staff"), "per-user 100/minute 1"),
        (user("b", "1", "staff"), ""),
        (user("a", "42", "banned"), "per-user 1000/minute 1"),
        (user("a,b", "x=y", "free"), ""),
    ] {
        assert_eq!(request_charges(&plan, &request).join(""), expected, "{request:?}");
    }
    // The same window is the same counter, whatever the quota.
    assert!(same(&plan, &user("a", "1", "free"), &user("a", "1", "free")));
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
    assert_eq!(request_charges(&plan, &[("ip", "::ffff:10.1.2.3")]), ["a 1/second 1"]);
    assert_eq!(request_charges(&plan, &[("ip", "2001:db8::7")]), ["a 1/second 1", "b 1/second 1"]);
    assert_eq!(request_charges(&plan, &[("ip", "nonsense")]), ["b 1/second 1"]);
}

#[test]
fn a_policy_can_be_asked_by_name() {
    let plan = plan("policies: [{ name: a, match: { x: y }, key: [user], limits: [1/s] }]");
    let request_charges = plan.charges_of("a", &[("user", "1")], Cost::ONE).unwrap();
    assert_eq!(request_charges.charges().len(), 1);
    assert!(plan.charges_of("b", &[("user", "1")], Cost::ONE).is_none());
}

#[test]
fn more_limits_than_can_be_settled_are_noticed() {
    let policy = |n| format!("  - {{ name: p{n}, match: {{ x: '*' }}, key: [], limits: [1/s] }}\n");
    let text: String = (0..40).map(policy).collect();
    let plan = plan(&format!("policies:\n{text}"));
    let request_charges = plan.charges(&[("x", "")], Cost::ONE);
    assert_eq!(request_charges.charges().len(), Plan::MAX_CHARGES);
    assert!(request_charges.exceeds_max_charges());
}
