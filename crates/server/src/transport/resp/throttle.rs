//! `CL.THROTTLE key max_burst count period [quantity]`, compatible with redis-cell.

use tidegate::algorithm::{Algorithm, TokenBucket};
use tidegate::{
    AdHocLimit, Charge, Cost, Decision, MAX_COUNT, Plan, Quota, RequestCharges, Span, Verdict,
};

use super::reply::{RespReplies, whole};
use super::request::{bounded, number};

/// A limit that the command itself describes, for one key.
#[derive(Debug)]
pub(super) struct RespThrottle {
    ad_hoc: AdHocLimit,
    cost: Cost,
    /// The capacity of the bucket.
    limit: u64,
}

/// Reads the command. The counter belongs to the key and the period: with another burst or count the used
/// tokens stay used, and another period starts with a full bucket.
pub(super) fn read(words: &[&[u8]], plan: &Plan) -> Result<RespThrottle, String> {
    let [_, key, max_burst, count, period, quantity @ ..] = words else {
        return Err("five or six words were expected".to_owned());
    };
    bounded("key", key)?;
    let limit = number("max_burst", max_burst, 0, MAX_COUNT - 1)? + 1;
    let count = number("count", count, 1, MAX_COUNT)?;
    let period = number("period", period, 1, MAX_PERIOD)?;
    let quantity = match quantity {
        [quantity, ..] => number("quantity", quantity, 0, MAX_COUNT)?,
        [] => 1,
    };
    let bucket = Quota::new(count, Span::from_secs(period))
        .and_then(|quota| quota.with_burst(limit))
        .and_then(|quota| TokenBucket::from_quota(&quota));
    let bucket = bucket.map_err(|error| error.to_string())?;
    let cost = Cost::new(quantity).map_err(|error| error.to_string())?;
    Ok(RespThrottle { ad_hoc: plan.ad_hoc("cl.throttle", bucket.into(), *key), cost, limit })
}

impl RespThrottle {
    /// The charges of this key.
    pub(super) fn request_charges(&self) -> RequestCharges<'_> {
        self.ad_hoc.request_charges(self.cost)
    }

    /// The charge of another key for the same limit.
    #[inline]
    pub(super) fn charge(&self, key: &[u8], plan: &Plan) -> Charge<'_> {
        self.ad_hoc.charge_of(key, self.cost, plan)
    }

    /// Writes whether the request is limited, the limit, what remains, when to retry (-1 for never, or if
    /// there is no need to), and when the bucket is full again. Times are in seconds, rounded up.
    pub(super) fn answer(&self, decision: &Decision, replies: &mut RespReplies) {
        let (allowed, retry) = (decision.is_allowed(), decision.retry_span());
        match decision.verdicts() {
            // The command has only one limit, and it is enforced.
            [verdict, ..] => {
                answer_verdict(&Verdict { allowed, retry_after: retry, ..*verdict }, replies);
            }
            // Neither the store nor the fallback has a verdict.
            [] => {
                let remaining = if allowed { self.limit } else { 0 };
                let reset_after = retry.unwrap_or_default();
                let (limit, retry_after) = (self.limit, retry);
                answer_verdict(
                    &Verdict { allowed, limit, remaining, retry_after, reset_after },
                    replies,
                );
            }
        }
    }
}

/// Writes the reply for the limit's verdict.
#[inline]
pub(super) fn answer_verdict(verdict: &Verdict, replies: &mut RespReplies) {
    replies.list(5);
    replies.integers([
        i64::from(!verdict.allowed),
        whole(verdict.limit),
        whole(verdict.remaining),
        verdict.retry_after.map_or(-1, |wait| whole(wait.as_secs_ceil())),
        whole(verdict.reset_after.as_secs_ceil()),
    ]);
}

/// The longest window of any limit, in seconds.
const MAX_PERIOD: u64 = Quota::MAX_WINDOW.as_micros() / 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config::PolicySource;

    fn refusal(command: &str) -> String {
        let source =
            PolicySource::new("test", "policies: [{ name: a, key: [], limits: [1/s] }]").unwrap();
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        read(&words, &Plan::compile(&source).unwrap()).err().unwrap_or_default()
    }

    #[test]
    fn what_makes_no_limit_is_refused_by_name_and_value() {
        for (command, part) in [
            ("CL.THROTTLE k x 1 1", r#"max_burst is "x": expected a whole number from 0"#),
            ("CL.THROTTLE k -1 1 1", r#"max_burst is "-1""#),
            ("CL.THROTTLE k 1 0 1", r#"count is "0": expected a whole number from 1"#),
            ("CL.THROTTLE k 1 1 0", r#"period is "0": expected a whole number from 1 to 34560000"#),
            ("CL.THROTTLE k 1 1 99999999999", r#"period is "99999999999""#),
            ("CL.THROTTLE k 1 1 1 -5", r#"quantity is "-5": expected a whole number from 0"#),
            ("CL.THROTTLE k 1000000 1 86400", "takes too long to refill"),
        ] {
            let refusal = refusal(command);
            assert!(refusal.contains(part), "{command}: {refusal}");
        }
        let long = format!("CL.THROTTLE {} 1 1 1", "k".repeat(5_000));
        assert!(refusal(&long).contains("key has 5000 bytes: expected at most 4096"));
        assert_eq!(refusal("CL.THROTTLE k 0 1 1"), "");
    }
}
