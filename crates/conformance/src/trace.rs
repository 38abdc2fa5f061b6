//! Random limits, and random traces of events on a key.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_core::algorithm::SteppedWindow;
use tidegate_core::{
    AlgorithmKind, Charge, Cost, Fingerprint, Limit, Quota, Rule, Span, Timestamp, Verdict,
};

use crate::Subject;

/// One event on a key.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Time passes.
    Wait(Span),
    /// Time jumps back.
    Jump(Span),
    /// A request of this cost.
    Check(Cost),
    /// A refund of this much.
    Refund(Cost),
    /// The key is forgotten.
    Reset,
    /// The limit changes to another quota.
    Change(Limit),
}

/// A limit, a starting time, and the events that follow.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The limit.
    pub limit: Limit,
    /// The first instant.
    pub start: Timestamp,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// What a trace may contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix {
    /// Costs other than one.
    pub costs: bool,
    /// Refunds and resets.
    pub returns: bool,
    /// A clock that goes back.
    pub jumps: bool,
    /// Limits that change.
    pub changes: bool,
}

impl Mix {
    /// Requests of one unit and time that passes.
    pub const UNITS: Self = Self { costs: false, returns: false, jumps: false, changes: false };
    /// Requests of any cost.
    pub const COSTS: Self = Self { costs: true, ..Self::UNITS };
    /// Everything that an honest clock allows.
    pub const STEADY: Self = Self { returns: true, ..Self::COSTS };
    /// A clock that goes back, too.
    pub const JUMPING: Self = Self { jumps: true, ..Self::STEADY };
    /// Limits that change, too.
    pub const CHANGING: Self = Self { changes: true, ..Self::STEADY };
}

/// Any algorithm with a quota small enough for a short trace to reach.
pub fn limits() -> impl Strategy<Value = Limit> {
    let window = prop_oneof![
        Just(Span::from_millis(1)),
        Just(Span::from_secs(1)),
        Just(Span::from_secs(60)),
        (1_000..10_000_000_u64).prop_map(Span::from_micros),
    ];
    (prop::sample::select(AlgorithmKind::ALL), window)
        .prop_flat_map(|(kind, window)| quotas_of(kind, window))
}

/// Any quota of an algorithm and a window.
pub fn quotas_of(kind: AlgorithmKind, window: Span) -> impl Strategy<Value = Limit> {
    (1..12_u64, prop::option::of(1..20_u64), steps()).prop_map(move |(limit, burst, steps)| {
        let mut quota = Quota::new(limit, window).unwrap();
        if let (true, Some(burst)) = (kind.takes_burst(), burst) {
            quota = quota.with_burst(burst).unwrap();
        }
        let limit = Limit::new(kind, &quota).unwrap();
        // Algorithms without steps refuse them.
        limit.with_steps(steps).unwrap_or(limit)
    })
}

/// Any number of steps.
fn steps() -> impl Strategy<Value = u64> {
    SteppedWindow::MIN_STEPS..=SteppedWindow::MAX_STEPS
}

/// Any trace of a mix.
pub fn traces(mix: Mix) -> impl Strategy<Value = Trace> {
    let start = prop_oneof![Just(0), Just(1_763_000_000_000_000_u64), 0..10_u64.pow(15)];
    (limits(), start).prop_flat_map(move |(limit, start)| {
        let start = Timestamp::from_micros(start);
        let events = prop::collection::vec(events(limit, mix), 1..60);
        events.prop_map(move |events| Trace { limit, start, events })
    })
}

/// Traces with large quotas, and costs to match: around the powers of two, where a store may start
/// to encode its counts differently.
pub fn large_traces() -> impl Strategy<Value = Trace> {
    let kinds = AlgorithmKind::ALL.iter().filter(|kind| **kind != AlgorithmKind::SlidingLog);
    let kind = prop::sample::select(kinds.copied().collect::<Vec<_>>());
    let window = prop::sample::select(vec![1_000, 1_000_000, 60_000_000_u64]);
    let limit = (prop::sample::select(vec![5, 10, 13, 16, 20, 26, 32]), 0..5_u64);
    let limit = limit.prop_map(|(exponent, more)| (1 << exponent) - 2 + more);
    let mix = prop::sample::select(vec![Mix::JUMPING, Mix::CHANGING]);
    (kind, window, limit, mix).prop_flat_map(|(kind, window, limit, mix)| {
        let quota = Quota::new(limit, Span::from_micros(window)).unwrap();
        let limit = Limit::new(kind, &quota).unwrap();
        let events = prop::collection::vec(events(limit, mix), 1..60);
        let start = Timestamp::from_secs(1_763_000_000);
        events.prop_map(move |events| Trace { limit, start, events })
    })
}

