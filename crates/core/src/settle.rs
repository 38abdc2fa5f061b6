//! Settles several limits on one request: all of them pay, or none.

use std::ops::DerefMut;

use crate::{Charge, Cost, Verdict};

/// The states behind a list of charges, at one instant. A store provides them for one settlement,
/// during which nothing else may change them.
///
/// The indices are those of the list of charges. [`settle`] calls `probe` once for each charge, in their
/// order, and then, for each of them, either `commit` or `deny` or nothing. An implementation never decides
/// anything itself: it looks states up and applies the charge's algorithm to them.
pub trait ChargeAccounts {
    /// The verdict on charge `index` if it cost `cost`.
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict;
    /// Takes charge `index`'s own cost, and reports what is left.
    fn commit(&mut self, index: usize) -> Verdict;
    /// Records that charge `index` was denied, or that the whole request was.
    fn deny(&mut self, index: usize);
}

/// Decides a request: whether every enforced charge passes, with each charge's verdict in `out`.
///
/// Either all enforced charges pay or none does. A shadow charge never vetoes. It pays when the request
/// goes ahead and all shadow charges of its policy would have allowed it, so its count is what it would
/// be if the policy were enforced. Two charges to one counter are judged by their sum.
///
/// ```
/// use tidegate_core::{ChargeAccounts, Charge, Cost, Verdict, settle};
/// # use tidegate_core::{Fingerprint, Limit, Rule, Timestamp};
///
/// /// Accounts of new keys.
/// struct Fresh<'a>(&'a [Charge<'a>]);
///
/// impl ChargeAccounts for Fresh<'_> {
///     fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
///         self.0[index].rule().limit.probe_fresh(cost, Timestamp::ZERO)
///     }
///     fn commit(&mut self, index: usize) -> Verdict {
///         self.probe(index, Cost::PEEK)
///     }
///     fn deny(&mut self, _: usize) {}
/// }
///
/// # let limit: Limit = "2/minute".parse()?;
/// # let id = Fingerprint::new(1, 1);
/// # let rule = Rule { id, limit, enforced: true, staggered: false };
/// // Twice the same counter: three units do not fit into two.
/// let charges = [2, 1].map(|cost| Charge::new(id, Cost::new(cost).unwrap(), &rule));
/// let mut verdicts = Vec::new();
/// assert!(!settle(&charges, &mut Fresh(&charges), &mut verdicts));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn settle<V>(charges: &[Charge<'_>], accounts: &mut impl ChargeAccounts, out: &mut V) -> bool
where
    V: Extend<Verdict> + DerefMut<Target = [Verdict]>,
{
    let first = out.len();
    let mut passes = true;
    for (index, charge) in charges.iter().enumerate() {
        let paying = out.get(first..).unwrap_or_default();
        let verdict = accounts.probe(index, cumulated_cost(charges, index, paying));
        passes &= verdict.allowed || !charge.rule().enforced;
        out.extend([verdict]);
    }
    let verdicts = out.get_mut(first..).unwrap_or_default();
    for (index, charge) in charges.iter().enumerate() {
        if charge.cost().is_peek() {
            continue;
        }
        if passes && pays(charges, verdicts, index) {
            verdicts[index] = accounts.commit(index);
        } else {
            accounts.deny(index);
            if charge.rule().limit.counts_denied() {
                // The denial was counted, so less remains than the probe reported.
                verdicts[index].remaining = accounts.probe(index, Cost::PEEK).remaining;
            }
        }
    }
    passes
}

