//! Several limits on one counter: tiers of a policy, an override, a limit that was changed, a shadow
//! beside the limit that it watches. A charge by one of them is seen by all, and a denial by none.

use proptest::prelude::*;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule, Span, Timestamp, Verdict};

use super::CASES;
use crate::Subject;
use crate::model::ModelStore;
use crate::trace::{for_all, fresh, limits, quotas_of, rule};

/// One event on the counter. Indexes of limits are taken modulo the number of limits.
#[derive(Clone, Debug)]
enum Act {
    Wait(Span),
    Jump(Span),
    /// One request with some charges, each to a limit and with a cost.
    Ask(Vec<(usize, u64)>),
    Refund(usize, u64),
    Reset,
}

/// Limits with one algorithm and window, and the events. If the clock goes back, each request has one
/// charge: a store may have forgotten an expired counter, which several charges would reveal.
fn scenes(jumps: bool, counting: bool) -> impl Strategy<Value = (Vec<Limit>, Vec<Act>)> {
    limits().prop_flat_map(move |limit| {
        let (kind, window) = (limit.kind(), limit.quota().window());
        let shared = (quotas_of(kind, window), any::<bool>());
        let shared = shared.prop_map(move |(limit, counts)| counted(limit, counts && counting));
        let micros = window.as_micros();
        let wait = prop_oneof![Just(0), Just(1), 0..=micros / 8, 0..=micros, 0..=3 * micros];
        let charges = if jumps { 1..2 } else { 1..4_usize };
        let ask = prop::collection::vec((0..3_usize, 0..14_u64), charges);
        let jump = prop_oneof![0..=micros, 0..=40 * micros];
        let act = prop_oneof![
            6 => ask.prop_map(Act::Ask),
            4 => wait.prop_map(|micros| Act::Wait(Span::from_micros(micros))),
            1 => (0..3_usize, 0..30_u64).prop_map(|(limit, amount)| Act::Refund(limit, amount)),
            1 => jump.prop_map(move |micros| {
                Act::Jump(Span::from_micros(if jumps { micros } else { 0 }))
            }),
        ];
        let act = prop_oneof![20 => act, 1 => Just(Act::Reset)];
        (prop::collection::vec(shared, 2..4), prop::collection::vec(act, 1..40))
    })
}

fn counted(limit: Limit, counts: bool) -> Limit {
    limit.counting_denied().filter(|_| counts).unwrap_or(limit)
}

/// A counter, and the rules that share it.
struct Shared<'a, S> {
    subject: &'a S,
    rules: Vec<Rule>,
    key: Fingerprint,
    now: Timestamp,
}

impl<'a, S: Subject> Shared<'a, S> {
    fn new(subject: &'a S, limits: &[Limit], enforced: bool) -> Self {
        let first = rule(limits[0]);
        // Unless all are enforced, the last limit is a shadow.
        let is_enforced = |place: usize| enforced || place + 1 < limits.len();
        let rules = limits.iter().enumerate();
        let rules = rules.map(|(place, limit)| Rule {
            limit: *limit,
            enforced: is_enforced(place),
            ..first
        });
        let (rules, now) = (rules.collect(), Timestamp::from_secs(1_763_000_000));
        subject.set_now(now);
        Self { subject, rules, key: fresh(), now }
    }

    fn beside<T: Subject>(&self, subject: &'a T) -> Shared<'a, T> {
        subject.set_now(self.now);
        Shared { subject, rules: self.rules.clone(), key: self.key, now: self.now }
    }

    fn charge(&self, limit: usize, cost: u64) -> Charge<'_> {
        let rule = &self.rules[limit % self.rules.len()];
        Charge::new(self.key, Cost::new(cost).unwrap(), rule)
    }

    fn check(&self, limit: usize, cost: u64) -> Verdict {
        self.subject.check(&self.charge(limit, cost))
    }

    fn peeks(&self) -> Vec<Verdict> {
        (0..self.rules.len()).map(|limit| self.check(limit, 0)).collect()
    }

    fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.subject.set_now(now);
    }

    fn play(&mut self, act: &Act) -> Option<(bool, Vec<Verdict>)> {
        match act {
            Act::Wait(span) => self.set_now(self.now + *span),
            Act::Jump(span) => self.set_now(self.now.before(*span)),
            Act::Refund(limit, amount) => self.subject.refund(&self.charge(*limit, *amount)),
            Act::Reset => self.subject.reset(&self.charge(0, 1)),
            Act::Ask(costs) => {
                let charge = |(limit, cost): &(usize, u64)| self.charge(*limit, *cost);
                let charges: Vec<_> = costs.iter().map(charge).collect();
                let (passes, verdicts) = self.subject.settle(&charges);
                return Some((passes, verdicts.to_vec()));
            }
        }
        None
    }
}

/// Every request, under any of the limits and for any number of them, is decided as by the model.
pub fn limits_that_share_a_counter_agree_with_the_model(subject: &impl Subject) {
    let scenes = (prop_oneof![scenes(true, true), scenes(false, true)], any::<bool>());
    for_all(subject.share_of(4 * CASES), scenes, |((limits, acts), enforced)| {
        let model = ModelStore::default();
        let mut real = Shared::new(subject, &limits, enforced);
        let mut ideal = real.beside(&model);
        for (step, act) in acts.iter().enumerate() {
            assert_eq!(real.play(act), ideal.play(act), "step {step}: {act:?}");
        }
    });
}

/// Law 2, over all limits of a counter: a denial under one leaves all of them as they were.
pub fn a_denial_changes_nothing_for_any_limit_of_its_counter(subject: &impl Subject) {
    for_all(subject.share_of(CASES), scenes(false, false), |(limits, acts)| {
        let mut shared = Shared::new(subject, &limits, true);
        for act in &acts {
            shared.play(act);
        }
        let before = shared.peeks();
        for (limit, peek) in before.iter().enumerate() {
            for cost in peek.remaining + 1..=peek.limit + 1 {
                assert!(!shared.check(limit, cost).allowed);
                // Two charges that do not fit together.
                let both = [shared.charge(limit, cost), shared.charge(limit + 1, 1)];
                assert!(!shared.subject.settle(&both).0);
            }
            assert_eq!(shared.peeks(), before, "after denials by {}", limits[limit]);
        }
    });
}

/// Laws 3 and 4, over all limits of a counter: what remains passes and one more does not, and a
/// denied request passes after `retry_after`.
pub fn every_limit_of_a_counter_tells_exactly(subject: &impl Subject) {
    let scenes = (scenes(false, true), 0..3_usize);
    for_all(subject.share_of(CASES), scenes, |((limits, acts), limit)| {
        for before in [1, 0] {
            let mut shared = Shared::new(subject, &limits, true);
            for act in &acts {
                shared.play(act);
            }
            let place = limit % limits.len();
            let remaining = shared.peeks()[place].remaining;
            if !limits[place].counts_denied() {
                let denied = shared.check(place, remaining + 1);
                assert!(!denied.allowed);
                if let Some(wait) = denied.retry_after {
                    let then = shared.now + wait.minus(Span::from_micros(before));
                    shared.set_now(then);
                    assert_eq!(shared.check(place, remaining + 1).allowed, before == 0);
                    continue;
                }
            }
            assert!(shared.check(place, remaining).allowed);
            assert_eq!(shared.peeks()[place].remaining, 0);
            let denied = shared.check(place, 1);
            assert_eq!((denied.allowed, denied.remaining), (false, 0));
        }
    });
}

/// A client that can choose the tier of each request is admitted no more often than by the largest.
pub fn tiers_admit_no_more_than_the_largest(subject: &impl Subject) {
    for_all(subject.share_of(CASES / 4).max(8), limits(), |limit| {
        let quota = limit.quota();
        let large = tidegate_core::Quota::new(10 * quota.limit(), quota.window()).unwrap();
        let limits = [limit.with_quota(&quota).unwrap(), limit.with_quota(&large).unwrap()];
        let shared = Shared::new(subject, &limits, true);
        let mut admitted = 0;
        for _ in 0..5 {
            let (mut small, mut large) = (0, 0);
            while shared.check(1, 1).allowed {
                large += 1;
            }
            // Denied by the small one, which makes no room in the large one.
            while shared.check(0, 1).allowed {
                small += 1;
            }
            admitted += small + large;
        }
        assert!(admitted <= limits[1].capacity().max(limits[0].capacity()), "{admitted}");
    });
}
