use proptest::prelude::*;
use tidegate_core::{Charge, ChargeNames, Cost, Fingerprint, Rule};

use super::*;

const SECRET: [u8; 16] = [7; 16];

fn format(template: &str) -> KeyFormat {
    template.parse().unwrap()
}

fn rule() -> Rule {
    let id = Fingerprint::new(1, 2);
    Rule { id, limit: "5/minute".parse().unwrap(), enforced: true, staggered: false }
}

/// The name of window 7.
fn name(template: &str, entity: &str, limit: &str) -> String {
    let rule = rule();
    let charge = Charge::new(Fingerprint::new(3, 4), Cost::ONE, &rule);
    let names = ChargeNames::new(entity, limit);
    let name = format(template).name(&charge.with_names(&names), &SECRET);
    String::from_utf8(name.around("7").as_bytes().to_vec()).unwrap()
}

#[test]
fn templates_become_names() {
    for (template, expected) in [
        ("rlaas:rate_limit:{entity}:{window_index}", "rlaas:rate_limit:alice:7"),
        ("gw:{entity}:{limit}:{window_start}", "gw:alice:login:7"),
        ("sw:{{entity}}:{window_start}", "sw:{alice}:7"),
        ("sw:{{{entity}}}:{window_start}", "sw:{alice}:7"),
        ("{{a{entity}}}{{}}{window_index}}}é", "{aalice}{}7}é"),
        ("ratelimiter:{entity}:{window_start_ms}", "ratelimiter:alice:7"),
        ("{window_index}:{entity}", "7:alice"),
    ] {
        assert_eq!(name(template, "alice", "login"), expected, "{template}");
        assert_eq!(format(template).to_string(), template);
    }
}

#[test]
fn a_cluster_wants_the_windows_of_an_entity_together() {
    for (template, fits) in [
        ("sw:{{entity}}:{window_start}", true),
        ("{window_start}:{{entity}}", true),
        ("{{all}}:{entity}:{window_start}", true),
        ("rlaas:rate_limit:{entity}", true),
        ("rlaas:rate_limit:{entity}:{window_index}", false),
        ("{{{entity}:{window_index}}}", false),
        ("{{}}:{{entity}}:{window_index}", false),
    ] {
        assert_eq!(format(template).check_cluster().is_ok(), fits, "{template}");
        let config: crate::RedisConfig = "redis+cluster://localhost".parse().unwrap();
        let builder = crate::RedisStore::builder(config);
        assert_eq!(builder.key_format(format(template)).is_ok(), fits, "{template}");
    }
}

#[test]
fn what_does_not_belong_into_a_name_is_hashed() {
    let long = "x".repeat(513);
    for entity in ["a\nb", "a\u{7f}", "\u{9b}31m", long.as_str()] {
        let name = name("k:{entity}", entity, "");
        assert!(name.starts_with("k:hash-") && name.len() == 2 + 5 + 32 + 1, "{name}");
    }
    assert_eq!(name("k:{entity}:", &long[..512], "").len(), 3 + 512 + 1);
    assert_ne!(name("k:{entity}", "a\n", ""), name("k:{entity}", "a\r", ""));
    // A brace is dangerous only to a hash tag.
    assert_eq!(name("k:{entity}:", "{a}", ""), "k:{a}:7");
    for entity in ["{a}", "}", ""] {
        assert!(name("k:{{entity}}", entity, "").starts_with("k:{hash-"), "{entity}");
    }
}

#[test]
fn a_caller_without_a_name_is_named_by_its_fingerprint() {
    let rule = rule();
    let charge = Charge::new(Fingerprint::new(3, 4), Cost::ONE, &rule);
    let name = format("{entity}:{limit}").name(&charge, &SECRET);
    let expected = "00000000000000038000000000000004:00000000000000018000000000000002";
    assert_eq!(name.head, expected.as_bytes());
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(template in any::<String>()) {
        let _ = template.parse::<KeyFormat>().map_err(|error| error.to_string());
    }

    /// Texts that look more like templates: whatever is accepted also makes names.
    #[test]
    fn no_template_makes_it_panic(
        pieces in prop::collection::vec(
            prop::sample::select(&["{", "}", "{{", "}}", "entity", "limit", "window_start", "é"][..]),
            0..12,
        ),
        entity in any::<String>(),
    ) {
        if let Ok(format) = pieces.concat().parse::<KeyFormat>() {
            let rule = rule();
            let names = ChargeNames { entity: Some(entity), ..ChargeNames::default() };
            let charge = Charge::new(rule.id, Cost::ONE, &rule).with_names(&names);
            let name = format.name(&charge, &SECRET);
            prop_assert!(name.head.len() + name.tail.len() <= 256 + 512 + 32);
            let _ = format.check_cluster();
        }
    }

    #[test]
    fn no_entity_tears_its_windows_apart(entity in "[{}a-c]{0,6}") {
        let rule = rule();
        let names = ChargeNames { entity: Some(entity), ..ChargeNames::default() };
        let charge = Charge::new(rule.id, Cost::ONE, &rule).with_names(&names);
        let name = format("sw:{{entity}}:{window_start}").name(&charge, &SECRET);
        prop_assert_eq!(name.around("1").slot(), name.around("2").slot());
        prop_assert_eq!(name.around("1").slot(), name.around("").slot());
    }
}
