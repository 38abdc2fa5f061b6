use proptest::prelude::*;
use tidegate_core::{AlgorithmKind, Charge, Cost, Fingerprint, Limit, Rule};

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
    let name = format(template).name(&charge.named(entity).of_limit(limit), &SECRET);
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
        ("{window_index}{entity}", "7alice"),
    ] {
        assert_eq!(name(template, "alice", "login"), expected, "{template}");
        assert_eq!(format(template).to_string(), template);
    }
}

#[test]
fn errors_tell_where_and_what_was_expected() {
    for (template, position, expected) in [
        ("", None, "expected {entity}"),
        ("rlaas:{window_index}", None, "expected {entity}"),
        ("é:{user}", Some(3), "expected {entity}, {limit}"),
        ("{}", Some(1), "unknown placeholder \"\""),
        ("a:{entity", Some(3), "expected {{"),
        ("{entity}}", Some(9), "expected }}"),
        ("{entity}{entity}", Some(9), "each only once"),
        ("{entity}{{entity}}", Some(9), "each only once"),
        ("{entity}:{window_index}:{window_start}", Some(25), "only one"),
        ("{entity}\n", Some(9), "a control character"),
    ] {
        let error = template.parse::<KeyFormat>().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.position(), position, "{text}");
        assert!(text.contains(expected) && text.contains(&format!("{template:?}")), "{text}");
    }
    assert!(format!("{{entity}}{:300}", "").parse::<KeyFormat>().is_err());
}

#[test]
fn a_limit_must_have_a_layout_and_windows_that_can_be_told() {
    let limit = |kind, quota: &str| Limit::new(kind, &quota.parse().unwrap()).unwrap();
    let windows = ["{entity}:{window_index}", "{entity}:{window_start}"].map(format);
    let log = format("{entity}");
    for kind in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow] {
        assert!(windows.iter().all(|format| format.check(&limit(kind, "5/minute")).is_ok()));
        assert!(log.check(&limit(kind, "5/minute")).is_err());
        let uneven = limit(kind, "5/1500ms");
        assert_eq!(windows.each_ref().map(|format| format.check(&uneven).is_ok()), [true, false]);
        assert!(format("{entity}:{window_start_ms}").check(&uneven).is_ok());
    }
    let sliding_log = limit(AlgorithmKind::SlidingLog, "5/1500ms");
    assert!(log.check(&sliding_log).is_ok() && windows[0].check(&sliding_log).is_err());
    let bucket = limit(AlgorithmKind::TokenBucket, "5/minute");
    let error = log.check(&bucket).unwrap_err().to_string();
    assert!(error.contains("expected fixed-window"), "{error}");
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
fn who_has_no_name_goes_by_the_fingerprint() {
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
            let charge = Charge::new(rule.id, Cost::ONE, &rule).named(&entity);
            let name = format.name(&charge, &SECRET);
            prop_assert!(name.head.len() + name.tail.len() <= 256 + 512 + 32);
            let _ = format.check_cluster();
        }
    }

    #[test]
    fn no_entity_tears_its_windows_apart(entity in "[{}a-c]{0,6}") {
        let rule = rule();
        let charge = Charge::new(rule.id, Cost::ONE, &rule).named(&entity);
        let name = format("sw:{{entity}}:{window_start}").name(&charge, &SECRET);
        prop_assert_eq!(name.around("1").slot(), name.around("2").slot());
        prop_assert_eq!(name.around("1").slot(), name.around("").slot());
    }
}
