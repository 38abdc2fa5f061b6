//! Tests of the local fallback against the store's earlier answers.

use proptest::prelude::*;
use tidegate_core::algorithm::{Algorithm, FixedWindow};
use tidegate_core::{AlgorithmKind, CalendarPeriod, Limit, Quota};
use tidegate_store::ManualClock;

use super::*;

/// Whether one unit passes so many milliseconds after the store reported that a quota was used up.
fn passes_after(kind: AlgorithmKind, millis: u64) -> bool {
    let mut quota: Quota = "4/2s".parse().unwrap();
    if kind == AlgorithmKind::TokenBucket {
        quota = quota.with_burst(4).unwrap();
    }
    let limit = Limit::new(kind, &quota).unwrap();
    let id = Fingerprint::new(1, 1);
    let rule = Rule { id, limit, enforced: true, staggered: false };
    let charges = [Charge::new(Fingerprint::new(2, 2), Cost::ONE, &rule)];
    let used_up = Verdict {
        allowed: true,
        limit: 4,
        remaining: 0,
        retry_after: None,
        reset_after: Span::from_secs(2),
    };
    let (fallback, then) = (FallbackStore::new(1), Timestamp::from_secs(1_000));
    fallback.record_verdicts(&charges, &Verdicts::from_iter([used_up]), then);
    let now = then + Span::from_millis(millis);
    fallback.settle(&charges, now, &mut Verdicts::new())
}

#[test]
fn an_instances_share_keeps_the_calendar_and_how_denials_count() {
    let monthly = FixedWindow::by_calendar(100, CalendarPeriod::Month).unwrap().counting_denied();
    let id = Fingerprint::new(1, 1);
    let rule = Rule { id, limit: monthly.into(), enforced: true, staggered: false };
    let [own, _] = FallbackStore::new(3).rules(&charge(&rule, 1));
    let Limit::FixedWindow(share) = own.limit else { panic!("a fixed window") };
    assert_eq!((share.capacity(), share.calendar()), (34, Some(CalendarPeriod::Month)));
    assert!(share.counts_denied());
}

#[test]
fn what_was_used_counts_until_the_quota_is_full_again() {
    for kind in AlgorithmKind::ALL {
        assert!(!passes_after(*kind, 0), "{kind}");
        assert!(passes_after(*kind, 2_000), "{kind}");
        assert!(passes_after(*kind, 3_600_000), "{kind}");
    }
}

#[test]
fn a_bucket_has_filled_up_meanwhile_and_others_have_not() {
    assert!(passes_after(AlgorithmKind::TokenBucket, 500));
    assert!(!passes_after(AlgorithmKind::TokenBucket, 499));
    assert!(!passes_after(AlgorithmKind::FixedWindow, 1_999));
    assert!(!passes_after(AlgorithmKind::SlidingLog, 1_999));
}

/// A store that fails now and then, with one caller.
struct FallbackWorld {
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
    fallback: FallbackStore<ManualClock>,
    rule: Rule,
    /// This instance's share, with only what was admitted without the store.
    own: (MemoryStore<ManualClock>, Rule),
    /// The store's last answer.
    answer: Option<LastStoreAnswer>,
    /// What was admitted, by the store or without it, and when.
    admitted: Vec<(Timestamp, u64)>,
}

#[derive(Clone, Copy)]
struct LastStoreAnswer {
    used: u64,
    at: Timestamp,
    full_at: Timestamp,
    /// The units that were admitted without the store since.
    since: u64,
}

#[derive(Clone, Copy, Debug)]
enum FallbackStep {
    Wait(u64),
    /// The store answers this instance.
    Asked(u64),
    /// The store answers another instance.
    AskedElsewhere(u64),
    /// The store fails.
    Failed(u64),
}

