//! Whether Redis is too far for the policies' deadlines.

use tidegate::{Plan, Span};

/// What is said about how far the store is: once, and again only after it was nearer meanwhile.
#[derive(Debug, Default)]
pub(super) struct RoundTripWarning {
    is_far: bool,
    /// How often in a row it looked otherwise.
    otherwise: u32,
}

impl RoundTripWarning {
    /// Takes a look; returns what is to be said, if anything is. `tightest` is the policy with the
    /// shortest deadline.
    pub(super) fn observe(
        &mut self,
        tightest: Option<(&str, Span)>,
        round_trip: Option<Span>,
    ) -> Option<String> {
        let ((policy, deadline), round_trip) = tightest.zip(round_trip)?;
        let looks_far = round_trip.as_micros() > deadline.as_micros() / 2;
        self.otherwise = if looks_far == self.is_far { 0 } else { self.otherwise + 1 };
        if self.otherwise < STEADY {
            return None;
        }
        (self.is_far, self.otherwise) = (looks_far, 0);
        looks_far.then(|| too_far_message(policy, deadline, round_trip))
    }
}

/// The policy that waits for the store for the shortest time.
pub(super) fn shortest_deadline(plan: &Plan) -> Option<(&str, Span)> {
    let policies = plan.policies().iter();
    policies.map(|policy| (policy.name(), policy.store_deadline())).min_by_key(|(_, span)| *span)
}

fn too_far_message(policy: &str, deadline: Span, round_trip: Span) -> String {
    // Three round trips: one for the answer, and the rest for what comes between.
    let enough = Span::from_millis((3 * round_trip.as_micros()).div_ceil(1_000));
    let tenths = round_trip.as_micros().div_ceil(100);
    format!(
        "the store usually takes {}.{}ms to answer, and policy {policy:?} waits for {deadline}: what \
         comes later is decided without it; set store_deadline to {enough} or more (under defaults, \
         for all policies), or bring the store nearer",
        tenths / 10,
        tenths % 10
    )
}

/// Looks in a row after which it is not by chance.
const STEADY: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn look_often(distance: &mut RoundTripWarning, micros: u64) -> Vec<String> {
        let tightest = Some(("api", Span::from_millis(10)));
        let looks =
            (0..3 * STEADY).map(|_| distance.observe(tightest, Some(Span::from_micros(micros))));
        looks.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    #[test]
    fn it_is_said_once_with_the_number_to_set_and_again_after_it_was_better() {
        let mut distance = RoundTripWarning::default();
        assert!(look_often(&mut distance, 300).is_empty());
        for _ in 0..2 {
            let said = look_often(&mut distance, 6_120);
            assert_eq!(said.len(), 1);
            assert!(said[0].contains("6.2ms") && said[0].contains("waits for 10ms"), "{}", said[0]);
            assert!(said[0].contains("store_deadline to 19ms or more"), "{}", said[0]);
            assert!(look_often(&mut distance, 7_000).is_empty());
            assert!(look_often(&mut distance, 4_000).is_empty());
        }
    }

    #[test]
    fn what_is_so_now_and_then_is_not_said() {
        let (mut distance, tightest) =
            (RoundTripWarning::default(), Some(("api", Span::from_millis(10))));
        for n in 0..100 {
            let round_trip = Span::from_millis(if n % STEADY == 0 { 1 } else { 8 });
            assert_eq!(distance.observe(tightest, Some(round_trip)), None);
        }
        assert_eq!(distance.observe(tightest, None), None);
        assert_eq!(distance.observe(None, Some(Span::from_millis(8))), None);
    }
}
