//! A suggested limit keeps its promise when it is replayed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use proptest::prelude::*;
use tidegate::config::PolicySource;
use tidegate::{AlgorithmKind, Span};
use tidegate_sim::log::LogInput;
use tidegate_sim::{
    LimitSearch, LimitSuggestion, LogReplay, SuggestError, ToleranceBasis, WorkProgress,
};

fn suggest(log: &str, asked: LimitSearch) -> Result<LimitSuggestion, SuggestError> {
    asked.run(vec![LogInput::bytes("log.csv", log)], |reader| reader, &WorkProgress::default())
}

/// Requests and keys, and how many of each the configuration denies.
fn replayed(log: &str, config: &str) -> [u64; 4] {
    let source = PolicySource::new("suggested.yaml", config).unwrap();
    let replay = LogReplay::load(&source, None).unwrap_or_else(|error| panic!("{error}\n{config}"));
    let input = LogInput::bytes("log.csv", log);
    let replayed = replay.run(vec![input], |reader| reader, &WorkProgress::default()).unwrap();
    let tally = &replayed.new.policies()[0];
    [tally.requests, tally.denied, tally.keys.count(), tally.denied_keys.count()]
}

/// The share of them that is denied.
#[allow(clippy::float_arithmetic, reason = "a share is no decision")]
fn share(of: ToleranceBasis, [requests, denied, keys, denied_keys]: [u64; 4]) -> f64 {
    match of {
        ToleranceBasis::Requests => denied as f64 / requests as f64,
        ToleranceBasis::Keys => denied_keys as f64 / keys as f64,
    }
}

/// Keys that differ in how often they come, at random times, a little out of order.
fn logs() -> impl Strategy<Value = String> {
    let request = (0..600_000_u64, 0..12_u32, 0..12_u32);
    prop::collection::vec(request, 1..600).prop_map(|mut requests| {
        requests.sort();
        let line = |(at, one, two): &(u64, u32, u32)| {
            let late = u64::from(*one) * 50;
            let at = (at + 1_000).saturating_sub(late);
            format!("{}.{:03},10.0.0.{}\n", at / 1_000, at % 1_000, one.min(two))
        };
        let lines: String = requests.iter().map(line).collect();
        format!("time,ip\n{lines}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_suggested_limit_denies_no_more_than_asked(
        log in logs(),
        tolerate in prop::sample::select(vec![0.0, 0.001, 0.01, 0.1, 0.5]),
        seconds in prop::sample::select(vec![1_u64, 10, 60, 3_600]),
        basis in prop::sample::select(vec![ToleranceBasis::Requests, ToleranceBasis::Keys]),
    ) {
        for kind in AlgorithmKind::ALL {
            let asked = LimitSearch {
                tolerate,
                basis,
                algorithm: *kind,
                ..LimitSearch::new(vec!["ip".to_owned()], Span::from_secs(seconds))
            };
            let suggestion = suggest(&log, asked).unwrap();
            let all = replayed(&log, &suggestion.snippet());
            let [requests, denied, keys, denied_keys] = all;
            let found = suggestion.found.iter().find(|found| found.algorithm == *kind).unwrap();
            prop_assert_eq!((requests, keys), (suggestion.requests, suggestion.keys));
            prop_assert_eq!((denied, denied_keys), (found.denied, found.denied_keys));
            prop_assert!(share(basis, all) <= tolerate, "{} {:?} > {}", kind, all, tolerate);
            // And one less would deny too much.
            let less = found.quota.limit() - 1;
            if less > 0 {
                let smaller = suggestion.snippet().replace(
                    &format!("limits: [{}]\n", found.quota),
                    &format!("limits: [{less}/{seconds}s]\n"),
                );
                let all = replayed(&log, &smaller);
                prop_assert!(share(basis, all) > tolerate, "{} {}: {:?}", kind, less, all);
            }
        }
    }
}

#[test]
fn the_exact_log_needs_no_more_than_the_fullest_window() {
    let lines: String = (0..300).map(|n| format!("{},a\n", n * 7)).collect();
    let asked = LimitSearch {
        tolerate: 0.0,
        algorithm: AlgorithmKind::SlidingLog,
        ..LimitSearch::new(vec!["user".to_owned()], Span::from_secs(60))
    };
    let suggestion = suggest(&format!("time,user\n{lines}"), asked).unwrap();
    let log = &suggestion.found[AlgorithmKind::SlidingLog as usize];
    assert_eq!((log.quota.limit(), log.denied), (9, 0), "every seven seconds");
    assert_eq!(suggestion.percentiles().last(), Some(&("most", 9)));
    for line in suggestion.report().text().lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn only_what_matches_counts_and_the_policy_says_so() {
    let lines: String = (0..50)
        .map(|n| format!("{n},a,{}\n", if n % 5 == 0 { "/login" } else { "/\"x\": y" }))
        .collect();
    let asked = LimitSearch {
        matches: vec![("path".to_owned(), "/login".to_owned())],
        ..LimitSearch::new(vec!["user".to_owned()], Span::from_secs(60))
    };
    let suggestion = suggest(&format!("time,user,path\n{lines}"), asked).unwrap();
    assert_eq!(suggestion.requests, 10);
    assert!(suggestion.snippet().contains("match: { path: \"/login\" }"));
}

#[test]
fn errors_say_what_is_missing() {
    let asked = |key: &str| LimitSearch::new(vec![key.to_owned()], Span::from_secs(60));
    let error = suggest("time,ip\n1,a\n", asked("user")).unwrap_err();
    let expected = "an attribute that the log has, such as ip";
    assert_eq!(error.to_string(), format!("no request of 1 has the key user: expected {expected}"));
    let error = suggest("time,ip\n1,a\n", LimitSearch::new(vec!["ip".to_owned()], Span::ZERO));
    assert!(matches!(error, Err(SuggestError::Quota(_))));
    let bad =
        LimitSearch { matches: vec![("ip".to_owned(), "10.0.0.1/8".to_owned())], ..asked("ip") };
    assert!(matches!(suggest("time,ip\n1,a\n", bad), Err(SuggestError::InvalidPolicy(_))));
}
