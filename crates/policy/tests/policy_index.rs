//! The index finds the same policies as evaluating every one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use proptest::prelude::*;
use tidegate_core::Cost;
use tidegate_policy::{Plan, PolicyMatch, PolicySource};

fn condition() -> impl Strategy<Value = String> {
    let attribute = prop::sample::select(vec!["tenant", "path", "method"]);
    let pattern = prop::sample::select(vec!["a", "b", "[a, b]", "'!a'", "a*", "'*'", "[a, '!b']"]);
    (attribute, pattern).prop_map(|(attribute, pattern)| {
        let pattern = if attribute == "path" {
            pattern.replace('a', "/a").replace('b', "/b")
        } else {
            pattern.to_owned()
        };
        format!("{attribute}: {pattern}")
    })
}

fn policies() -> impl Strategy<Value = String> {
    let conditions = prop::collection::vec(condition(), 0..4);
    prop::collection::vec((conditions, 0..3_usize), 1..12).prop_map(|policies| {
        let mut text = String::from("policies:\n");
        for (number, (mut conditions, key)) in policies.into_iter().enumerate() {
            conditions.sort();
            conditions.dedup_by_key(|text| text.split(':').next().unwrap().to_owned());
            let key = ["[]", "[tenant]", "[tenant, path]"][key];
            let conditions = conditions.join(", ");
            text += &format!(
                "  - {{ name: p{number}, match: {{ {conditions} }}, key: {key}, limits: [1/s] }}\n"
            );
        }
        text
    })
}

fn request() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let value = |values| prop::option::of(prop::sample::select(values));
    let tenant = value(vec!["a", "b", "ab", ""]);
    let path = value(vec!["/a", "//b/", "/ab", "/c"]);
    (tenant, path, value(vec!["a", "b"])).prop_map(|(tenant, path, method)| {
        let all = [("tenant", tenant), ("path", path), ("method", method)];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_finds_all_of_them_in_the_order_of_the_file(text in policies(), request in request()) {
        let plan = Plan::compile(&PolicySource::new("f", text).unwrap());
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
        let request_charges = plan.charges(&request, Cost::ONE);
        let found: Vec<&str> =
            (0..request_charges.charges().len()).map(|index| request_charges.policy(index).unwrap().name()).collect();
        let explained = plan.explain(&request);
        let all = explained.iter().filter(|one| matches!(one.outcome, PolicyMatch::Applies { .. }));
        prop_assert_eq!(found, all.map(|one| one.policy.name()).collect::<Vec<_>>());
    }
}
