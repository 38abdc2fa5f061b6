use proptest::prelude::*;
use tidegate_core::{AlgorithmKind, Cost, Limit, Rule, Span};
use tidegate_store::{LocalStore, ManualClock, MemoryStore, Verdicts};

use super::*;

const START: Timestamp = Timestamp::from_secs(1_763_000_000);

fn rule(kind: AlgorithmKind, quota: &str) -> Rule {
    let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
    Rule { id: Fingerprint::new(1, 2), limit, enforced: true, staggered: false }
}

fn charge(rule: &Rule, cost: u64) -> Charge<'_> {
    Charge::new(Fingerprint::new(3, 4), Cost::new(cost).unwrap(), rule)
}

const BOUNDS: LeaseBounds = LeaseBounds { max_over_permille: 100, nodes: 2 };

/// One instance with leases, on a store that it shares with others.
struct LeasingNode<'s> {
    store: &'s MemoryStore<ManualClock>,
    leases: LeaseTable,
    asked: u64,
}

impl<'s> LeasingNode<'s> {
    fn new(store: &'s MemoryStore<ManualClock>) -> Self {
        Self { store, leases: LeaseTable::new(), asked: 0 }
    }

    /// Decides as `Decider` does, without waiting.
    fn decide(&mut self, charge: &Charge<'_>, bounds: LeaseBounds, now: Timestamp) -> bool {
        if self.leases.spend(charge, now).is_some() {
            return true;
        }
        let Some(mut asking) = self.leases.request_lease(charge, bounds, now) else {
            let verdict = ask(self.store, &mut self.asked, charge);
            if verdict.allowed {
                self.leases.record_verdict(charge, bounds, &verdict, now);
            }
            return verdict.allowed;
        };
        loop {
            let verdict = ask(self.store, &mut self.asked, &charge.with_cost(asking.amount()));
            if verdict.allowed {
                asking.record_paid(&verdict, now);
                return true;
            }
            if asking.ask_for_less().is_none() {
                asking.record_denied(&verdict);
                return false;
            }
        }
    }
}

fn ask(store: &MemoryStore<ManualClock>, asked: &mut u64, charge: &Charge<'_>) -> Verdict {
    *asked += 1;
    let mut out = Verdicts::new();
    store.settle_now(&[*charge], &mut out);
    out[0]
}

#[test]
fn the_second_request_takes_some_along_and_others_spend_it() {
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock).build();
    let rule = rule(AlgorithmKind::FixedWindow, "1000/hour");
    let (mut node, one) = (LeasingNode::new(&store), charge(&rule, 1));
    assert!(node.decide(&one, BOUNDS, START));
    assert_eq!(node.leases.units_left(&one, START), 0);
    assert!(node.decide(&one, BOUNDS, START));
    // A tenth of 1000, for two instances.
    assert_eq!((node.asked, node.leases.units_left(&one, START)), (2, 49));
    let verdict = node.leases.spend(&one, START).unwrap();
    assert_eq!((verdict.limit, verdict.remaining), (1_000, 997));
    assert!(verdict.allowed && verdict.retry_after.is_none());
    for _ in 0..48 {
        assert!(node.decide(&one, BOUNDS, START));
    }
    assert_eq!((node.asked, node.leases.units_left(&one, START)), (2, 0));
    assert!(node.decide(&one, BOUNDS, START));
    assert_eq!((node.asked, node.leases.units_left(&one, START)), (3, 49));
    // A lease pays no charge that costs more than it has left.
    assert!(node.leases.spend(&charge(&rule, 50), START).is_none());
    assert!(node.leases.spend(&charge(&rule, 0), START).is_none());
}

#[test]
fn a_lease_ends_with_its_window_with_its_limit_and_when_it_is_forgotten() {
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock).build();
    let rule_a = rule(AlgorithmKind::FixedWindow, "1000/hour");
    let (mut node, one) = (LeasingNode::new(&store), charge(&rule_a, 1));
    let held = |node: &mut LeasingNode<'_>| {
        for _ in 0..2 {
            assert!(node.decide(&one, BOUNDS, START));
        }
        node.leases.units_left(&one, START)
    };
    assert_eq!(held(&mut node), 49);
    let window = Span::from_secs(3_600 - 1_763_000_000 % 3_600);
    let just_before = START + window.minus(Span::from_micros(1));
    assert_eq!(node.leases.units_left(&one, just_before), 49);
    assert_eq!(node.leases.units_left(&one, START + window), 0);
    let rule_b = rule(AlgorithmKind::FixedWindow, "2000/hour");
    assert_eq!(node.leases.units_left(&charge(&rule_b, 1), START), 0);
    node.leases.forget(&one);
    assert_eq!(node.leases.units_left(&one, START), 0);
}

