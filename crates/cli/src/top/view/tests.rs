use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tidegate::Stopwatch;
use tidegate_wire::admin::{PolicyStatus, StoreStatus, TimingHistogram, TopStatus};

use super::*;
use crate::top::as_text;

fn policy(name: &str, mode: &str, limits: &[&str], counts: [u64; 4]) -> PolicyStatus {
    let [allowed, denied, shadow_denied, early_returns] = counts;
    PolicyStatus {
        name: name.to_owned(),
        mode: mode.to_owned(),
        limits: limits.iter().map(|limit| (*limit).to_owned()).collect(),
        allowed,
        denied,
        shadow_denied,
        early_returns,
        ..PolicyStatus::default()
    }
}

fn keys(count: u64) -> Vec<TopKey> {
    let key = |number: u64| TopKey {
        policy: if number.is_multiple_of(2) { "login" } else { "per-user" }.to_owned(),
        key: format!("#{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        count: 120_000 / number,
        error: 40,
    };
    (1..=count).map(key).collect()
}

fn status(seconds: u64) -> ServerStatus {
    let counts = |counts: [u64; 4]| counts.map(|count| count * seconds);
    ServerStatus {
        version: "0.1.0".to_owned(),
        uptime_secs: 93_784 + seconds,
        policies: vec![
            policy("per-user", "enforce", &["100/minute"], counts([18_234, 312, 0, 41])),
            policy("login", "enforce", &["5/minute", "20/hour"], counts([140, 961, 0, 700])),
            policy("new-limit", "shadow", &["50/minute"], counts([2_100, 0, 77, 0])),
            policy("exports", "off", &["3/day"], counts([0; 4])),
        ],
        unmatched: 3 * seconds,
        store: StoreStatus {
            is_remote: true,
            latency: TimingHistogram {
                bounds_nanos: vec![100_000, 250_000, 1_000_000],
                counts: vec![900 * seconds, 90 * seconds, 10 * seconds, 0],
            },
            keys: Some(184_223),
            bytes: Some(48_234_496),
            ..StoreStatus::default()
        },
        process: tidegate_wire::admin::ProcessStatus {
            resident_bytes: Some(31_457_280),
            open_fds: Some(214),
        },
        top: TopStatus {
            counters: 256,
            busiest_total: 2_400_000,
            denied_total: 152_000,
            busiest: keys(12),
            denied: keys(3),
        },
        ..ServerStatus::default()
    }
}

fn picture(model: &TopModel) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    as_text(terminal.backend().buffer())
}

fn model() -> TopModel {
    let mut model = TopModel::new(status(1), Stopwatch::start());
    model.update(Ok(status(2)), Stopwatch::start());
    model.assume_one_second();
    model
}

#[test]
fn all_of_it_is_readable_on_a_small_terminal() {
    let shown = picture(&model());
    assert_eq!(shown, include_str!("picture.txt"), "\n{shown}");
}

#[test]
fn problems_are_shown_as_sentences() {
    let mut broken = status(2);
    broken.store.breaker_open = true;
    broken.store.problem = Some("store unreachable: connection refused".to_owned());
    let mut model = model();
    model.update(Ok(broken), Stopwatch::start());
    let shown = picture(&model);
    assert!(shown.contains("breaker OPEN"), "{shown}");
    assert!(shown.contains(" ! without the store: store unreachable: connection"), "{shown}");
    model.update(Err(anyhow::anyhow!("connection refused")), Stopwatch::start());
    assert!(picture(&model).contains(" ! no answer: connection refused"));
}

#[test]
fn it_shows_how_much_room_there_is_and_whose_keys_find_none() {
    let mut full = status(2);
    full.store.max_keys = Some(3_355_443);
    full.store.max_bytes = Some(512 << 20);
    full.store.overflowed = Some(40);
    full.policies[1].overflowed = Some(40);
    let mut model = model();
    model.update(Ok(full.clone()), Stopwatch::start());
    let shown = picture(&model);
    assert!(shown.contains("holds: 184,223 of 3.35M keys, 48.2 MB of 536.8 MB "), "{shown}");
    assert!(shown.contains(" ! no room: new keys of login share counters"), "{shown}");
    full.uptime_secs += 1;
    model.update(Ok(full), Stopwatch::start());
    assert!(!picture(&model).contains("no room"), "not any more");
}

#[test]
fn policies_are_sorted_as_wished_and_those_without_room_are_counted() {
    let mut model = model();
    let first = |model: &TopModel| model.rows()[0].policy.name.clone();
    assert_eq!(first(&model), "per-user");
    model.sort_by_next();
    assert_eq!(first(&model), "login");
    model.sort_by_next();
    assert_eq!(first(&model), "exports");
    assert!(picture(&model).contains("s sort: name"));
    model.now.policies = (0..40).map(|n| policy(&n.to_string(), "enforce", &[], [0; 4])).collect();
    let shown = picture(&model);
    assert!(shown.contains("and 31 more"), "{shown}");
    model.pause();
    assert!(picture(&model).contains("PAUSED"));
}

#[test]
fn nothing_is_cut_off_without_a_sign() {
    let mut busy = status(2);
    let long = "a-policy-whose-name-is-as-long-as-they-come";
    let counts = [9_999_999, 8_999_999, 7_999_999, 6_999_999];
    busy.policies.push(policy(long, "enforce", &["100/minute", "1000/1h", "5000/day"], counts));
    busy.top.busiest[0] = TopKey {
        policy: long.to_owned(),
        key: "user=somebody.with.a.long.name@example.com".to_owned(),
        count: 123_456_789,
        error: 0,
    };
    let problem = "store unreachable: redis-primary.eu-central-1.example.com:6379 does not answer";
    busy.store.problem = Some(problem.to_owned());
    let mut model = model();
    model.update(Ok(busy), Stopwatch::start());
    model.assume_one_second();
    let shown = picture(&model);
    let line = |part: &str| {
        let found = shown.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no {part}:\n{shown}"))
    };
    let row = line(" a-policy-");
    for part in ["…", "enforce", "9.99M", "8.99M", "7.99M", "6.99M", "100/min"] {
        assert!(row.contains(part), "{part}:\n{shown}");
    }
    assert!(line("user=some").contains("123.45M"), "{shown}");
    assert_eq!(line("user=some").matches('…').count(), 2, "{shown}");
    assert!(shown.contains("example.com:6379"), "{shown}");
    assert!(shown.contains("not answer"), "{shown}");
    for part in ["p50", "p99", "errors/s", "breaker closed", "184,223 keys, 48.2 MB", "214 files"] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (10, 3), (40, 10), (200, 60)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &model())).unwrap();
    }
}
