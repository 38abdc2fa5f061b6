//! Compares the deny cache with a store that is always asked: both deny the same requests.

use tidegate_core::{AlgorithmKind, Cost, Limit, Quota, Rule};
use tidegate_store::{LocalStore, ManualClock, MemoryStore};

use super::*;

fn rule(kind: AlgorithmKind, quota: &str) -> Rule {
    let quota: Quota = quota.parse().unwrap();
    let limit = Limit::new(kind, &quota).unwrap();
    Rule { id: Fingerprint::new(3, 5), limit, enforced: true, staggered: false }
}

fn charge(rule: &Rule, cost: u64) -> Charge<'_> {
    Charge::new(Fingerprint::new(7, 9), Cost::new(cost).unwrap(), rule)
}

struct DenyCacheFixture {
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
    cache: DenyCache<ManualClock>,
    asked: u32,
}

impl DenyCacheFixture {
    fn new() -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(1_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { cache: DenyCache::with_clock(clock.clone()), store, clock, asked: 0 }
    }

    /// Checks as a limiter does.
    fn check(&mut self, charges: &[Charge<'_>]) -> (bool, Verdicts) {
        let now = self.cache.moment(charges);
        if let Some(verdicts) = self.cache.recall(charges, now) {
            return (false, verdicts);
        }
        self.asked += 1;
        let mut verdicts = Verdicts::new();
        let passes = self.store.settle_now(charges, &mut verdicts);
        if passes {
            self.cache.record_admitted(charges, &verdicts, self.clock.now());
        } else {
            self.cache.remember(charges, &verdicts, now);
        }
        (passes, verdicts)
    }
}

fn wait(verdicts: &Verdicts) -> Option<Span> {
    verdicts[0].retry_after
}

#[test]
fn decides_as_the_store_would_and_asks_it_seldom() {
    for kind in AlgorithmKind::ALL {
        let rule = rule(*kind, "5/s");
        let (mut with, without) = (DenyCacheFixture::new(), DenyCacheFixture::new());
        let mut random = 7_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let charges = [charge(&rule, 1 + (random >> 40) % 3)];
            let mut verdicts = Verdicts::new();
            let expected = without.store.settle_now(&charges, &mut verdicts);
            let (passes, told) = with.check(&charges);
            assert_eq!(passes, expected, "{kind}");
            assert_eq!(wait(&told).is_some(), wait(&verdicts).is_some(), "{kind}");
            // A bucket's debt is known to a microsecond.
            let [told, exact] = [&told, &verdicts].map(|it| wait(it).unwrap_or_default());
            let bound = Span::from_micros(u64::from(*kind == AlgorithmKind::TokenBucket));
            assert!(told >= exact && told.minus(exact) <= bound, "{kind}: {told} for {exact}");
            let pause = Span::from_micros((random >> 33) % 4_000);
            with.clock.advance(pause);
            without.clock.advance(pause);
        }
        assert!(with.asked < 3_000, "{kind} asked {}", with.asked);
    }
}

#[test]
fn a_smaller_cost_or_another_limit_asks_the_store() {
    let mut fixture = DenyCacheFixture::new();
    let strict = rule(AlgorithmKind::FixedWindow, "5/minute");
    assert!(fixture.check(&[charge(&strict, 4)]).0);
    assert!(!fixture.check(&[charge(&strict, 3)]).0);
    assert!(!fixture.check(&[charge(&strict, 4)]).0);
    assert_eq!(fixture.asked, 2);
    assert!(fixture.check(&[charge(&strict, 1)]).0);
    let raised = rule(AlgorithmKind::FixedWindow, "9/minute");
    assert!(fixture.check(&[charge(&raised, 4)]).0);
}

#[test]
fn an_admission_after_a_denial_lengthens_its_wait() {
    for kind in AlgorithmKind::ALL {
        let mut fixture = DenyCacheFixture::new();
        let rule = rule(*kind, "10/minute");
        assert!(fixture.check(&[charge(&rule, 5)]).0, "{kind}");
        fixture.clock.advance(Span::from_millis(1));
        let (_, first) = fixture.check(&[charge(&rule, 8)]);
        let (_, again) = fixture.check(&[charge(&rule, 8)]);
        assert_eq!((wait(&first), fixture.asked), (wait(&again), 2), "{kind}");
        for _ in 0..4 {
            assert!(fixture.check(&[charge(&rule, 1)]).0, "{kind}");
        }
        let (passes, told) = fixture.check(&[charge(&rule, 8)]);
        assert!(!passes);
        fixture.clock.advance(wait(&told).unwrap());
        assert!(fixture.check(&[charge(&rule, 8)]).0, "{kind} after {:?}", wait(&told));
    }
}