/// The leases after the first request of a key, which left `remaining` in the store.
fn seen(rule: &Rule, remaining: u64) -> LeaseTable {
    let leases = LeaseTable::new();
    let fresh = rule.limit.probe_fresh(Cost::ONE, START);
    let verdict = Verdict { remaining, reset_after: Span::from_secs(9), ..fresh };
    leases.record_verdict(&charge(rule, 1), BOUNDS, &verdict, START);
    leases
}

fn given(remaining: u64, secs: u64) -> Verdict {
    let reset_after = Span::from_secs(secs);
    Verdict { allowed: true, limit: 1_000, remaining, retry_after: None, reset_after }
}

#[test]
fn only_one_takes_at_a_time_and_whoever_gives_up_is_waited_for() {
    let rule = rule(AlgorithmKind::TokenBucket, "1000/hour burst 1000");
    let (leases, one) = (seen(&rule, 999), charge(&rule, 1));
    let asking = leases.request_lease(&one, BOUNDS, START).unwrap();
    assert_eq!(asking.amount().get(), 50);
    assert!(leases.request_lease(&one, BOUNDS, START).is_none());
    // It is unknown what the store counted, so nothing is taken in advance for a while.
    drop(asking);
    assert!(leases.request_lease(&one, BOUNDS, START).is_none());
    let later = START + Span::from_secs(1);
    let asking = leases.request_lease(&one, BOUNDS, later).unwrap();
    asking.record_denied(&given(80, 9));
    // Half of eighty, for two instances.
    assert_eq!(leases.request_lease(&one, BOUNDS, later).unwrap().amount().get(), 20);
}

#[test]
fn units_left_in_a_lease_are_not_requested_again() {
    let rule = rule(AlgorithmKind::FixedWindow, "1000/hour");
    let (leases, one) = (seen(&rule, 999), charge(&rule, 1));
    leases.request_lease(&one, BOUNDS, START).unwrap().record_paid(&given(4, 9), START);
    assert_eq!(leases.units_left(&one, START), 49);
    let much = charge(&rule, 50);
    let mut asking = leases.request_lease(&much, BOUNDS, START).unwrap();
    assert_eq!((asking.amount().get(), asking.ask_for_less()), (1, None));
    // The units cannot be spent meanwhile, and return if they were not enough.
    assert!(leases.spend(&one, START).is_none());
    asking.record_denied(&given(0, 9));
    assert_eq!(leases.units_left(&one, START), 49);
    let asking = leases.request_lease(&much, BOUNDS, START).unwrap();
    asking.record_paid(&given(0, 9), START);
    assert_eq!(leases.units_left(&one, START), 0);
}

#[test]
fn units_that_arrive_too_late_are_not_spent() {
    let rule = rule(AlgorithmKind::FixedWindow, "1000/hour");
    let one = charge(&rule, 1);
    let leases = seen(&rule, 999);
    let asking = leases.request_lease(&one, BOUNDS, START).unwrap();
    // The window had ended when the answer arrived.
    asking.record_paid(&given(900, 9), START + Span::from_secs(9));
    assert_eq!(leases.units_left(&one, START + Span::from_secs(9)), 0);
    // The key was reset meanwhile.
    let asking = leases.request_lease(&one, BOUNDS, START).unwrap();
    leases.forget(&one);
    leases.record_verdict(&one, BOUNDS, &given(999, 9), START);
    asking.record_paid(&given(900, 9), START);
    assert_eq!(leases.units_left(&one, START), 0);
    assert!(leases.request_lease(&one, BOUNDS, START).is_some());
}

#[test]
fn a_key_is_remembered_for_a_second_though_its_bucket_is_full_again() {
    let rule = rule(AlgorithmKind::TokenBucket, "100000/minute burst 1000");
    let (leases, one) = (LeaseTable::new(), charge(&rule, 1));
    let verdict = Verdict { reset_after: Span::from_micros(600), ..given(999, 0) };
    leases.record_verdict(&one, BOUNDS, &verdict, START);
    assert!(leases.request_lease(&one, BOUNDS, START + Span::from_millis(999)).is_some());
    assert!(leases.request_lease(&one, BOUNDS, START + Span::from_millis(1_000)).is_none());
}

