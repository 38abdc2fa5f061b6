//! Replays: which requests are denied, to which callers, and what changes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tidegate::config::PolicySource;
use tidegate_sim::log::LogInput;
use tidegate_sim::{LogReplay, ReplayError, ReplayFindings, WorkProgress};

fn source(name: &str, policies: &str) -> PolicySource {
    PolicySource::new(name, format!("policies: [{policies}]")).unwrap()
}

fn replay(log: &str, new: &str, old: Option<&str>) -> ReplayFindings {
    let old = old.map(|old| source("old.yaml", old));
    let replay = LogReplay::load(&source("new.yaml", new), old.as_ref()).unwrap();
    let input = LogInput::bytes("access.log", log);
    replay.run(vec![input], |reader| reader, &WorkProgress::default()).unwrap()
}

/// `count` requests of `who` at each of the seconds.
fn log(requests: &[(u64, &str, usize)]) -> String {
    let line = |(at, who, count): &(u64, &str, usize)| {
        format!("{{\"time\":{at},\"user\":\"{who}\",\"path\":\"/x\"}}\n").repeat(*count)
    };
    requests.iter().map(line).collect()
}

const PER_USER: &str = "{ name: per-user, key: [user], limits: [2/minute] }";

#[test]
fn denials_are_counted_by_policy_and_key() {
    let log = log(&[(60, "a", 5), (61, "b", 1), (62, "c", 3)]);
    let replayed = replay(
        &log,
        &format!(
            "{PER_USER}, {{ name: y, match: {{ path: /y }}, key: [user], limits: [1/minute] }}"
        ),
        None,
    );
    assert_eq!(
        (replayed.new.requests(), replayed.new.denied(), replayed.new.unmatched()),
        (9, 4, 0)
    );
    let tally = &replayed.new.policies()[0];
    assert_eq!((tally.requests, tally.denied), (9, 4));
    assert_eq!((tally.keys.count(), tally.denied_keys.count()), (3, 2));
    assert_eq!(replayed.new.policies()[1].requests, 0);
    let text = replayed.report().text();
    assert!(text.contains("Of 9 requests from 1970-01-01 00:01:00"), "{text}");
    assert!(text.contains("per-user  a         3"), "{text}");
}

#[test]
fn blocks_shadows_and_several_limits_work_as_in_the_server() {
    let login = "{ name: login, key: [user], limits: [1/minute], block_for: 10m }";
    let requests: Vec<_> = (0..10).map(|n| (600 + 60 * n, "a", 2)).collect();
    let replayed = replay(&log(&requests), login, None);
    assert_eq!(replayed.new.denied(), 19, "the first denial blocks for ten minutes");
    let shadow = "{ name: s, key: [user], limits: [1/minute], mode: shadow }";
    let replayed = replay(&log(&[(60, "a", 5)]), shadow, None);
    assert_eq!((replayed.new.denied(), replayed.new.policies()[0].shadow_denied), (0, 4));
}

#[test]
fn a_request_counts_once_however_many_limits_are_against_it() {
    for (mode, expected) in [("shadow", (0, 4)), ("enforce", (4, 0))] {
        let policy =
            format!("{{ name: s, key: [user], limits: [1/minute, 1/hour], mode: {mode} }}");
        let replayed = replay(&log(&[(60, "a", 5)]), &policy, None);
        let tally = &replayed.new.policies()[0];
        assert_eq!((tally.denied, tally.shadow_denied), expected, "{mode}");
        assert_eq!(tally.requests, 5);
    }
}

#[test]
fn a_log_without_requests_is_an_error_that_says_why() {
    let error = |log: &str| {
        let replay = LogReplay::load(&source("new.yaml", PER_USER), None).unwrap();
        let input = LogInput::bytes("access.log", log);
        replay.run(vec![input], |reader| reader, &WorkProgress::default()).unwrap_err().to_string()
    };
    assert_eq!(error(""), "no request in the log: it is empty");
    assert_eq!(error("\n \n\n"), "no request in the log: it is empty");
    let lines = "{\"user\":\"a\"}\n".repeat(3);
    assert_eq!(
        error(&lines),
        "no request in the log: none of 3 lines is one; access.log:1: it has no time"
    );
}

#[test]
fn the_clock_is_the_log_s() {
    let minutes: Vec<_> = (1..=50).map(|minute| (minute * 120, "a", 2)).collect();
    assert_eq!(replay(&log(&minutes), PER_USER, None).new.denied(), 0);
}

