//! A property of the code that reads Redis's replies. The target in `fuzz/` searches for inputs that
//! break it, and an ordinary test checks it against the corpus.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a property panics")]

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};

use crate::batch::{IdenticalRequests, RedisBatch, RedisCharge, RedisRequest};
use crate::batch_call::BatchCall;
use crate::computed_call::ComputedCall;
use crate::link::RedisReply;
use crate::script::COMPARE_AND_SET;
use crate::url::RedisUrl;
use crate::{link, shared_keys, shared_settings};

/// Whatever Redis replies to a call, every request in it gets an answer: as many verdicts as it has
/// charges, or an error. The bytes are also read as shared settings and as a URL.
pub fn replies(bytes: &[u8]) {
    shared_settings::fuzz(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<RedisUrl>();
    }
    let Some(reply) = link::fuzz::reply(bytes) else { return };
    for requests in calls() {
        let expected: Vec<usize> = requests.iter().map(verdicts).collect();
        let answers = batch_call(requests).answers(&reply);
        assert_eq!(answers.len(), expected.len());
        for (answer, expected) in answers.iter().zip(expected) {
            assert!(
                answer.as_ref().is_ok_and(|(_, found)| found.len() == expected) || answer.is_err()
            );
        }
    }
    computed_replies(&reply);
    let _ = shared_keys::answer(
        &RedisRequest::Settle(vec![item(1, 0), item(2, 1), item(3, 3)]),
        &reply,
    );
}

/// The same for requests that are decided here, whichever of their replies it is.
fn computed_replies(reply: &RedisReply) {
    let alone = RedisRequest::Settle(vec![item(1, 5)]);
    let mixed = RedisRequest::Settle(vec![item(1, 5), item(2, 3), item(3, 2)]);
    let calls = [vec![alone], vec![mixed, RedisRequest::Reset(Box::new(item(4, 5)))]];
    for requests in calls {
        let (call, size) = (batch_call(requests.clone()), requests.len());
        let mut computed = ComputedCall::new(&call);
        for _ in 0..3 {
            let _ = computed.script_call(&COMPARE_AND_SET);
            let _ = computed.record_reply(reply);
        }
        assert_eq!(computed.into_answers().len(), size);
    }
}

/// Each kind of limit in a call of its own, all in one call, and all in one request beside others.
fn calls() -> Vec<Vec<RedisRequest>> {
    let alone = |limit| vec![RedisRequest::Settle(vec![item(limit, limit as usize)])];
    let mut calls: Vec<_> = (0..LIMITS.len() as u64).map(alone).collect();
    calls.push((0..LIMITS.len()).map(|limit| RedisRequest::Settle(vec![item(7, limit)])).collect());
    calls.push(vec![
        RedisRequest::Settle((0..LIMITS.len()).map(|limit| item(limit as u64, limit)).collect()),
        RedisRequest::Peek(vec![item(1, 0), item(1, 1)]),
        RedisRequest::Refund(Box::new(item(2, 2))),
        RedisRequest::Reset(Box::new(item(3, 3))),
    ]);
    calls
}

fn verdicts(request: &RedisRequest) -> usize {
    match request {
        RedisRequest::Settle(items) | RedisRequest::Peek(items) => items.len(),
        RedisRequest::Refund(_) | RedisRequest::Reset(_) => 0,
    }
}

fn batch_call(requests: Vec<RedisRequest>) -> BatchCall {
    let mut batch = RedisBatch::default();
    requests.into_iter().for_each(|request| batch.add(IdenticalRequests::single(request)));
    batch.seal()
}

fn item(who: u64, limit: usize) -> RedisCharge {
    let (algorithm, quota) = LIMITS[limit];
    let kind = algorithm.parse().unwrap();
    let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
    let id = Fingerprint::new(limit_number(algorithm), 1);
    let rule = Rule { id, limit, enforced: true, staggered: false };
    RedisCharge::new(b"", &Charge::new(Fingerprint::new(who, who), Cost::ONE, &rule))
}

fn limit_number(algorithm: &str) -> u64 {
    algorithm.len() as u64
}

const LIMITS: [(&str, &str); 6] = [
    ("fixed-window", "5/minute"),
    ("sliding-window", "5/day"),
    ("token-bucket", "5/minute burst 7"),
    ("sliding-log", "5/minute"),
    ("fixed-window", "0/minute"),
    ("stepped-window", "5/minute"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn whatever_is_replied_every_request_gets_an_answer() {
        tidegate_testkit::fuzz("replies", super::replies);
    }
}