#[test]
fn small_rare_and_shadow_limits_are_not_leased() {
    let asks = |rule: &Rule, cost: u64, bounds: LeaseBounds| {
        let asking =
            seen(rule, 1_000).request_lease(&charge(rule, cost), bounds, START)?.amount().get();
        Some(asking)
    };
    let thousand = rule(AlgorithmKind::SlidingWindow, "1000/hour");
    assert_eq!(asks(&thousand, 1, BOUNDS), Some(50));
    assert_eq!(asks(&thousand, 1, LeaseBounds { max_over_permille: 3, ..BOUNDS }), None);
    assert_eq!(asks(&thousand, 1, LeaseBounds { nodes: 51, ..BOUNDS }), None);
    assert_eq!(asks(&thousand, 49, BOUNDS), Some(50));
    assert_eq!(asks(&thousand, 50, BOUNDS), None);
    assert_eq!(asks(&thousand, 0, BOUNDS), None);
    assert_eq!(asks(&Rule { enforced: false, ..thousand }, 1, BOUNDS), None);
    // A bucket never gives more than it holds.
    let burst = rule(AlgorithmKind::TokenBucket, "1000/hour burst 100");
    assert_eq!(asks(&burst, 1, BOUNDS), Some(5));
}

#[test]
fn a_flood_of_keys_is_bounded_and_keeps_what_is_held() {
    let rule = rule(AlgorithmKind::FixedWindow, "1000/hour");
    let (leases, one) = (seen(&rule, 999), charge(&rule, 1));
    leases.request_lease(&one, BOUNDS, START).unwrap().record_paid(&given(900, 9), START);
    for key in 0..1_000_000 {
        let other = Charge::new(Fingerprint::new(key, key), Cost::ONE, &rule);
        leases.record_verdict(&other, BOUNDS, &given(999, 9), START);
    }
    let keys: usize = leases.shards.iter().map(|shard| shard.lock().len()).sum();
    assert_eq!(keys, SHARDS * LEASES_PER_SHARD);
    assert_eq!(leases.units_left(&one, START), 49);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever several instances do, a fixed window never admits more than the limit, and other
    /// algorithms exceed it by at most what all instances can hold.
    #[test]
    fn what_instances_admit_together_is_bounded(
        kind in prop::sample::select(AlgorithmKind::ALL.to_vec()),
        steps in prop::collection::vec((0..3_usize, 1..4_u64, 0..40_u64), 1..1_000),
    ) {
        let (clock, bounds) = (ManualClock::at(START), LeaseBounds { max_over_permille: 100, nodes: 3 });
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let burst = if kind == AlgorithmKind::TokenBucket { " burst 200" } else { "" };
        let rule = rule(kind, &format!("200/10s{burst}"));
        let mut nodes = [LeasingNode::new(&store), LeasingNode::new(&store), LeasingNode::new(&store)];
        let (mut now, mut admitted) = (START, Vec::new());
        for (node, cost, millis) in steps {
            now = now + Span::from_millis(millis);
            clock.set(now);
            if nodes[node].decide(&charge(&rule, cost), bounds, now) {
                admitted.push((now, cost));
            }
        }
        let window = Span::from_secs(10);
        let within = |from: Timestamp| {
            let to = from + window;
            admitted.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, cost)| cost).sum()
        };
        // A tenth of 200, for three instances: six each.
        let held = 3 * 6;
        for (at, _) in &admitted {
            let (from, most): (_, u64) = match kind {
                AlgorithmKind::FixedWindow => {
                    let into = at.as_micros() % window.as_micros();
                    (Timestamp::from_micros(at.as_micros() - into), 200)
                }
                AlgorithmKind::SlidingLog | AlgorithmKind::SteppedWindow => (*at, 200 + held),
                // These algorithms admit up to twice the limit in the worst window, even without leases.
                _ => (*at, 400 + held),
            };
            let sum: u64 = within(from);
            prop_assert!(sum <= most, "{kind:?}: {sum} of {most}");
        }
    }
}