#[test]
fn a_comparison_names_who_is_hit_that_today_is_not() {
    let log = log(&[(60, "a", 5), (61, "b", 3)]);
    let old = "{ name: per-user, key: [user], limits: [4/minute] }";
    let replayed = replay(&log, PER_USER, Some(old));
    let (old_side, changes) = replayed.old.as_ref().unwrap();
    assert_eq!((old_side.denied(), replayed.new.denied()), (1, 4));
    assert_eq!((changes.newly_denied, changes.newly_allowed, changes.keys.count()), (3, 0, 2));
    let looser = replay(&log, old, Some(PER_USER));
    let (_, changes) = looser.old.as_ref().unwrap();
    assert_eq!((changes.newly_denied, changes.newly_allowed), (0, 3));
    let text = replayed.report().text();
    assert!(text.contains("denied, but not today") && text.contains("newly denied"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn what_users_sent_is_shown_without_control_characters() {
    let line = r#"{"time":60,"user":"\u001b[2Jx<b>\nA very long name that goes on and on and on"}"#;
    let replayed = replay(&format!("{line}\n").repeat(3), PER_USER, None);
    let report = replayed.report();
    assert!(!report.text().contains('\u{1b}') && report.text().contains("\\u{1b}[2J"));
    assert!(!report.html().contains("<b>"));
}

#[test]
fn notes_tell_what_is_odd_about_a_log() {
    let text = format!("rubbish\n{}", log(&[(60, "a", 1)]));
    let policy = "{ name: p, key: [user, plan], limits: [1/minute] }";
    let shown = replay(&text, policy, None).report().text();
    assert!(
        shown.contains("not a request: 1 line, such as") && shown.contains("access.log:1:"),
        "{shown}"
    );
    assert!(shown.contains("No request has the attribute plan."), "{shown}");
    assert!(shown.contains("No policy applies to 1 request."), "{shown}");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[test]
fn files_are_read_in_the_order_of_their_times_however_they_are_given() {
    // One from a day ago, packed; one that is longer than a preview; and an empty one.
    let old: Vec<_> = (0..5_000).map(|minute| (minute * 60, "a", 3)).collect();
    let new: Vec<_> = (5_000..9_000).map(|minute| (minute * 60, "a", 3)).collect();
    let (old, new) = (log(&old), log(&new));
    let input = |name: &str| match name {
        "access.log" => LogInput::bytes(name, new.clone()),
        "access.log.1.gz" => LogInput::bytes(name, gzip(&old)),
        _ => LogInput::bytes(name, ""),
    };
    let replay = |names: [&str; 3]| {
        let replay = LogReplay::load(&source("new.yaml", PER_USER), None).unwrap();
        let inputs = names.map(input).into();
        replay.run(inputs, |reader| reader, &WorkProgress::default()).unwrap().report().text()
    };
    let in_order = replay(["access.log.1.gz", "access.log", "empty.log"]);
    let by_name = replay(["access.log", "access.log.1.gz", "empty.log"]);
    assert!(in_order.contains("18,000 (67 %)"), "{in_order}");
    assert!(!in_order.contains("Files were read") && !in_order.contains("counted at their time"));
    let note = "Files were read in the order of their first requests: access.log.1.gz, access.log, \
                empty.log.";
    assert!(by_name.replace('\n', " ").contains(note), "{by_name}");
    let findings = |text: &str| text.split("About the log").next().unwrap().trim().to_owned();
    assert_eq!(findings(&by_name), findings(&in_order));
}

#[test]
fn files_that_overlap_are_merged() {
    // Three servers, one of them with few requests: its chunk spans the others' whole time.
    let all: Vec<_> = (0..60_000_u64).map(|second| (second, "a", 1)).collect();
    let of = |server: u64| {
        let mine = |second: u64| match second % 100 {
            0 => 0,
            other => 1 + other % 2,
        };
        let mine: Vec<_> = all.iter().copied().filter(|(at, ..)| mine(*at) == server).collect();
        log(&mine)
    };
    let replay = |logs: &[String]| {
        let replay = LogReplay::load(&source("new.yaml", PER_USER), None).unwrap();
        let inputs = logs.iter().map(|log| LogInput::bytes("access.log", log.clone())).collect();
        replay.run(inputs, |reader| reader, &WorkProgress::default()).unwrap().report().text()
    };
    let (whole, parts) = (replay(&[log(&all)]), replay(&[of(2), of(0), of(1)]));
    assert!(parts.contains("Files overlap in time: their requests were merged."), "{parts}");
    assert!(!parts.contains("counted at their time"), "{parts}");
    let findings = |text: &str| text.split("About the log").next().unwrap().trim().to_owned();
    assert_eq!(findings(&parts), findings(&whole));
}

#[test]
fn limits_on_descriptors_are_refused() {
    let text =
        "domain: d\ndescriptors: [{ key: k, rate_limit: { unit: minute, requests_per_unit: 1 } }]";
    let source = PolicySource::new("envoy.yaml", text).unwrap();
    let error = LogReplay::load(&source, None).unwrap_err();
    assert!(matches!(error, ReplayError::Descriptors(_)), "{error}");
}
