//! The contestants of the benchmarks within one process: our algorithms, other limiter libraries,
//! and the floor. Benchmarks of servers have contestants of their own.

mod bare;
mod governor;
mod throttlecrab;
mod tidegate;

use ::tidegate::AlgorithmKind;

/// One limiter under test.
pub(crate) trait Contestant: Send + Sync {
    /// Decides for a key. A `String`, because governor requires the type that it stores.
    #[allow(clippy::ptr_arg, reason = "see above")]
    fn check(&self, key: &String) -> bool;
}

/// The limit that all contestants are set to, except the floor: it has no limit and denies nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A thousand a day and a burst of 800,000: nothing is denied, and no key expires while it is
    /// measured.
    Generous,
    /// One a day: after the first request of a key, everything is denied.
    Strict,
}

/// The other library that all contestants are compared with.
pub(crate) const PEER: &str = "governor";
/// The least work that a limiter has to do, and no decision: a table of fingerprints, a clock and a
/// counter. All contestants are compared with this too.
pub(crate) const FLOOR: &str = "bare table + clock";

/// The names of all contestants. Ours are the names of our algorithms.
pub(crate) fn names() -> Vec<&'static str> {
    let peers = [PEER, "throttlecrab + mutex", FLOOR];
    AlgorithmKind::ALL.iter().map(|kind| kind.name()).chain(peers).collect()
}

/// Whether a contestant is one of our algorithms.
pub(crate) fn is_ours(name: &str) -> bool {
    name.parse::<AlgorithmKind>().is_ok()
}

/// Creates the contestant with one of [`names`].
pub(crate) fn make(name: &str, setting: Setting) -> Box<dyn Contestant> {
    match name {
        PEER => Box::new(governor::Governor::new(setting)),
        FLOOR => Box::new(bare::BareTable::new()),
        _ => match name.parse() {
            Ok(kind) => Box::new(tidegate::Tidegate::new(kind, setting)),
            // The one that remains.
            Err(_) => Box::new(throttlecrab::Throttlecrab::new(setting)),
        },
    }
}
