//! Reloads while decisions are made.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate::config::PolicySource;
use tidegate::{Cost, LocalStore, MemoryStore, Plan};
use tidegate_server::{App, PlanReloader, ReloadOutcome};

/// Two policies whose names and limits say which file they are from.
fn text(version: u64) -> String {
    let quota = 1_000_000_000 + version;
    format!(
        "policies:
  - {{ name: a{version}, key: [user], limits: [{quota}/day] }}
  - {{ name: b{version}, match: {{ path: /** }}, key: [path], limits: [{quota}/day] }}
"
    )
}

struct Config {
    path: PathBuf,
}

impl Config {
    fn new(name: &str, text: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("tidegate-{name}-{}.yaml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self { path }
    }

    fn follow(&self) -> (Arc<App>, PlanReloader<MemoryStore>) {
        let source = PolicySource::read(&self.path).unwrap();
        let plan = Plan::compile(&source).unwrap();
        let app = Arc::new(App::new(plan, MemoryStore::new()));
        (Arc::clone(&app), PlanReloader::new(app, &self.path, &source))
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// One decision: the version of the file that made it, if it was consistent.
fn decide(app: &App, user: &str) -> String {
    let plan = app.limiter().plan();
    let request_charges = plan.charges(&[("user", user), ("path", "/x")], Cost::ONE);
    let mut verdicts = tidegate::Verdicts::new();
    assert!(app.limiter().store().settle_now(request_charges.charges(), &mut verdicts));
    let names: Vec<&str> =
        (0..2).map(|index| request_charges.policy(index).unwrap().name()).collect();
    let version = names[0].strip_prefix('a').unwrap();
    assert_eq!(names[1].strip_prefix('b'), Some(version), "a mixture of two plans");
    let limit = format!("{}", 1_000_000_000 + version.parse::<u64>().unwrap());
    assert!(verdicts.iter().all(|verdict| verdict.limit.to_string() == limit));
    version.to_owned()
}

#[test]
fn no_decision_is_lost_or_by_two_plans_however_often_the_file_changes() {
    let config = Config::new("load", &text(0));
    let (app, mut reloader) = config.follow();
    let (stop, decisions) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for user in ["1", "2"] {
            let (app, stop, decisions) = (&app, &stop, &decisions);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _ = decide(app, user);
                    decisions.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for version in 1..=100 {
            // As many decisions between reloads as ten thousand a second would make in 100 ms.
            let target = decisions.load(Ordering::Relaxed) + 1_000;
            while decisions.load(Ordering::Relaxed) < target {
                std::thread::yield_now();
            }
            let is_bad = version % 2 == 0;
            let new = if is_bad { text(version).replace("day", "dya") } else { text(version) };
            std::fs::write(&config.path, new).unwrap();
            match reloader.reload() {
                ReloadOutcome::Changed => assert!(!is_bad),
                ReloadOutcome::Refused(problems) => assert!(is_bad && problems.count() == 2),
                other => panic!("version {version} went unnoticed: {other:?}"),
            }
            let expected = if is_bad { version - 1 } else { version };
            assert_eq!(decide(&app, "3"), expected.to_string());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(app.reload_counts(), (50, 50));
}

#[test]
fn a_bad_file_is_reported_once_and_forgotten_when_it_is_mended() {
    let config = Config::new("once", &text(0));
    let (app, mut reloader) = config.follow();
    assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged));
    for bad in [&b""[..], b"policies: []", b"\xff\xff", b"policies: [{ name: a }]"] {
        std::fs::write(&config.path, bad).unwrap();
        assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
        assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged));
        assert!(app.reload_problem().is_some());
    }
    std::fs::remove_file(&config.path).unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
    assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged));
    assert_eq!(decide(&app, "1"), "0");
    std::fs::write(&config.path, text(0)).unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::Changed));
    assert_eq!(app.reload_problem(), None);
    assert_eq!(app.reload_counts(), (1, 5));
}

#[test]
fn whoever_asks_is_told_again_what_is_wrong() {
    let config = Config::new("asked", &text(0));
    let (app, mut reloader) = config.follow();
    let request = reloader.request();
    request.ask();
    assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged), "nothing is wrong");
    std::fs::write(&config.path, "policies: [{ name: a }]").unwrap();
    assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
    for _ in 0..2 {
        assert!(matches!(reloader.reload(), ReloadOutcome::Unchanged), "nobody has asked");
        request.ask();
        assert!(matches!(reloader.reload(), ReloadOutcome::Refused(_)));
    }
    assert_eq!(app.reload_counts(), (0, 3));
}
