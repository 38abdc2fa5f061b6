//! A property of what reads Redis's replies. The target in `fuzz/` searches for inputs that break it, and an
//! ordinary test holds it to the corpus.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a property panics")]

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};

use crate::batch::{Ask, Batch, Crowd, Item};
use crate::parcel::Parcel;
use crate::url::Target;
use crate::{board, link, plain};

/// Whatever is replied to a call, every request in it gets an answer: as many verdicts as it has charges, or
/// an error. The bytes are also taken for a board, and for an address of a server.
pub fn replies(bytes: &[u8]) {
    board::fuzz(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<Target>();
    }
    let Some(reply) = link::fuzz::reply(bytes) else { return };
    for asks in calls() {
        let expected: Vec<usize> = asks.iter().map(verdicts).collect();
        let answers = parcel(asks).answers(&reply);
        assert_eq!(answers.len(), expected.len());
        for (answer, expected) in answers.iter().zip(expected) {
            assert!(answer.as_ref().is_ok_and(|(_, it)| it.len() == expected) || answer.is_err());
        }
    }
    let _ = plain::answer(&Ask::Settle(vec![item(1, 0), item(2, 1), item(3, 3)]), &reply);
}

/// Each kind of limit by itself, as the first of a pipeline, and beside others.
fn calls() -> Vec<Vec<Ask>> {
    let alone = |limit| vec![Ask::Settle(vec![item(limit, limit as usize)])];
    let mut calls: Vec<_> = (0..LIMITS.len() as u64).map(alone).collect();
    calls.push((0..LIMITS.len()).map(|limit| Ask::Settle(vec![item(7, limit)])).collect());
    calls.push(vec![
        Ask::Settle((0..LIMITS.len()).map(|limit| item(limit as u64, limit)).collect()),
        Ask::Look(vec![item(1, 0), item(1, 1)]),
        Ask::Refund(Box::new(item(2, 2))),
        Ask::Reset(Box::new(item(3, 3))),
    ]);
    calls
}

fn verdicts(ask: &Ask) -> usize {
    match ask {
        Ask::Settle(items) | Ask::Look(items) => items.len(),
        Ask::Refund(_) | Ask::Reset(_) => 0,
    }
}

fn parcel(asks: Vec<Ask>) -> Parcel {
    let mut batch = Batch::default();
    asks.into_iter().for_each(|ask| batch.add(Crowd::of_one(ask)));
    batch.seal()
}

fn item(who: u64, limit: usize) -> Item {
    let (algorithm, quota) = LIMITS[limit];
    let kind = algorithm.parse().unwrap();
    let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
    let id = Fingerprint::new(limit_number(algorithm), 1);
    let rule = Rule { id, limit, enforced: true, staggered: false };
    Item::new(b"", &Charge::new(Fingerprint::new(who, who), Cost::ONE, &rule))
}

fn limit_number(algorithm: &str) -> u64 {
    algorithm.len() as u64
}

const LIMITS: [(&str, &str); 5] = [
    ("fixed-window", "5/minute"),
    ("sliding-window", "5/day"),
    ("token-bucket", "5/minute burst 7"),
    ("sliding-log", "5/minute"),
    ("fixed-window", "0/minute"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn whatever_is_replied_every_request_gets_an_answer() {
        tidegate_testkit::fuzz("replies", super::replies);
    }
}