/// Whether the charge at `index` pays for a request that passes: its limit has room and, if it is a
/// shadow, so have all shadow limits of the same policy and caller. Otherwise the policy would have
/// denied the request, and none of its limits would have paid.
pub fn pays(charges: &[Charge<'_>], verdicts: &[Verdict], index: usize) -> bool {
    let (Some(charge), Some(verdict)) = (charges.get(index), verdicts.get(index)) else {
        return false;
    };
    let denies =
        |(other, verdict): (&Charge<'_>, &Verdict)| !verdict.allowed && charge.watches_with(other);
    verdict.allowed && (charge.rule().enforced || !charges.iter().zip(verdicts).any(denies))
}

/// The cost of a charge plus that of earlier charges on the same counter that will pay.
fn cumulated_cost(charges: &[Charge<'_>], index: usize, earlier: &[Verdict]) -> Cost {
    let Some(charge) = charges.get(index) else { return Cost::PEEK };
    let paying = charges.iter().zip(earlier).filter(|(_, verdict)| verdict.allowed);
    let same = paying.filter(|(other, _)| other.counter() == charge.counter());
    same.fold(charge.cost(), |sum, (other, _)| sum.plus(other.cost()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fingerprint, Limit, Rule, Span};

    /// One counter without a time limit for each distinct charge.
    struct Book<'a> {
        charges: &'a [Charge<'a>],
        used: Vec<(Fingerprint, u64)>,
        denied: Vec<usize>,
    }

    impl<'a> Book<'a> {
        fn new(charges: &'a [Charge<'a>]) -> Self {
            Self { charges, used: Vec::new(), denied: Vec::new() }
        }

        fn used(&self, index: usize) -> u64 {
            let counter = self.charges[index].counter();
            self.used.iter().filter(|(id, _)| *id == counter).map(|(_, units)| units).sum()
        }
    }

    impl ChargeAccounts for Book<'_> {
        fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
            let limit = self.charges[index].rule().limit.capacity();
            let remaining = limit.saturating_sub(self.used(index));
            let allowed = cost.get() <= remaining;
            let retry_after = (!allowed).then_some(Span::from_secs(1));
            Verdict { allowed, limit, remaining, retry_after, reset_after: Span::ZERO }
        }

        fn commit(&mut self, index: usize) -> Verdict {
            let charge = self.charges[index];
            self.used.push((charge.counter(), charge.cost().get()));
            self.probe(index, Cost::PEEK)
        }

        fn deny(&mut self, index: usize) {
            self.denied.push(index);
        }
    }

    fn rule(id: u64, quota: &str, enforced: bool) -> Rule {
        let limit: Limit = quota.parse().unwrap();
        Rule { id: Fingerprint::new(id, id), limit, enforced, staggered: false }
    }

    fn charge(rule: &Rule, cost: u64) -> Charge<'_> {
        Charge::new(Fingerprint::new(0, 0), Cost::new(cost).unwrap(), rule)
    }

    #[test]
    fn one_denial_charges_no_counter() {
        let (wide, narrow) = (rule(1, "10/minute", true), rule(2, "1/minute", true));
        let charges = [charge(&wide, 2), charge(&narrow, 2)];
        let (mut book, mut out) = (Book::new(&charges), Vec::new());
        assert!(!settle(&charges, &mut book, &mut out));
        assert!(book.used.is_empty());
        assert_eq!(book.denied, [0, 1]);
        assert_eq!((out[0].allowed, out[0].remaining, out[1].allowed), (true, 10, false));
    }

    #[test]
    fn a_shadow_never_vetoes_and_pays_only_when_it_would_have_allowed() {
        let (real, shadow) = (rule(1, "10/minute", true), rule(2, "1/minute", false));
        for (cost, shadow_pays) in [(1, true), (2, false)] {
            let charges = [charge(&real, cost), charge(&shadow, cost)];
            let (mut book, mut out) = (Book::new(&charges), Vec::new());
            assert!(settle(&charges, &mut book, &mut out));
            assert_eq!(book.used(0), cost);
            assert_eq!(book.used(1) == cost, shadow_pays);
            assert_eq!(out[1].allowed, shadow_pays);
        }
    }

    #[test]
    fn the_shadow_limits_of_one_policy_all_pay_or_none_does() {
        let (strict, loose) = (rule(1, "1/minute", false), rule(2, "10/minute", false));
        for (policy, loose_pays) in [(7, false), (8, true)] {
            let charges = [charge(&strict, 2).of_policy(7), charge(&loose, 2).of_policy(policy)];
            let (mut book, mut out) = (Book::new(&charges), Vec::new());
            assert!(settle(&charges, &mut book, &mut out));
            assert_eq!((out[0].allowed, out[1].allowed), (false, true));
            assert_eq!((book.used(0), book.used(1) == 2), (0, loose_pays));
        }
    }

    #[test]
    fn a_shadow_does_not_pay_for_a_request_that_was_denied() {
        let (real, shadow) = (rule(1, "1/minute", true), rule(2, "10/minute", false));
        let charges = [charge(&shadow, 2), charge(&real, 2)];
        let mut book = Book::new(&charges);
        assert!(!settle(&charges, &mut book, &mut Vec::new()));
        assert!(book.used.is_empty());
    }

    #[test]
    fn the_same_counter_twice_is_charged_for_the_sum() {
        let rule = rule(1, "3/minute", true);
        for (second, passes) in [(1, true), (2, false)] {
            let charges = [charge(&rule, 2), charge(&rule, second)];
            let mut book = Book::new(&charges);
            assert_eq!(settle(&charges, &mut book, &mut Vec::new()), passes);
            assert_eq!(book.used(0), if passes { 3 } else { 0 });
        }
    }

    #[test]
    fn a_shadow_that_does_not_pay_is_no_burden_on_its_counter() {
        let real = rule(1, "3/minute", true);
        let shadow = Rule { enforced: false, ..real };
        let charges = [charge(&shadow, 4), charge(&real, 3)];
        let mut book = Book::new(&charges);
        assert!(settle(&charges, &mut book, &mut Vec::new()));
        assert_eq!(book.used(1), 3);
    }

    #[test]
    fn a_peek_touches_nothing_and_earlier_verdicts_are_left_alone() {
        let rule = rule(1, "3/minute", true);
        let charges = [charge(&rule, 0)];
        let (mut book, mut out) = (Book::new(&charges), Vec::new());
        assert!(settle(&charges, &mut book, &mut out));
        assert!(settle(&charges, &mut book, &mut out));
        assert!(book.used.is_empty() && book.denied.is_empty());
        assert_eq!(out.len(), 2);
    }
}
