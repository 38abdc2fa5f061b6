//! What must hold for every decision. Each law takes a store and panics if the store breaks it.

mod agreement;
mod bounds;
mod concurrency;
mod exactness;
mod sharing;
mod time;

pub use agreement::{
    a_shadow_says_what_enforcing_would, agrees_with_the_model,
    agrees_with_the_model_when_limits_change, agrees_with_the_model_when_the_clock_goes_back,
    counters_are_apart, crowds_agree_with_the_model, large_counts_agree_with_the_model,
    many_keys_agree_with_the_model, several_limits_agree_with_the_model,
    staggered_windows_keep_the_law,
};
pub use bounds::{
    a_refund_never_hurts, admits_no_more_than_the_bound, removing_a_request_never_denies_another,
};
pub use concurrency::concurrent_callers_get_exactly_the_limit;
pub use exactness::{a_denial_or_a_peek_changes_nothing, remaining_is_exact, retry_after_is_exact};
pub use sharing::{
    a_denial_changes_nothing_for_any_limit_of_its_counter, every_limit_of_a_counter_tells_exactly,
    limits_that_share_a_counter_agree_with_the_model, tiers_admit_no_more_than_the_largest,
};
pub use time::{
    a_clock_that_goes_back_adds_nothing_and_denies_nobody_for_long,
    a_clock_that_trembles_changes_nothing, every_key_expires, what_is_forgotten_is_fresh,
};

/// How many random cases each law is tried on.
const CASES: u32 = 2_000;
