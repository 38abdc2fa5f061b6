//! Both sides at once, on one key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::other_limiters::{Kind, Neighbour};
use crate::our_store::Ours;
use crate::{REDIS, user};

/// The hybrid reads and then writes, so even alone it admits too many; it is left out.
#[test]
fn both_limiters_together_admit_the_limit() {
    // Together they request more than the limit, and neither side requests all of it.
    const LIMIT: u64 = 300;
    const TRIES: u64 = 100;
    for kind in [Kind::RlaasWindow, Kind::RlaasLog, Kind::Gateway, Kind::Java] {
        let user = user();
        let (by_us, by_them) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                // Each with its own connections, like another process.
                let ours = Ours::like(kind, &user, &format!("{LIMIT}/hour"));
                for _ in 0..2 {
                    let (ours, by_us) = (ours.clone(), &by_us);
                    scope.spawn(move || {
                        for _ in 0..TRIES / 2 {
                            by_us.fetch_add(u64::from(ours.take(1).allowed), Ordering::Relaxed);
                        }
                    });
                }
                let mut theirs = Neighbour::new(kind, &REDIS, &user, LIMIT, 3600);
                let by_them = &by_them;
                scope.spawn(move || {
                    for _ in 0..TRIES {
                        by_them.fetch_add(u64::from(theirs.take()), Ordering::Relaxed);
                    }
                });
            }
        });
        let (by_us, by_them) = (by_us.into_inner(), by_them.into_inner());
        assert_eq!(by_us + by_them, LIMIT, "{kind:?}: {by_us} and {by_them}");
    }
}

#[test]
fn our_store_alone_admits_the_limit_in_two_windows() {
    let ours = Ours::like(Kind::Hybrid, &user(), "100/hour");
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (ours, admitted) = (ours.clone(), &admitted);
            scope.spawn(move || {
                for _ in 0..50 {
                    admitted.fetch_add(u64::from(ours.take(1).allowed), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 100);
}