#[test]
fn what_can_never_pass_is_remembered_too_and_promises_nothing() {
    for kind in AlgorithmKind::ALL {
        let mut fixture = DenyCacheFixture::new();
        let rule = rule(*kind, "5/minute");
        for _ in 0..3 {
            let (passes, told) = fixture.check(&[charge(&rule, 6)]);
            assert_eq!((passes, wait(&told)), (false, None), "{kind}");
        }
        assert_eq!(fixture.asked, 1, "{kind}");
        assert!(fixture.check(&[charge(&rule, 5)]).0, "{kind}");
        assert!(!fixture.check(&[charge(&rule, 5)]).0, "{kind}");
        assert_eq!(wait(&fixture.check(&[charge(&rule, 6)]).1), None, "{kind}");
    }
}

#[test]
fn a_debt_that_another_limit_pays_back_is_not_reckoned_here() {
    let mut fixture = DenyCacheFixture::new();
    let (large, small) =
        (rule(AlgorithmKind::TokenBucket, "100/hour"), rule(AlgorithmKind::TokenBucket, "10/hour"));
    assert!(fixture.check(&[charge(&large, 50)]).0);
    assert!(!fixture.check(&[charge(&small, 1)]).0);
    let (_, told) = fixture.check(&[charge(&small, 5)]);
    // 45 tokens at the larger limit's rate.
    assert_eq!(wait(&told), Some(Span::from_secs(45 * 36)));
}

#[test]
fn a_limit_that_became_shadow_does_not_deny_from_the_cache() {
    let mut fixture = DenyCacheFixture::new();
    let enforced = rule(AlgorithmKind::FixedWindow, "1/hour");
    let watched = Rule { enforced: false, ..enforced };
    assert!(fixture.check(&[charge(&enforced, 1)]).0);
    assert!(!fixture.check(&[charge(&enforced, 1)]).0);
    assert!(fixture.check(&[charge(&watched, 1)]).0);
    assert!(!fixture.check(&[charge(&enforced, 1)]).0);
    assert_eq!(fixture.asked, 3);
}

#[test]
fn waits_shrink_and_denials_end() {
    let mut fixture = DenyCacheFixture::new();
    let rule = rule(AlgorithmKind::SlidingLog, "1/500ms");
    assert!(fixture.check(&[charge(&rule, 1)]).0);
    assert!(!fixture.check(&[charge(&rule, 1)]).0);
    fixture.clock.advance(Span::from_millis(200));
    let (passes, verdicts) = fixture.check(&[charge(&rule, 1)]);
    assert!(!passes);
    assert_eq!(verdicts[0].retry_after, Some(Span::from_millis(300)));
    assert_eq!(fixture.asked, 2);
    fixture.clock.advance(Span::from_millis(300));
    assert!(fixture.check(&[charge(&rule, 1)]).0);
}

#[test]
fn what_is_given_back_is_seen_at_once_here_and_after_a_second_elsewhere() {
    let mut fixture = DenyCacheFixture::new();
    let rule = rule(AlgorithmKind::FixedWindow, "1/hour");
    assert!(fixture.check(&[charge(&rule, 1)]).0);
    assert!(!fixture.check(&[charge(&rule, 1)]).0);
    fixture.store.refund_now(&charge(&rule, 1));
    assert!(!fixture.check(&[charge(&rule, 1)]).0);
    fixture.clock.advance(LONGEST);
    assert!(fixture.check(&[charge(&rule, 1)]).0);
    assert!(!fixture.check(&[charge(&rule, 1)]).0);
    fixture.store.refund_now(&charge(&rule, 1));
    fixture.cache.forget(&charge(&rule, 1));
    assert!(fixture.check(&[charge(&rule, 1)]).0);
}

#[test]
fn a_refund_forgets_no_denial_of_another_key() {
    let mut fixture = DenyCacheFixture::new();
    let rule = rule(AlgorithmKind::FixedWindow, "1/hour");
    let other = Charge::new(Fingerprint::new(8, 10), Cost::ONE, &rule);
    for _ in 0..5 {
        let _ = fixture.check(&[charge(&rule, 1)]);
        fixture.cache.forget(&other);
    }
    assert_eq!(fixture.asked, 2);
    fixture.cache.forget_all();
    let _ = fixture.check(&[charge(&rule, 1)]);
    assert_eq!(fixture.asked, 3);
}

