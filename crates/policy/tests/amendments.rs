//! Changes to a plan that are made at run time and stand in no file.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use tidegate_core::Cost;
use tidegate_policy::{
    AmendedPlan, Amendment, Attributes, Descriptor, KeyHasher, Plan, PolicyMode, PolicySource,
    RequestCharges,
};

const FILE: &str = "
policies:
  - name: api
    key: [user]
    limits: [10/minute]
    tiers: [{ when: { plan: pro }, limits: [100/minute] }]
    overrides: { 'user=7': [70/minute] }
    block_for: 1m
  - name: pair
    match: { kind: pair }
    key: [tenant, user]
    limits: [5/minute]
";

fn amended(text: &str, amendments: &[Amendment]) -> AmendedPlan {
    let source = PolicySource::new("limits.yaml", text).unwrap();
    Plan::compile_amended(KeyHasher::of_this_process(), &source, amendments).unwrap()
}

fn other(policy: &str, key: &str, limits: &[&str]) -> Amendment {
    Amendment::Override {
        policy: policy.to_owned(),
        key: key.to_owned(),
        limits: limits.iter().map(|limit| (*limit).to_owned()).collect(),
    }
}

fn mode(policy: &str, mode: PolicyMode) -> Amendment {
    Amendment::Mode { policy: policy.to_owned(), mode }
}

fn capacities(request_charges: &RequestCharges<'_>) -> Vec<u64> {
    request_charges.charges().iter().map(|charge| charge.rule().limit.capacity()).collect()
}

fn charged(plan: &Plan, request: &impl Attributes) -> Vec<u64> {
    capacities(&plan.charges(request, Cost::ONE))
}

#[test]
fn an_override_that_does_not_suit_the_key_format_is_left_out_and_the_file_stays() {
    let file = format!("key_format: 'k:{{entity}}:{{limit}}:{{window_start}}'{FILE}");
    let changes = [
        other("api", "user=1", &["5/minute burst 2"]),
        other("api", "user=2", &["5/minute", "6/minute"]),
        other("api", "user=3", &["5/minute", "50/hour"]),
    ];
    let AmendedPlan { plan, refused } = amended(&file, &changes);
    let places: Vec<_> = refused.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [0, 1]);
    let said = refused[1].1.to_string();
    assert!(said.contains("two limits of 1m would share one key"), "{said}");
    assert_eq!(charged(&plan, &[("user", "2")]), [10]);
    assert_eq!(charged(&plan, &[("user", "3")]), [5, 50]);
}

#[test]
fn a_change_that_would_let_two_policies_have_one_key_is_left_out() {
    let file = "
key_format: 'k:{entity}:{limit}:{window_start}'
policies:
  - { name: api, key: [user], limits: [10/minute] }
  - { name: api-1h, key: [ip], limits: [10/hour] }
  - { name: old, key: [user], limits: [10/hour], mode: off, key_format: 'k:{entity}:{window_start}' }
";
    let changes = [
        other("api", "user=1", &["5/minute", "50/hour"]),
        other("api", "user=2", &["5/minute", "50/day"]),
        mode("old", PolicyMode::Enforce),
        other("api", "user=3", &["5/hour"]),
    ];
    let AmendedPlan { plan, refused } = amended(file, &changes);
    let said: Vec<_> = refused.iter().map(|(at, why)| (*at, why.to_string())).collect();
    assert_eq!(said.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 2]);
    assert!(said[0].1.contains("\"api\": a key could also belong to \"api-1h\""), "{}", said[0].1);
    assert!(said[1].1.contains("\"old\": a key could also belong to \"api\""), "{}", said[1].1);
    let charged = |user| charged(&plan, &[("user", user)]);
    assert_eq!([charged("1"), charged("2"), charged("3")], [vec![10], vec![5, 50], vec![5]]);
    assert_eq!(plan.policy("old").unwrap().mode(), PolicyMode::Off);
}

#[test]
fn an_override_comes_before_tiers_and_before_those_of_the_file() {
    let changes = [
        other("api", "user=42", &["500/minute", "9000/hour"]),
        other("api", "user=7", &["1/minute"]),
        other("pair", "tenant=a, user=x", &["unlimited"]),
    ];
    let AmendedPlan { plan, refused } = amended(FILE, &changes);
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(charged(&plan, &[("user", "42"), ("plan", "pro")]), [500, 9000]);
    assert_eq!(charged(&plan, &[("user", "7")]), [1]);
    assert_eq!(charged(&plan, &[("user", "8")]), [10]);
    let pair = [("kind", "pair"), ("tenant", "a"), ("user", "x")];
    assert_eq!(charged(&plan, &pair), [10], "of `api` only");
    assert_eq!(plan.policy("api").unwrap().override_count(), 2);
}