impl FallbackWorld {
    fn new(kind: AlgorithmKind, quota: &str, nodes: u32) -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(1_000));
        let store = || MemoryStore::builder().clock(clock.clone()).build();
        let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
        let rule = Rule { id: Fingerprint::new(1, 1), limit, enforced: true, staggered: true };
        let fallback = FallbackStore::with_clock(nodes, clock.clone());
        let [part, _] = fallback.rules(&charge(&rule, 1));
        let own = (store(), part);
        Self { store: store(), clock, fallback, rule, own, answer: None, admitted: Vec::new() }
    }

    fn take(&mut self, step: FallbackStep) {
        match step {
            FallbackStep::Wait(millis) => self.clock.advance(Span::from_millis(millis)),
            FallbackStep::Asked(cost) => self.ask(cost, true),
            FallbackStep::AskedElsewhere(cost) => self.ask(cost, false),
            FallbackStep::Failed(cost) => {
                let _ = self.fail(cost);
            }
        }
    }

    fn ask(&mut self, cost: u64, is_here: bool) {
        let (charge, now) = (charge(&self.rule, cost), self.clock.now());
        let mut verdicts = Verdicts::new();
        if self.store.settle_now(&[charge], &mut verdicts) {
            self.admitted.push((now, cost));
        }
        if is_here {
            self.fallback.record_verdicts(&[charge], &verdicts, now);
            let used = verdicts[0].limit - verdicts[0].remaining;
            let full_at = now + verdicts[0].reset_after;
            self.answer = Some(LastStoreAnswer { used, at: now, full_at, since: 0 });
        }
    }

    /// Decides without the store, and returns what remains afterwards.
    fn fail(&mut self, cost: u64) -> u64 {
        let (remaining, _) = self.ask_fallback(0);
        self.check(remaining);
        let (after, passes) = self.ask_fallback(cost);
        assert_eq!(passes, cost <= remaining);
        if passes {
            let (store, rule) = &self.own;
            let is_within = store.settle_now(&[charge(rule, cost)], &mut Verdicts::new());
            assert!(is_within, "more than the share was admitted without the store");
            self.admitted.push((self.clock.now(), cost));
            self.answer.iter_mut().for_each(|answer| answer.since += cost);
        }
        after
    }

    fn ask_fallback(&self, cost: u64) -> (u64, bool) {
        let mut verdicts = Verdicts::new();
        let charges = [charge(&self.rule, cost)];
        let passes = self.fallback.settle(&charges, self.clock.now(), &mut verdicts);
        assert_eq!(verdicts[0].allowed, passes);
        (verdicts[0].remaining, passes)
    }

    /// Checks that the remainder is the smaller of what the store left and what the own share has left.
    fn check(&self, remaining: u64) {
        let (store, rule) = &self.own;
        let mut own = Verdicts::new();
        store.settle_now(&[charge(rule, 0)], &mut own);
        let now = self.clock.now();
        let Some(answer) = self.answer.filter(|answer| now < answer.full_at) else {
            return assert_eq!(remaining, own[0].remaining);
        };
        let part = self.fallback.share.of(charge(rule, 1).subject());
        let used = part.of_used(answer.used, self.rule.limit.capacity()) + answer.since;
        let strictest = own[0].remaining.min(rule.limit.capacity().saturating_sub(used));
        // A bucket fills up meanwhile, and so does a sliding window.
        let is_exact = match rule.limit {
            Limit::FixedWindow(_) | Limit::SlidingLog(_) => true,
            _ => answer.at == now,
        };
        let most = if is_exact { strictest } else { own[0].remaining };
        assert!((strictest..=most).contains(&remaining), "{strictest} {remaining} {most}");
    }

    /// The most that was admitted in any window.
    fn most_in_a_window(&self) -> u64 {
        let window = self.rule.limit.quota().window();
        let phase = charge(&self.rule, 1).phase();
        let number = |at: Timestamp| (at + phase).as_micros() / window.as_micros();
        let is_aligned = matches!(self.rule.limit, Limit::FixedWindow(_));
        let is_within = |from: Timestamp, at: Timestamp| match is_aligned {
            true => number(from) == number(at),
            false => from <= at && at < from + window,
        };
        let sum = |from: Timestamp| {
            self.admitted.iter().filter(|(at, _)| is_within(from, *at)).map(|(_, cost)| cost).sum()
        };
        self.admitted.iter().map(|(from, _)| sum(*from)).max().unwrap_or(0)
    }
}

fn charge(rule: &Rule, cost: u64) -> Charge<'_> {
    Charge::new(Fingerprint::new(2_000_003, 2), Cost::new(cost).unwrap(), rule)
}

