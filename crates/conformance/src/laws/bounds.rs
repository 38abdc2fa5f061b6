//! How much passes: never more than the algorithm promises, and never less for requesting less.

use tidegate_core::{Cost, Limit, Span, Timestamp};

use super::CASES;
use crate::Subject;
use crate::trace::{Event, Mix, Play, Trace, for_all, traces};

/// Law 1: in no span, wherever it begins, does more pass than the algorithm's bound.
pub fn admits_no_more_than_the_bound(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::COSTS), |trace| {
        let admitted = admitted(subject, &trace);
        for (first, (start, _)) in admitted.iter().enumerate() {
            let mut total = 0;
            for (end, units) in &admitted[first..] {
                total += u128::from(*units);
                let span = end.since(*start);
                assert!(
                    within_bound(&trace.limit, total, span),
                    "{total} within {span} of {start:?}"
                );
            }
        }
    });
}

fn admitted(subject: &impl Subject, trace: &Trace) -> Vec<(Timestamp, u64)> {
    let mut play = Play::new(subject, trace.limit, trace.start);
    let mut admitted = Vec::new();
    for event in &trace.events {
        let allowed = play.play(*event).is_some_and(|verdict| verdict.allowed);
        if let (true, Event::Check(cost)) = (allowed, event) {
            admitted.push((play.now(), cost.get()));
        }
    }
    admitted
}

/// The bounds in the table of docs/algorithms.md, without division. The window algorithms promise nothing about
/// spans beyond a window.
fn within_bound(limit: &Limit, total: u128, span: Span) -> bool {
    let bound = limit.bound();
    let window = u128::from(limit.quota().window().as_micros());
    let d = u128::from(span.as_micros());
    let most = u128::from(bound.at_once) * window + u128::from(bound.per_window) * d;
    // Explanations say it in whole units.
    let is_in_a_window = span < limit.quota().window();
    let most_units = u128::from(limit.most_in_a_window());
    (bound.longest.is_some_and(|longest| span > longest) || total * window <= most)
        && (!is_in_a_window || total <= most_units)
}

/// Law 6: without one admitted request, all other admitted ones are still admitted, provided that the
/// denied ones are left out.
///
/// Not in the presence of the denied ones: at 1/minute, with requests at 0, 50 and 60 seconds, the
/// second is denied. Without the first it is admitted, and then the third is not.
pub fn removing_a_request_never_denies_another(subject: &impl Subject) {
    for_all(subject.share_of(CASES), (traces(Mix::UNITS), 0..60_usize), |(trace, gone)| {
        let admitted = admitted(subject, &trace);
        let mut fewer = Play::new(subject, trace.limit, trace.start);
        for (number, (at, _)) in admitted.iter().enumerate().filter(|(number, _)| *number != gone) {
            fewer.set_now(*at);
            assert!(fewer.check(1).allowed, "request {number} without {gone}");
        }
    });
}

/// Law 9: a refund never exceeds the full quota, and nothing that fitted before is denied after it.
pub fn a_refund_never_hurts(subject: &impl Subject) {
    for_all(subject.share_of(CASES), (traces(Mix::STEADY), 0..20_u64), |(trace, amount)| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        play.play_all(&trace.events);
        let before = play.peek();
        play.refund(Cost::new(amount).unwrap().get());
        let after = play.peek();
        assert!(after.remaining <= after.limit);
        assert!(after.remaining >= before.remaining);
        assert!(after.reset_after <= before.reset_after);
        assert!(play.check(before.remaining).allowed);
    });
}
