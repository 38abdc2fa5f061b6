//! The charges of requests under a plan.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod costs;
mod counters;
mod matching;
mod settings;

use tidegate_core::Cost;
use tidegate_policy::{Plan, PolicySource};

fn plan(text: &str) -> Plan {
    let source = PolicySource::new("test.yaml", text).unwrap();
    Plan::compile(&source).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The policies that apply, with their limits.
fn request_charges(plan: &Plan, request: &[(&str, &str)]) -> Vec<String> {
    let request_charges = plan.charges(request, Cost::ONE);
    let charges = request_charges.charges().iter().enumerate();
    charges
        .map(|(index, charge)| {
            let name = request_charges.policy(index).unwrap().name();
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
