//! Warns when the round trip to Redis is too long for the policies' deadlines.

use tidegate::{Plan, Span};

/// Decides when to warn about a long round trip: once, and again only after it was short meanwhile.
#[derive(Debug, Default)]
pub(super) struct RoundTripWarning {
    is_far: bool,
    /// How many observations in a row contradict `is_far`.
    contradictions: u32,
}

impl RoundTripWarning {
    /// Takes one observation and returns the warning, if one is due. `tightest` is the policy with the
    /// shortest deadline.
    pub(super) fn observe(
        &mut self,
        tightest: Option<(&str, Span)>,
        round_trip: Option<Span>,
    ) -> Option<String> {
        let ((policy, deadline), round_trip) = tightest.zip(round_trip)?;
        let looks_far = round_trip.as_micros() > deadline.as_micros() / 2;
        self.contradictions = if looks_far == self.is_far { 0 } else { self.contradictions + 1 };
        if self.contradictions < STEADY {
            return None;
        }
        (self.is_far, self.contradictions) = (looks_far, 0);
        looks_far.then(|| too_far_message(policy, deadline, round_trip))
    }
}

/// The policy that waits for the store for the shortest time.
pub(super) fn shortest_deadline(plan: &Plan) -> Option<(&str, Span)> {
    let policies = plan.policies().iter();
    policies.map(|policy| (policy.name(), policy.store_deadline())).min_by_key(|(_, span)| *span)
}

fn too_far_message(policy: &str, deadline: Span, round_trip: Span) -> String {
    // Three round trips: one for the answer, and two as a margin.
    let enough = Span::from_millis((3 * round_trip.as_micros()).div_ceil(1_000));
    let tenths = round_trip.as_micros().div_ceil(100);
    format!(
        "the store usually takes {}.{}ms to answer, and policy {policy:?} waits for {deadline}: after \
         that, requests are decided without the store; set store_deadline to {enough} or more (under \
         defaults, for all policies), or bring the store nearer",
        tenths / 10,
        tenths % 10
    )
}

/// Observations in a row after which a change is not by chance.
const STEADY: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn observe_often(warning: &mut RoundTripWarning, micros: u64) -> Vec<String> {
        let tightest = Some(("api", Span::from_millis(10)));
        let observations =
            (0..3 * STEADY).map(|_| warning.observe(tightest, Some(Span::from_micros(micros))));
        observations.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    #[test]
    fn a_long_round_trip_is_reported_once_per_episode_with_the_deadline_to_set() {
        let mut warning = RoundTripWarning::default();
        assert!(observe_often(&mut warning, 300).is_empty());
        for _ in 0..2 {
            let warnings = observe_often(&mut warning, 6_120);
            assert_eq!(warnings.len(), 1);
            assert!(
                warnings[0].contains("6.2ms") && warnings[0].contains("waits for 10ms"),
                "{}",
                warnings[0]
            );
            assert!(warnings[0].contains("store_deadline to 19ms or more"), "{}", warnings[0]);
            assert!(observe_often(&mut warning, 7_000).is_empty());
            assert!(observe_often(&mut warning, 4_000).is_empty());
        }
    }

    #[test]
    fn an_occasional_slow_round_trip_is_not_reported() {
        let (mut warning, tightest) =
            (RoundTripWarning::default(), Some(("api", Span::from_millis(10))));
        for n in 0..100 {
            let round_trip = Span::from_millis(if n % STEADY == 0 { 1 } else { 8 });
            assert_eq!(warning.observe(tightest, Some(round_trip)), None);
        }
        assert_eq!(warning.observe(tightest, None), None);
        assert_eq!(warning.observe(None, Some(Span::from_millis(8))), None);
    }
}
