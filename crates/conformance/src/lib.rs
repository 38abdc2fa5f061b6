//! The laws of rate limiting, as tests that any store can run.
//!
//! - [`model`]: each algorithm once more, naively: lists of requests and exact arithmetic. Slow,
//!   and easy to trust.
//! - [`laws`]: properties that must hold for every decision, checked over random traces.
//! - [`cases`]: named examples: the boundary burst, and the bugs of other limiters.
//! - [`vectors`]: fixed traces with their answers, in `vectors/`, for other languages.
//!
//! A store joins with one line, [`suite!`], and a [`Subject`]: the store together with control over
//! its clock. A law that fails panics with the shortest trace that breaks it.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "tests panic")]

pub mod cases;
mod forwarding;
pub mod laws;
pub mod model;
mod subject;
pub mod trace;
pub mod vectors;

pub use forwarding::{ForwardingProbe, check_forwarding};
pub use subject::{LocalSubject, Subject};

/// Runs everything on a store: `suite!(make)`, where `make()` returns a [`Subject`].
///
/// ```
/// # use tidegate_conformance::{LocalSubject, Subject};
/// # use tidegate_store::{ManualClock, MemoryStore};
/// fn memory() -> impl Subject {
///     let clock = ManualClock::default();
///     LocalSubject::new(MemoryStore::builder().clock(clock.clone()).build(), clock)
/// }
///
/// mod memory_store {
///     tidegate_conformance::suite!(super::memory);
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite! {
            $make;
            laws {
                agrees_with_the_model, agrees_with_the_model_when_the_clock_goes_back,
                agrees_with_the_model_when_limits_change, many_keys_agree_with_the_model,
                large_counts_agree_with_the_model, crowds_agree_with_the_model,
                several_limits_agree_with_the_model, a_shadow_says_what_enforcing_would,
                admits_no_more_than_the_bound,
                a_denial_or_a_peek_changes_nothing, remaining_is_exact, retry_after_is_exact,
                what_is_forgotten_is_fresh, removing_a_request_never_denies_another,
                concurrent_callers_get_exactly_the_limit, every_key_expires,
                a_refund_never_hurts, counters_are_apart,
                a_clock_that_goes_back_adds_nothing_and_denies_nobody_for_long, a_clock_that_trembles_changes_nothing,
                staggered_windows_keep_the_law,
                limits_that_share_a_counter_agree_with_the_model,
                a_denial_changes_nothing_for_any_limit_of_its_counter,
                every_limit_of_a_counter_tells_exactly, tiers_admit_no_more_than_the_largest,
            }
            cases {
                five_at_59_and_five_at_61, a_forgotten_bucket_is_no_fuller_than_an_idle_one,
                a_cost_above_the_remaining_is_denied_and_not_charged,
                a_cost_above_the_limit_can_never_pass, a_fast_rate_with_a_large_burst_limits,
                a_limit_of_one_allows_one, a_limit_of_zero_denies_without_a_trace,
                the_same_counter_twice_pays_for_both, denied_requests_count_only_when_asked_to,
                a_changed_limit_keeps_the_count, a_trembling_clock_resets_nothing, extreme_numbers_do_not_overflow,
                rates_do_not_drift,
            }
            vectors { match_the_store }
        }
    };
    ($make:expr; $($module:ident { $($name:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $name() {
                $crate::$module::$name(&$make());
            }
        )*)*
    };
}
