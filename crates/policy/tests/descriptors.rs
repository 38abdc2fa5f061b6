//! Envoy's descriptors, under our own policies and with limits of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use tidegate_core::{AlgorithmKind, ChargeNames, Cost, Limit, Rule};
use tidegate_policy::{Descriptor, DescriptorOutcome, Plan, PolicySource};

const POLICIES: &str = "
policies:
  - { name: per-user, match: { domain: edge }, key: [user], limits: [5/minute, 50/hour] }
  - { name: all, key: [], limits: [100/minute] }
";

fn plan(text: &str) -> Plan {
    let source = PolicySource::new("test.yaml", text).unwrap();
    Plan::compile(&source).unwrap_or_else(|problems| panic!("{problems}"))
}

fn rule(plan: &Plan, quota: &str) -> Rule {
    plan.override_rule(Limit::new(AlgorithmKind::FixedWindow, &quota.parse().unwrap()).unwrap())
}

fn descriptor<'a>(entries: &'a [(&'a str, &'a str)], limit: Option<&'a Rule>) -> Descriptor<'a> {
    Descriptor { entries, cost: Cost::ONE, limit }
}

#[test]
fn each_descriptor_has_its_own_charges_in_their_order() {
    let (plan, own) = (plan(POLICIES), rule(&plan(POLICIES), "7/minute"));
    let (alice, nobody) = ([("user", "alice")], [("path", "/")]);
    let all = [descriptor(&alice, None), descriptor(&nobody, None), descriptor(&alice, Some(&own))];
    let found = plan.descriptor_charges("edge", &all);
    let charged = |first, count| DescriptorOutcome::Charged { first, count };
    assert_eq!(found.statuses[..], [charged(0, 3), charged(3, 1), charged(4, 1)]);
    let names: Vec<_> = (0..6).map(|charge| found.charges.policy_name(charge)).collect();
    let [user, all, own] = ["per-user", "all", "override"].map(Some);
    assert_eq!(names, [user, user, all, all, own, None]);
    assert!(found.charges.policy(4).is_none());

    let part = found.charges.subset([4, 0, 9]);
    let quotas: Vec<_> = part.charges().iter().map(|it| it.rule().limit.quota().limit()).collect();
    assert_eq!((quotas, part.policy_name(0)), (vec![7, 5], own));
    let free = part.with_cost(Cost::PEEK);
    assert!(free.charges().iter().all(|charge| charge.cost().is_peek()));
}

#[test]
fn overrides_are_told_apart_by_domain_entries_and_window() {
    let plan = plan(POLICIES);
    let counter = |domain: &str, entries: &[(&str, &str)], quota: &str| {
        let own = rule(&plan, quota);
        plan.descriptor_charges(domain, &[descriptor(entries, Some(&own))]).charges.charges()[0]
            .counter()
    };
    let alice = counter("edge", &[("user", "alice")], "7/minute");
    assert_eq!(alice, counter("edge", &[("user", "alice")], "9/minute"));
    for other in [
        counter("edge", &[("user", "alice")], "7/hour"),
        counter("edge", &[("user", "bob")], "7/minute"),
        counter("edge", &[("useralice", "")], "7/minute"),
        counter("other", &[("user", "alice")], "7/minute"),
    ] {
        assert_ne!(alice, other);
    }
}

#[test]
fn overrides_have_names_where_the_store_shows_them() {
    let plan = plan(&format!("key_format: 'rl:{{entity}}:{{limit}}:{{window_start}}'\n{POLICIES}"));
    let (own, alice) = (rule(&plan, "7/minute"), [("user", "alice")]);
    let all = [descriptor(&alice, Some(&own)), descriptor(&alice, None)];
    let request_charges = plan.descriptor_charges("edge", &all).charges.subset([0, 1]);
    let named = request_charges.named_charges();
    let names = named.iter().filter_map(|charge| charge.names().cloned());
    let expected = [("edge:user:alice", "override-1m"), ("alice", "per-user-1m")];
    let template = "rl:{entity}:{limit}:{window_start}";
    let expected = expected.map(|(a, b)| ChargeNames::new(a, b).in_template(template));
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn the_callers_of_descriptors_are_shown_as_those_of_requests() {
    let plan = plan(POLICIES).showing_keys(true);
    let (own, alice) = (rule(&plan, "7/minute"), [("user", "alice")]);
    let all = [descriptor(&alice, Some(&own)), descriptor(&alice, None)];
    let owed = plan.descriptor_charges("edge", &all).charges;
    assert_eq!([owed.entity(0), owed.entity(1)], [Some("edge:user:alice"), Some("alice")]);

    let text =
        "{domain: edge, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}";
    let plan = self::plan(text).showing_keys(true);
    let owed = plan.descriptor_charges("edge", &[descriptor(&alice, None)]).charges;
    assert_eq!(owed.entity(0), Some("user:alice"));
}

#[test]
fn overrides_have_names_of_our_own_where_no_template_tells_limits_apart() {
    let text = "
key_format: 'rl:{entity}:{window_start}'
policies: [{ name: per-user, key: [user], limits: [5/minute] }]
";
    let plan = plan(text);
    let (own, alice) = (rule(&plan, "7/minute"), [("user", "alice")]);
    let request_charges =
        plan.descriptor_charges("edge", &[descriptor(&alice, Some(&own))]).charges;
    let named = request_charges.named_charges();
    assert_eq!(named[0].names(), Some(ChargeNames::own()));
}
