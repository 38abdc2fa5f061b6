//! Several limits in one request, and limits that no format keeps.

use tidegate_core::algorithm::{Algorithm, FixedWindow};
use tidegate_core::{Charge, ChargeNames, Fingerprint, Rule};
use tidegate_store::StoreErrorKind;

use crate::other_limiters::Kind;
use crate::our_store::{Ours, limit};
use crate::{REDIS, keys_of, user};

fn other(rule: &Rule, quota: &str) -> Rule {
    let limit = limit(rule.limit.kind().name(), quota);
    Rule { id: Fingerprint::new(8, 8), limit, ..*rule }
}

#[test]
fn all_limits_pay_or_none_does() {
    for template in ["k:{entity}:{limit}:{window_start}", "k:{entity}:{limit}"] {
        let algorithm = if template.contains("window") { "fixed-window" } else { "sliding-log" };
        let user = user();
        let ours = Ours::new(&REDIS.url(), template, limit(algorithm, "5/hour"), &user, false);
        let day = other(&ours.rule, "2/day");
        let names = ["hourly", "daily"].map(|limit| ChargeNames::new(&*user, limit));
        let both = |cost| {
            let hourly = ours.charge(cost);
            let daily = Charge::new(hourly.subject(), hourly.cost(), &day);
            [hourly.with_names(&names[0]), daily.with_names(&names[1])]
        };
        for (cost, passes, remaining) in
            [(3, false, [5, 2]), (2, true, [3, 0]), (1, false, [3, 0]), (0, true, [3, 0])]
        {
            let (passed, verdicts) = ours.try_settle(&both(cost)).unwrap();
            let left = [verdicts[0].remaining, verdicts[1].remaining];
            assert_eq!((passed, left), (passes, remaining), "{template} {cost}");
        }
        assert_eq!(keys_of(&user).len(), 2);
    }
}

/// Each limit may have its own names: two other limiters', and ours.
#[test]
fn a_charge_may_bring_its_own_template_along() {
    let user = user();
    let ours = Ours::new(&REDIS.url(), "x:{entity}", limit("fixed-window", "5/hour"), &user, false);
    let (log, own) = (limit("sliding-log", "3/hour"), limit("token-bucket", "2/hour"));
    let [log, own] = [(7, log), (6, own)].map(|(id, limit)| Rule {
        id: Fingerprint::new(id, id),
        limit,
        ..ours.rule
    });
    let names = ["a:{entity}:{window_index}", "b:{entity}"]
        .map(|template| ChargeNames::new(&*user, "login").in_template(template));
    let all = |cost| {
        let first = ours.charge(cost);
        let of = |rule, names| Charge::new(first.subject(), first.cost(), rule).with_names(names);
        [of(&ours.rule, &names[0]), of(&log, &names[1]), of(&own, ChargeNames::own())]
    };
    let left = |cost| {
        let (passes, verdicts) = ours.try_settle(&all(cost)).unwrap();
        (passes, [verdicts[0].remaining, verdicts[1].remaining, verdicts[2].remaining])
    };
    assert_eq!(left(2), (true, [3, 1, 0]));
    // The last one denies: what was taken from the others is given back.
    assert!(!left(1).0);
    assert_eq!(left(0), (true, [3, 1, 0]));
    let mut names: Vec<_> = keys_of(&user).iter().map(|name| name[..2].to_owned()).collect();
    names.sort();
    assert_eq!(names, ["a:", "b:"]);
}

#[test]
fn a_shadow_never_vetoes() {
    let user = user();
    let ours = Ours::like(Kind::Gateway, &user, "5/hour");
    let shadow = Rule { enforced: false, ..other(&ours.rule, "1/hour") };
    let hourly = ours.charge(2);
    let watched = Charge::new(hourly.subject(), hourly.cost(), &shadow);
    let names = ChargeNames::new(&*user, "shadow");
    let charges = [hourly, watched.with_names(&names)];
    let (passes, verdicts) = ours.try_settle(&charges).unwrap();
    assert!(passes && verdicts[0].allowed && !verdicts[1].allowed);
    assert_eq!((verdicts[0].remaining, verdicts[1].remaining), (3, 1));
}

