//! The costs of requests, and requests without limits.

use tidegate_core::Cost;

use super::plan;

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
        let request_charges = plan.charges(&request, Cost::new(cost).unwrap());
        request_charges.charges().iter().map(|charge| charge.cost().get()).collect()
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
fn an_override_to_unlimited_is_reported_unless_another_policy_limits() {
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
        let request_charges = plan.charges(&[("tokens", tokens)], Cost::ONE);
        request_charges.cost_fault().map(ToString::to_string)
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
fn attack_22_what_callers_choose_costs_at_least_one_unless_told_otherwise() {
    let cost = |fields: &str, name: &str, value: Option<&str>| {
        let plan = plan(&format!(
            "policies: [{{ name: a, key: [], limits: [100/s], cost: {{ attribute: '{name}', {fields} }} }}]"
        ));
        let request: Vec<_> = value.map(|value| (name, value)).into_iter().collect();
        plan.charges(&request, Cost::ONE).charges()[0].cost().get()
    };
    for name in ["query:limit", "header:x-limit", "cookie:limit"] {
        assert_eq!(cost("default: 7", name, Some("0")), 1, "{name}");
        assert_eq!(cost("default: 7", name, Some("5")), 5, "{name}");
        assert_eq!(cost("default: 7", name, None), 7, "{name}");
        assert_eq!(cost("min: 0", name, Some("0")), 0, "{name}");
        assert_eq!(cost("min: 3", name, Some("2")), 3, "{name}");
        assert_eq!(cost("min: 3", name, None), 3, "{name}");
    }
    assert_eq!(cost("default: 7", "tokens", Some("0")), 0);
    assert_eq!(cost("min: 2", "tokens", Some("0")), 2);
}
