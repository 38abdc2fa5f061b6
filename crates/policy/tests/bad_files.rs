//! Files that are refused, and the messages about them.
//!
//! `tests/bad` has a file for each kind of mistake, and beside it the message.
//! `TIDEGATE_BLESS=1 cargo test -p tidegate-policy --test bad_files` rewrites the messages; read
//! the diff before you commit it.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use proptest::prelude::*;
use tidegate_policy::{Plan, PolicySource};
use tidegate_testkit::RefusedFiles;

fn refusal(name: &str, bytes: &[u8]) -> String {
    let plan = PolicySource::from_bytes(name, bytes).and_then(|source| Plan::compile(&source));
    plan.map(|_| ()).unwrap_err().to_string()
}

fn files() -> RefusedFiles {
    RefusedFiles::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad"), 40)
}

#[test]
fn every_kind_of_mistake_is_explained() {
    files().assert_messages(refusal);
}

#[test]
fn a_message_never_shows_a_password() {
    let text = "store: postgres://user:hunter2@host\npolicies: []\n";
    let said = refusal("f", text.as_bytes());
    assert!(said.contains("unknown store \"postgres\"") && !said.contains("hunter2"), "{said}");
    let text = "policies: []\nstroe: redis://user:hunter2@host # redis://:hunter2@h\n";
    let said = refusal("f", text.as_bytes());
    assert!(said.contains(" 2 | stroe: redis://************@host # redis://********@h"), "{said}");
}

#[test]
fn attack_15_a_mistake_on_a_line_with_a_secret_does_not_show_it() {
    for bytes in files().with_prefix("secret-") {
        let said = refusal("f", &bytes);
        assert!(!said.contains("hunter2"), "{said}");
    }
    // Bytes that are not text are reported before anything is parsed.
    for bytes in [&b"set: { x-key: hunter2 \xff }"[..], b"set: { x-key: hunter2 \x01 }"] {
        let said = refusal("f", bytes);
        assert!(said.starts_with("f:1:") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn bombs_and_rubbish_are_refused_quickly() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let last = level - 1;
        let aliases = vec![format!("*a{last}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(refusal("bomb", bomb.as_bytes()).contains("too large with its aliases"));

    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(1_000));
    assert!(refusal("long", long.as_bytes()).contains("too large with its aliases"));

    let large = vec![b'x'; 50 << 20];
    assert!(refusal("large", &large).contains("is too large: expected at most 8 MiB"));
    assert!(refusal("nul", b"policies: \0").contains("byte 0x00 is a control character"));
    assert!(refusal("utf8", b"policies: \xc3\x28").contains("byte 0xc3 is not UTF-8"));

    for rubbish in
        ["[".repeat(1 << 20), "a: ".repeat(1 << 20), "- ".repeat(1 << 20), "{a: ".repeat(1 << 18)]
    {
        let said = refusal("rubbish", rubbish.as_bytes());
        assert!(said.len() < 2_000, "{said}");
    }
    let many: String = (0..100_000).map(|n| format!("- {{ name: p{n} }}\n")).collect();
    let said = refusal("many", format!("policies:\n{many}").as_bytes());
    assert!(said.contains(" more"), "{}", &said[said.len() - 200..]);
}

/// Random text made of the words of configurations, so that much of it gets past the parser.
fn almost_a_file() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "policies",
        "name",
        "key",
        "limits",
        "match",
        "tiers",
        "when",
        "overrides",
        "defaults",
        "rate-limiter",
        "domain",
        "descriptors",
        "rate_limit",
        "unit",
        "value",
        "a",
        "user",
        "path",
        "5/minute",
        "unlimited",
        "0/s",
        "calendar-day",
        "*x",
        "&x",
        "!a",
        "!",
        "<<",
        "/a/**",
        "10.0.0.0/8",
        ": ",
        ": ",
        ": ",
        "- ",
        "- ",
        "\n",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        "\"",
        "#",
        "|",
        ">",
        "?",
        "---",
        "...",
        "%YAML",
        "é",
        "\u{feff}",
        "1e999",
        "~",
        "=",
        "5%",
        "\t",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_text_makes_it_panic(text in almost_a_file()) {
        let result = PolicySource::new("f", text).and_then(|source| {
            let _ = tidegate_policy::import(&source);
            Plan::compile(&source)
        });
        if let Err(problems) = result {
            prop_assert!(problems.count() > 0);
            let _ = problems.to_string();
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = PolicySource::from_bytes("f", &bytes).and_then(|source| Plan::compile(&source));
    }

    /// A good file with a piece cut out and another put in.
    #[test]
    fn no_typing_error_makes_it_panic(at in 0_usize..400, cut in 0_usize..20, put in "[ -~\n]{0,6}") {
        let good = include_str!("../../../examples/policies/gateway.yaml");
        let at = at.min(good.len());
        let end = (at + cut).min(good.len());
        let text = [&good[..at], &put, &good[end..]].concat();
        let _ = PolicySource::new("f", text).and_then(|source| Plan::compile(&source));
    }
}