#[test]
fn a_denial_from_before_a_refund_is_not_believed_after_it() {
    let (fixture, rule) = (DenyCacheFixture::new(), rule(AlgorithmKind::FixedWindow, "1/hour"));
    let charges = [charge(&rule, 1)];
    let mut verdicts = Verdicts::new();
    assert!(fixture.store.settle_now(&charges, &mut Verdicts::new()));
    // The refund happens while the denial is in flight.
    let asked = fixture.cache.moment(&charges);
    assert!(!fixture.store.settle_now(&charges, &mut verdicts));
    fixture.store.refund_now(&charges[0]);
    fixture.cache.forget(&charges[0]);
    fixture.cache.remember(&charges, &verdicts, asked);
    assert_eq!(fixture.cache.recall(&charges, fixture.cache.moment(&charges)), None);
}

#[test]
fn a_denial_that_crosses_an_admission_is_not_repeated() {
    for kind in AlgorithmKind::ALL {
        let (mut fixture, rule) = (DenyCacheFixture::new(), rule(*kind, "10/minute"));
        let (dear, cheap) = ([charge(&rule, 8)], [charge(&rule, 1)]);
        assert!(fixture.check(&[charge(&rule, 5)]).0);
        fixture.clock.advance(Span::from_millis(1));
        let (mut denied, mut admitted) = (Verdicts::new(), Verdicts::new());
        let asked = fixture.cache.moment(&dear);
        assert!(!fixture.store.settle_now(&dear, &mut denied));
        // Others take units while the denial is in flight.
        for _ in 0..4 {
            admitted.clear();
            assert!(fixture.store.settle_now(&cheap, &mut admitted));
        }
        fixture.clock.advance(Span::from_millis(1));
        fixture.cache.record_admitted(&cheap, &admitted, fixture.clock.now());
        fixture.cache.remember(&dear, &denied, asked);
        let (passes, told) = fixture.check(&dear);
        assert!(!passes);
        fixture.clock.advance(wait(&told).unwrap());
        assert!(fixture.check(&dear).0, "{kind} after {:?}", wait(&told));
        // Admissions of other keys do not matter.
        assert!(!fixture.check(&dear).0);
        let before = fixture.asked;
        let other = [Charge::new(Fingerprint::new(8, 10), Cost::ONE, &rule)];
        assert!(fixture.check(&other).0 && !fixture.check(&dear).0);
        assert_eq!(fixture.asked, before + 1, "{kind}");
    }
}

#[test]
fn a_dearer_request_is_told_its_own_wait() {
    let mut fixture = DenyCacheFixture::new();
    let bucket = rule(AlgorithmKind::TokenBucket, "10/s burst 10");
    assert!(fixture.check(&[charge(&bucket, 10)]).0);
    assert_eq!(wait(&fixture.check(&[charge(&bucket, 1)]).1), Some(Span::from_millis(100)));
    assert_eq!(wait(&fixture.check(&[charge(&bucket, 5)]).1), Some(Span::from_millis(500)));
    assert_eq!(fixture.asked, 2);
}

#[test]
fn limits_that_count_denials_and_shadows_are_left_out() {
    let mut fixture = DenyCacheFixture::new();
    let quota: Quota = "1/minute".parse().unwrap();
    let Limit::FixedWindow(by) = Limit::new(AlgorithmKind::FixedWindow, &quota).unwrap() else {
        panic!("a fixed window")
    };
    let counting =
        Rule { limit: by.counting_denied().into(), ..rule(AlgorithmKind::FixedWindow, "1/h") };
    let shadow = Rule { enforced: false, ..rule(AlgorithmKind::FixedWindow, "1/h") };
    for rule in [counting, shadow] {
        let before = fixture.asked;
        for _ in 0..5 {
            let _ = fixture.check(&[charge(&rule, 1)]);
        }
        assert_eq!(fixture.asked - before, 5);
    }
}

#[test]
fn a_flood_of_denied_keys_is_bounded() {
    let mut fixture = DenyCacheFixture::new();
    let rule = rule(AlgorithmKind::FixedWindow, "1/hour");
    for n in 0..300_000_u64 {
        let subject = Fingerprint::new(n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let charge = Charge::new(subject, Cost::ONE, &rule);
        let _ = fixture.check(&[charge]);
        let _ = fixture.check(&[charge]);
    }
    let held: usize = fixture.cache.shards.iter().map(|shard| shard.lock().denials.len()).sum();
    assert!(held <= SHARDS * DENIALS_PER_SHARD, "{held}");
}
