//! How many files, and therefore connections, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks the system for as many files as connections may need, and returns how many of those it
/// allows. Some are reserved for the store and for ourselves.
pub(super) fn connections(wanted: usize, workers: usize) -> usize {
    let reserved = RESERVED.saturating_add(workers.saturating_mul(RESERVED_FOR_A_WORKER));
    let needed = wanted.saturating_add(reserved) as u64;
    let limit = getrlimit(Resource::Nofile);
    let (Some(current), most) = (limit.current, limit.maximum.unwrap_or(u64::MAX)) else {
        return wanted;
    };
    let raised = current.max(needed.min(most));
    if raised > current {
        // Fewer than wanted is no reason to refuse: connections beyond that wait.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    wanted.min(allowed.saturating_sub(reserved).max(allowed / 2)).max(1)
}

const RESERVED: usize = 32;
/// Listeners, a runtime, connections to the store.
const RESERVED_FOR_A_WORKER: usize = 16;
