//! Taken by one side, seen by the other.

use crate::other_limiters::{Kind, Neighbour};
use crate::our_store::Ours;
use crate::{REDIS, user};

const HOUR: u64 = 3600;

fn both(kind: Kind, user: &str) -> (Ours, Neighbour) {
    (Ours::like(kind, user, "5/hour"), Neighbour::new(kind, &REDIS, user, 5, HOUR))
}

#[test]
fn units_taken_by_the_other_limiter_count_here() {
    for kind in Kind::ALL {
        let (ours, mut theirs) = both(kind, &user());
        assert!(theirs.take() && theirs.take(), "{kind:?}");
        assert_eq!(ours.remaining(), 3, "{kind:?}");
        assert!(!ours.take(4).allowed, "{kind:?}");
        assert!((0..3).all(|_| theirs.take()), "{kind:?}");
        let verdict = ours.take(1);
        assert!(!verdict.allowed && verdict.remaining == 0, "{kind:?}: {verdict:?}");
        assert!(verdict.retry_after.is_some(), "{kind:?}");
        // Some of them count what they deny. That is more than the limit, and does no harm.
        assert!(!theirs.take(), "{kind:?}");
        assert_eq!(ours.remaining(), 0, "{kind:?}");
    }
}

#[test]
fn units_taken_here_count_for_the_other_limiter() {
    for kind in Kind::ALL {
        let (ours, mut theirs) = both(kind, &user());
        assert_eq!(ours.take(3).remaining, 2, "{kind:?}");
        assert!(theirs.take() && theirs.take(), "{kind:?}");
        assert!(!theirs.take(), "{kind:?}");
        assert!(!ours.take(1).allowed, "{kind:?}");
    }
}

#[test]
fn taking_turns_both_limiters_together_get_the_limit() {
    for kind in Kind::ALL {
        let (ours, mut theirs) = both(kind, &user());
        let turns = (0..5).map(|turn| match turn % 2 {
            0 => ours.take(1).allowed,
            _ => theirs.take(),
        });
        assert!(turns.collect::<Vec<_>>().into_iter().all(|passes| passes), "{kind:?}");
        assert!(!ours.take(1).allowed && !theirs.take(), "{kind:?}");
    }
}

#[test]
fn units_refunded_here_can_be_taken_by_the_other_limiter() {
    for kind in Kind::ALL {
        let (ours, mut theirs) = both(kind, &user());
        assert_eq!(ours.take(5).remaining, 0, "{kind:?}");
        ours.refund(2);
        assert_eq!(ours.remaining(), 2, "{kind:?}");
        assert!(theirs.take() && theirs.take() && !theirs.take(), "{kind:?}");
        ours.reset();
        assert_eq!(ours.remaining(), 5, "{kind:?}");
        assert!(theirs.take(), "{kind:?}");
        assert_eq!(ours.remaining(), 4, "{kind:?}");
        // More than was ever taken: all of it is available again, and no more than that.
        ours.refund(100);
        assert_eq!(ours.remaining(), 5, "{kind:?}");
        assert!(theirs.take(), "{kind:?}");
        assert_eq!(ours.remaining(), 4, "{kind:?}");
    }
}