#[test]
fn what_cannot_be_had_is_left_out_and_says_why_as_a_file_would() {
    let changes = [
        other("api", "user=42", &["500/minit"]),
        other("api", "usr=42", &["5/minute"]),
        other("apo", "user=42", &["5/minute"]),
        other("api", "user=\"\u{7}\\", &["5/minute"]),
        mode("nobody", PolicyMode::Off),
        other("api", "user=9", &["9/minute"]),
    ];
    let AmendedPlan { plan, refused } = amended(FILE, &changes);
    let said: Vec<_> = refused.iter().map(|(at, why)| (*at, why.to_string())).collect();
    assert_eq!(said.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 2, 4]);
    let expected = "\
override of api:1:14: \"500/minit\": unknown unit \"minit\"";
    assert!(said[0].1.starts_with(expected), "{}", said[0].1);
    assert!(said[0].1.contains(" 1 | {\"user=42\": [\"500/minit\"]}"), "{}", said[0].1);
    assert!(said[1].1.contains("did you mean \"user\"?"), "{}", said[1].1);
    assert_eq!(said[2].1, "override: no policy \"apo\"; did you mean \"api\"?");
    assert_eq!(said[3].1, "mode: no policy \"nobody\"");
    assert_eq!(charged(&plan, &[("user", "9")]), [9]);
    assert_eq!(charged(&plan, &[("user", "42")]), [10]);
    assert_eq!(charged(&plan, &[("user", "\"\u{7}\\")]), [5]);
}

#[test]
fn a_mode_concerns_all_limits_of_a_policy() {
    let request = [("user", "7"), ("plan", "pro")];
    let AmendedPlan { plan, .. } = amended(FILE, &[mode("api", PolicyMode::Shadow)]);
    let request_charges = plan.charges(&request, Cost::ONE);
    assert!(request_charges.charges().iter().all(|charge| !charge.rule().enforced));
    assert!(!plan.policy("api").unwrap().block().unwrap().rule.enforced);
    let AmendedPlan { plan, .. } = amended(FILE, &[mode("api", PolicyMode::Off)]);
    assert!(plan.charges(&request, Cost::ONE).is_empty());
    let shadow = FILE.replace("block_for: 1m", "mode: shadow");
    let AmendedPlan { plan, .. } = amended(&shadow, &[mode("api", PolicyMode::Enforce)]);
    let request_charges = plan.charges(&request, Cost::ONE);
    assert!(request_charges.charges().iter().all(|charge| charge.rule().enforced));
}

#[test]
fn a_policy_that_would_be_one_too_many_stays_off() {
    let policy = |number: usize, mode: &str| {
        format!("- {{ name: p{number}, key: [user], limits: [1/s], mode: {mode} }}\n")
    };
    let on: String = (0..Plan::MAX_CHARGES).map(|number| policy(number, "enforce")).collect();
    let text = format!("policies:\n{on}{}", policy(99, "off"));
    let AmendedPlan { plan, refused } = amended(&text, &[mode("p99", PolicyMode::Shadow)]);
    assert_eq!(plan.policy("p99").unwrap().mode(), PolicyMode::Off);
    let said = refused[0].1.to_string();
    assert_eq!(said, "mode: 33 limits would apply to every request: expected at most 32");
}

#[test]
fn a_domain_of_envoy_has_modes_and_no_overrides() {
    let text = "
domain: d
descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }]
";
    let changes = [mode("d.user", PolicyMode::Off), other("d.user", "user=1", &["5/minute"])];
    let AmendedPlan { plan, refused } = amended(text, &changes);
    let entries = [("user", "1")];
    let descriptor = Descriptor { entries: &entries, cost: Cost::ONE, limit: None };
    assert!(plan.descriptor_charges("d", &[descriptor]).charges.is_empty());
    assert_eq!(refused.len(), 1);
    assert!(refused[0].1.to_string().contains("only descriptors"), "{:?}", refused[0]);
}

#[test]
fn keys_are_readable_only_where_a_plan_shows_them() {
    let AmendedPlan { plan, .. } = amended(FILE, &[]);
    let request = [("kind", "pair"), ("tenant", "a"), ("user", "x")];
    assert_eq!(plan.charges(&request, Cost::ONE).entity(0), None);
    let plan = plan.showing_keys(true);
    let request_charges = plan.charges(&request, Cost::ONE);
    assert_eq!(
        [request_charges.entity(0), request_charges.entity(1), request_charges.entity(2)],
        [Some("x"), Some("a:x"), None]
    );
    assert_eq!(request_charges.subset([1]).entity(0), Some("a:x"));
}

#[test]
fn an_override_is_for_whom_its_key_says() {
    let plan = amended(FILE, &[]).plan;
    let subject = |request: &[(&str, &str)]| {
        plan.charges_of("pair", request, Cost::ONE)
            .and_then(|request_charges| request_charges.subject(0))
    };
    let whom = plan.override_subject("pair", "user=1, tenant=a");
    assert!(whom.is_some());
    assert_eq!(whom, subject(&[("tenant", "a"), ("user", "1")]));
    assert_ne!(whom, subject(&[("tenant", "a"), ("user", "2")]));
    for (policy, key) in [("pair", "user=1"), ("pair", ""), ("none", "user=1")] {
        assert_eq!(plan.override_subject(policy, key), None, "{policy} {key}");
    }
}