fn step() -> impl Strategy<Value = FallbackStep> {
    prop_oneof![
        (0..700_u64).prop_map(FallbackStep::Wait),
        (0..4_u64).prop_map(FallbackStep::Asked),
        (0..4_u64).prop_map(FallbackStep::AskedElsewhere),
        (0..4_u64).prop_map(FallbackStep::Failed),
    ]
}

proptest! {
    #[test]
    fn a_store_that_comes_and_goes_is_stood_in_for_from_where_it_was(
        kind in prop::sample::select(AlgorithmKind::ALL),
        limit in 1..20_u64,
        nodes in 1..4_u32,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = FallbackWorld::new(kind, &format!("{limit}/s"), nodes);
        steps.into_iter().for_each(|step| world.take(step));
        // The store and the share each admit what the algorithm admits in a window.
        let most = match kind {
            AlgorithmKind::FixedWindow
            | AlgorithmKind::SlidingLog
            | AlgorithmKind::SteppedWindow => 2 * limit,
            _ => 4 * limit,
        };
        prop_assert!(world.most_in_a_window() <= most);
    }
}

#[test]
fn failures_now_and_then_do_not_add_up() {
    for kind in AlgorithmKind::ALL {
        let mut world = FallbackWorld::new(*kind, "100/day", 1);
        world.take(FallbackStep::Asked(30));
        for failure in 0..35 {
            assert_eq!(world.fail(1), 69 - failure, "{kind}");
            world.take(FallbackStep::Asked(1));
        }
    }
}

#[test]
fn the_fallback_starts_from_the_last_state_of_the_store() {
    for kind in AlgorithmKind::ALL {
        let mut world = FallbackWorld::new(*kind, "100/day", 1);
        world.take(FallbackStep::Failed(51));
        world.take(FallbackStep::AskedElsewhere(94));
        world.take(FallbackStep::Asked(1));
        assert_eq!(world.fail(0), 5, "{kind}");
        assert_eq!(world.fail(5), 0, "{kind}");
    }
}

/// What each instance of a deployment admits for one caller at one moment, without the store.
fn admitted_by(nodes: u32, kind: AlgorithmKind, limit: u64, is_numbered: bool) -> Vec<u64> {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let quota: Quota = format!("{limit}/minute").parse().unwrap();
    let limit = Limit::new(kind, &quota).unwrap();
    let rule = Rule { id: Fingerprint::new(1, 1), limit, enforced: true, staggered: false };
    let each = (0..nodes).map(|number| {
        let fallback = FallbackStore::with_clock(nodes, clock.clone());
        if is_numbered {
            fallback.set_share(nodes, number);
        }
        let charges = [charge(&rule, 1)];
        let asks = 0..=quota.limit();
        let passes = asks.filter(|_| {
            let mut verdicts = Verdicts::new();
            let passes = fallback.settle(&charges, clock.now(), &mut verdicts);
            assert!(passes || verdicts[0].retry_after.is_some());
            passes
        });
        passes.count() as u64
    });
    each.collect()
}

#[test]
fn instances_that_know_their_numbers_admit_the_limit_and_no_more() {
    for kind in AlgorithmKind::ALL {
        for (limit, nodes) in [(5, 10), (1, 3), (20, 3), (100, 7), (3, 3)] {
            let admitted = admitted_by(nodes, *kind, limit, true);
            assert_eq!(admitted.iter().sum::<u64>(), limit, "{kind} {admitted:?}");
            let rounded_up = admitted_by(nodes, *kind, limit, false);
            assert_eq!(rounded_up, vec![limit.div_ceil(nodes.into()); nodes as usize], "{kind}");
        }
    }
}

#[test]
fn an_instance_that_learns_how_many_there_are_has_less_from_then_on() {
    let rule = Rule {
        id: Fingerprint::new(1, 1),
        limit: Limit::new(AlgorithmKind::FixedWindow, &"6/day".parse().unwrap()).unwrap(),
        enforced: true,
        staggered: false,
    };
    let (fallback, now) = (FallbackStore::new(1), Timestamp::from_secs(1_000));
    let passes = || fallback.settle(&[charge(&rule, 1)], now, &mut Verdicts::new());
    assert!(passes());
    fallback.set_share(3, 1);
    assert!(passes() && !passes());
}