fn events(limit: Limit, mix: Mix) -> BoxedStrategy<Event> {
    let (window, capacity) = (limit.quota().window().as_micros(), limit.capacity());
    let wait = prop_oneof![
        Just(0),
        Just(1),
        0..=window / 8,
        0..=window,
        Just(window),
        Just(window - 1),
        0..=3 * window,
    ];
    let wait = wait.prop_map(|micros| Event::Wait(Span::from_micros(micros)));
    let any_cost = (0..=capacity + 2).prop_map(|units| Event::Check(Cost::new(units).unwrap()));
    let check = if mix.costs { any_cost.boxed() } else { Just(Event::Check(Cost::ONE)).boxed() };
    let amount = (0..=capacity + 2).prop_map(|units| Event::Refund(Cost::new(units).unwrap()));
    let jump = (0..=4 * window).prop_map(|micros| Event::Jump(Span::from_micros(micros)));
    let mut choices = vec![(6, check.boxed()), (4, wait.boxed())];
    if mix.returns {
        choices.push((1, amount.boxed()));
        choices.push((1, Just(Event::Reset).boxed()));
    }
    if mix.jumps {
        choices.push((1, jump.boxed()));
    }
    if mix.changes {
        let change = quotas_of(limit.kind(), limit.quota().window()).prop_map(Event::Change);
        choices.push((1, change.boxed()));
    }
    prop::strategy::Union::new_weighted(choices).boxed()
}

/// Runs a property over many values; panics with the smallest that breaks it. The environment
/// variable `TIDEGATE_CASES` multiplies their number, for a longer search.
pub fn for_all<V: std::fmt::Debug>(
    cases: u32,
    values: impl Strategy<Value = V>,
    property: impl Fn(V),
) {
    let times = std::env::var("TIDEGATE_CASES").ok().and_then(|times| times.parse().ok());
    let cases = cases.saturating_mul(times.unwrap_or(1));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&values, |value| {
        property(value);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// A rule that no other test uses.
pub fn rule(limit: Limit) -> Rule {
    Rule { id: fresh(), limit, enforced: true, staggered: false }
}

/// A fingerprint that no other test uses, spread like a hash.
pub fn fresh() -> Fingerprint {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mix = |n: u64| {
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    };
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    Fingerprint::new(mix(n), mix(n ^ 0x5eed_0000_0000))
}

/// A trace while it runs: one key, its rule and the time.
#[derive(Debug)]
pub struct Play<'a, S> {
    subject: &'a S,
    rule: Rule,
    key: Fingerprint,
    now: Timestamp,
}

impl<'a, S: Subject> Play<'a, S> {
    /// A new key.
    pub fn new(subject: &'a S, limit: Limit, start: Timestamp) -> Self {
        subject.set_now(start);
        Self { subject, rule: rule(limit), key: fresh(), now: start }
    }

    /// The same key of the same rule, on another subject.
    pub fn beside<T: Subject>(&self, subject: &'a T) -> Play<'a, T> {
        subject.set_now(self.now);
        Play { subject, rule: self.rule, key: self.key, now: self.now }
    }

    /// Staggers the key's windows, or not.
    pub const fn stagger(&mut self, staggered: bool) {
        self.rule.staggered = staggered;
    }

    /// Now.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves the clock.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.subject.set_now(now);
    }

    /// Lets time pass.
    pub fn wait(&mut self, span: Span) {
        self.set_now(self.now + span);
    }

    /// The charge of a request.
    pub fn charge(&self, cost: u64) -> Charge<'_> {
        Charge::new(self.key, Cost::new(cost).unwrap(), &self.rule)
    }

    /// Sends a request of this cost.
    pub fn check(&self, cost: u64) -> Verdict {
        self.subject.check(&self.charge(cost))
    }

    /// Sends several requests of this cost together.
    pub fn crowd(&self, cost: u64, size: usize) -> Vec<Verdict> {
        self.subject.crowd(&self.charge(cost), size)
    }

    /// Peeks.
    pub fn peek(&self) -> Verdict {
        self.check(0)
    }

    /// How long the counter will be kept.
    pub fn time_to_live(&self) -> Option<Span> {
        self.subject.time_to_live(&self.charge(1))
    }

    /// Refunds this much.
    pub fn refund(&self, amount: u64) {
        self.subject.refund(&self.charge(amount));
    }

    /// Plays the next event; returns a check's verdict.
    pub fn play(&mut self, event: Event) -> Option<Verdict> {
        match event {
            Event::Wait(span) => self.wait(span),
            Event::Jump(span) => self.set_now(self.now.before(span)),
            Event::Check(cost) => return Some(self.check(cost.get())),
            Event::Refund(amount) => self.refund(amount.get()),
            Event::Reset => self.subject.reset(&self.charge(1)),
            Event::Change(limit) => self.rule.limit = limit,
        }
        None
    }

    /// Plays a whole trace.
    pub fn play_all(&mut self, events: &[Event]) {
        for event in events {
            self.play(*event);
        }
    }
}
