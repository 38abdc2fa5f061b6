//! Tests of the `RL.*` commands' arguments.

use super::super::command_spec;
use super::*;
use tidegate::config::PolicySource;

const PLAN: &str = "
policies:
  - { name: demo, key: [key], limits: [10/minute] }
  - { name: login, key: [ip, user], limits: [5/minute] }
  - { name: all, key: [], limits: [9/minute] }
  - { name: plans, key: [user], limits: [1/minute],
      tiers: [{ when: { plan: pro }, limits: [100/minute] }] }
  - { name: free, key: [user], limits: unlimited }
  - { name: tokens, key: [user], limits: [9/minute], cost: { attribute: tokens, default: 2 } }
";

fn with<T>(command: &str, then: impl FnOnce(Result<Box<RequestCharges<'_>>, String>) -> T) -> T {
    let plan = Plan::compile(&PolicySource::new("test", PLAN).unwrap()).unwrap();
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let spec = command_spec::find(words[0]).unwrap();
    then(request_charges(spec, &words, &plan))
}

/// The capacity of the limit, and the cost.
fn charge(command: &str) -> (u64, u64) {
    with(command, |charges| {
        let charges = charges.unwrap();
        let charge = charges.charges()[0];
        (charge.rule().limit.capacity(), charge.cost().get())
    })
}

fn refusal(command: &str) -> String {
    with(command, |charges| charges.err().unwrap_or_default())
}

#[test]
fn one_attribute_needs_no_name() {
    assert_eq!(charge("RL.CHECK demo alice"), (10, 1));
    assert_eq!(charge("RL.CHECK demo alice 3"), (10, 3));
    assert_eq!(charge("RL.CHECK demo alice COST 3"), (10, 3));
    assert_eq!(charge("RL.CHECK demo user=alice 0"), (10, 0));
    assert_eq!(charge("RL.PEEK demo alice"), (10, 0));
    assert_eq!(charge("RL.RESET demo alice"), (10, 1));
    assert_eq!(charge("RL.REFUND demo alice 2"), (10, 2));
}

#[test]
fn several_attributes_have_names() {
    assert_eq!(charge("RL.CHECK login ip=203.0.113.9 user=alice"), (5, 1));
    assert_eq!(charge("RL.CHECK login user=alice cost 2 ip=203.0.113.9"), (5, 2));
    assert_eq!(charge("RL.CHECK login user=a=b ip=203.0.113.9 COST 0"), (5, 0));
    assert_eq!(charge("RL.REFUND login user=alice ip=203.0.113.9 COST 4"), (5, 4));
    assert_eq!(charge("RL.CHECK all"), (9, 1));
    assert_eq!(charge("RL.CHECK all COST 4"), (9, 4));
    assert_eq!(charge("RL.CHECK plans alice"), (1, 1));
    assert_eq!(charge("RL.CHECK plans user=alice plan=pro"), (100, 1));
    assert_eq!(charge("RL.CHECK plans plan=pro COST 7 user=alice"), (100, 7));
}

#[test]
fn the_order_of_names_is_nothing_to_a_counter() {
    let counter = |command: &str| with(command, |charges| charges.unwrap().charges()[0].counter());
    let one = counter("RL.CHECK login ip=203.0.113.9 user=alice");
    assert_eq!(one, counter("RL.CHECK login user=alice ip=203.0.113.9"));
    assert_ne!(one, counter("RL.CHECK login user=bob ip=203.0.113.9"));
}

#[test]
fn a_key_that_stands_alone_is_taken_as_it_is() {
    let counter = |command: &str| with(command, |charges| charges.unwrap().charges()[0].counter());
    let alice = counter("RL.CHECK demo alice");
    let impostor = counter("RL.CHECK demo key=alice");
    assert_ne!(impostor, alice);
    for command in [
        "RL.CHECK demo key=alice 3",
        "RL.CHECK demo key=alice COST 3",
        "RL.PEEK demo key=alice",
        "RL.RESET demo key=alice",
        "RL.REFUND demo key=alice 2",
        "RL.REFUND demo key=alice cost 2",
        "RL.CHECK demo key=key=alice plan=pro",
    ] {
        assert_eq!(counter(command), impostor, "{command}");
    }
    assert_eq!(charge("RL.CHECK demo key=alice 3"), (10, 3));
    // The same holds for a key that looks like the beginning of a cost.
    let cost = counter("RL.CHECK demo COST");
    assert_eq!(counter("RL.CHECK demo COST 3"), cost);
    assert_eq!(charge("RL.CHECK demo COST 3"), (10, 3));
    assert_eq!(counter("RL.CHECK demo COST COST 3"), cost);
}

#[test]
fn with_others_beside_it_the_attribute_has_its_name() {
    let counter = |command: &str| with(command, |charges| charges.unwrap().charges()[0].counter());
    let alice = counter("RL.CHECK demo alice");
    assert_eq!(counter("RL.CHECK demo key=alice plan=pro"), alice);
    assert_eq!(counter("RL.CHECK demo plan=pro key=alice COST 2"), alice);
    assert_eq!(counter("RL.RESET demo key=alice plan=pro"), alice);
    for command in ["RL.CHECK demo alice plan=pro", "RL.CHECK demo KEY=alice plan=pro"] {
        assert!(refusal(command).contains("expected RL.CHECK demo"), "{command}");
    }
}

#[test]
fn a_refusal_says_how_to_ask() {
    for (command, text) in [
        ("RL.CHECK x k", r#"unknown policy "x"; there are: demo, login, all, plans, free, tokens"#),
        (
            "RL.CHECK demo",
            r#"policy "demo" tells callers apart by key: expected RL.CHECK demo key [cost], or RL.CHECK demo key=... name=value ... [COST n]"#,
        ),
        (
            "RL.CHECK login alice",
            r#"policy "login" tells callers apart by ip and user: expected RL.CHECK login ip=... user=... [COST n]"#,
        ),
        (
            "RL.PEEK login ip=1.1.1.1",
            r#"policy "login" tells callers apart by ip and user: expected RL.PEEK login ip=... user=..."#,
        ),
        (
            "RL.CHECK all alice",
            r#"policy "all" tells callers apart by nothing: expected RL.CHECK all [COST n]"#,
        ),
        (
            "RL.REFUND demo alice",
            r#"policy "demo" tells callers apart by key: expected RL.REFUND demo key amount, or RL.REFUND demo key=... name=value ... COST n"#,
        ),
        (
            "RL.RESET demo alice 1",
            r#"policy "demo" tells callers apart by key: expected RL.RESET demo key, or RL.RESET demo key=... name=value ..."#,
        ),
        (
            "RL.RESET demo alice bob",
            r#"policy "demo" tells callers apart by key: expected RL.RESET demo key, or RL.RESET demo key=... name=value ..."#,
        ),
        (
            "RL.CHECK demo alice -1",
            r#"cost is "-1": expected a whole number from 0 to 1000000000000000"#,
        ),
        (
            "RL.REFUND demo alice -1",
            r#"amount is "-1": expected a whole number from 0 to 1000000000000000"#,
        ),
        (
            "RL.CHECK login ip=1.1.1.1 user=alice user=bob",
            r#"attribute "user" occurs twice: expected one value"#,
        ),
        (
            "RL.CHECK plans user=alice user=bob",
            r#"attribute "user" occurs twice: expected one value"#,
        ),
    ] {
        assert_eq!(refusal(command), text);
    }
    for command in [
        "RL.CHECK demo alice 1 2",
        "RL.CHECK demo alice COST",
        "RL.CHECK demo alice 1 COST 1",
        "RL.PEEK demo alice 1",
    ] {
        assert!(refusal(command).contains("expected RL."), "{command}");
    }
    let long = format!("RL.CHECK demo {}", "k".repeat(5_000));
    assert_eq!(refusal(&long), "key has 5000 bytes: expected at most 4096");
}

#[test]
fn a_cost_that_an_attribute_gives_is_a_number() {
    assert_eq!(charge("RL.CHECK tokens alice"), (9, 2));
    assert_eq!(charge("RL.CHECK tokens user=alice tokens=3"), (9, 3));
    assert_eq!(
        refusal("RL.CHECK tokens user=alice tokens=many"),
        r#"tokens is "many": expected a whole number from 0 to 1000000000000000"#
    );
}

#[test]
fn a_policy_without_limits_owes_nothing() {
    assert!(with("RL.CHECK free alice", |charges| charges.unwrap().is_empty()));
}