#[test]
fn one_counter_twice_is_charged_for_the_sum() {
    for kind in Kind::ALL {
        let ours = Ours::like(kind, &user(), "5/hour");
        let settle = |costs: [u64; 2]| ours.try_settle(&costs.map(|cost| ours.charge(cost)));
        assert!(!settle([3, 3]).unwrap().0, "{kind:?}");
        let (passes, verdicts) = settle([3, 2]).unwrap();
        assert!(passes, "{kind:?}");
        assert_eq!((verdicts[0].remaining, verdicts[1].remaining), (2, 0), "{kind:?}");
        assert_eq!(ours.remaining(), 0, "{kind:?}");
    }
}

#[test]
fn two_limits_never_count_in_one_key() {
    let user = user();
    let ours = Ours::like(Kind::RlaasLog, &user, "5/hour");
    let day = other(&ours.rule, "20/day");
    let names = ChargeNames { limit: None, ..ChargeNames::new(&*user, "") };
    let first = ours.charge(1);
    let daily = Charge::new(first.subject(), first.cost(), &day).with_names(&names);
    let error = ours.try_settle(&[ours.charge(1), daily]).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("expected {limit}"), "{error}");
    assert_eq!(keys_of(&user), Vec::<String>::new());
}

#[test]
fn a_name_with_a_window_is_another_than_the_same_without() {
    let user = user();
    let ours = Ours::new(&REDIS.url(), "x:{entity}", limit("sliding-log", "5/hour"), &user, false);
    let windows = Rule { limit: limit("fixed-window", "2/day"), ..other(&ours.rule, "1/day") };
    let names = ChargeNames::new(&*user, "login").in_template("x:{entity}:{window_index}");
    let both = || {
        let log = ours.charge(1);
        [log, Charge::new(log.subject(), log.cost(), &windows).with_names(&names)]
    };
    let (passes, verdicts) = ours.try_settle(&both()).unwrap();
    assert!(passes);
    assert_eq!([verdicts[0].remaining, verdicts[1].remaining], [4, 1]);
}

#[test]
fn what_the_format_does_not_suit_is_refused() {
    for (template, algorithm) in [
        ("{entity}", "token-bucket"),
        ("{entity}", "fixed-window"),
        ("{entity}:{window_start}", "sliding-log"),
    ] {
        let ours = Ours::new(&REDIS.url(), template, limit(algorithm, "5/hour"), &user(), false);
        let error = ours.try_settle(&[ours.charge(1)]).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(error.to_string().contains(template), "{error}");
        assert!(ours.store.is_available());
    }
}

#[test]
fn denied_requests_count_where_that_was_asked_for() {
    let counting = FixedWindow::from_quota(&"5/hour".parse().unwrap()).unwrap().counting_denied();
    let user = user();
    let template = Kind::RlaasWindow.template();
    let ours = Ours::new(&REDIS.url(), template, counting.into(), &user, false);
    assert!(ours.take(4).allowed && !ours.take(2).allowed && !ours.take(1).allowed);
    assert_eq!(REDIS.command(&["GET", &keys_of(&user)[0]]).integer(), 7);
    // A cost that could never pass does not count.
    assert!(!ours.take(6).allowed);
    assert_eq!(REDIS.command(&["GET", &keys_of(&user)[0]]).integer(), 7);
}

#[test]
fn a_limit_of_zero_lets_nobody_in_and_keeps_nothing() {
    for kind in Kind::ALL {
        let user = user();
        let ours = Ours::like(kind, &user, "0/hour");
        assert!(!ours.take(1).allowed && !ours.take(0).allowed, "{kind:?}");
        assert_eq!(keys_of(&user), Vec::<String>::new());
    }
}
