//! `RL.CHECK`, `RL.PEEK`, `RL.REFUND` and `RL.RESET`: commands that apply a policy.
//!
//! If a policy's key is one attribute, a single word is that attribute's value, `RL.CHECK demo alice`, and
//! a number after it is the cost. Such a word is never read as a name and a value: otherwise a caller who
//! can choose the name `key=bob` would use up bob's quota. Several words are names and values, for every
//! policy: `RL.CHECK login ip=203.0.113.9 user=alice COST 2`, or with further attributes, for tiers,
//! `RL.CHECK demo key=alice plan=pro`.

use smallvec::{SmallVec, smallvec};
use tidegate::config::PlannedPolicy;
use tidegate::{Cost, Decision, DecisionReason, MAX_COUNT, Plan, RequestCharges, Span, Verdict};
use tidegate_http::RateLimitAnswer;
use tidegate_wire::JsonAttributes;

use super::command_spec::{RespCommandSpec, RespVerb};
use super::reply::{RespProtocol, RespReplies, brief, whole};
use super::request::{bounded, number};

/// The charges of a command in its policy.
pub(super) fn request_charges<'p>(
    spec: &RespCommandSpec,
    words: &[&[u8]],
    plan: &'p Plan,
) -> Result<Box<RequestCharges<'p>>, String> {
    let [_, name, rest @ ..] = words else { return Err("a policy was expected".to_owned()) };
    let name = std::str::from_utf8(name).unwrap_or_default();
    let Some(policy) = plan.policy(name) else { return Err(unknown_policy(words, plan)) };
    let Some(args) = RespPolicyArgs::read(policy, rest, number_name(spec.verb))? else {
        return Err(usage_error(spec, policy));
    };
    let cost = match (spec.verb, args.cost) {
        (RespVerb::Check, cost) => cost.unwrap_or(Cost::ONE),
        (RespVerb::Refund, Some(amount)) => amount,
        (RespVerb::Peek, None) => Cost::PEEK,
        (RespVerb::ResetKey, None) => Cost::ONE,
        _ => return Err(usage_error(spec, policy)),
    };
    let charges = plan.charges_of(name, &args.attributes[..], cost).map(Box::new);
    let charges = charges.ok_or_else(|| unknown_policy(words, plan))?;
    if charges.is_empty() && policy.key().any(|part| !args.has(part)) {
        return Err(usage_error(spec, policy));
    }
    charges.cost_fault().map_or(Ok(()), |fault| Err(fault.to_string()))?;
    Ok(charges)
}

/// The arguments after a policy's name.
#[derive(Default)]
pub(super) struct RespPolicyArgs<'a> {
    pub(super) attributes: SmallVec<[(&'a str, &'a [u8]); 4]>,
    pub(super) cost: Option<Cost>,
}

impl<'a> RespPolicyArgs<'a> {
    /// Reads the arguments; `None` if they do not fit the policy. `number_name` is what a number after the
    /// key means, if there can be one.
    fn read(
        policy: &'a PlannedPolicy,
        words: &[&'a [u8]],
        number_name: Option<&str>,
    ) -> Result<Option<Self>, String> {
        let mut key = policy.key();
        if let (Some(attribute), None, Some((value, number))) =
            (key.next(), key.next(), lone_key(words))
        {
            bounded("key", value)?;
            let attributes = smallvec![(attribute, value)];
            return match (number, number_name) {
                (None, _) => Ok(Some(Self { attributes, cost: None })),
                (Some(number), Some(number_name)) => {
                    Ok(Some(Self { attributes, cost: Some(cost(number_name, number)?) }))
                }
                (Some(_), None) => Ok(None),
            };
        }
        Self::named(words)
    }

    /// Reads names and values, with the cost anywhere among them.
    pub(super) fn named(mut words: &[&'a [u8]]) -> Result<Option<Self>, String> {
        let mut args = Self::default();
        while let [word, rest @ ..] = words {
            words = if word.eq_ignore_ascii_case(COST) {
                let ([number, rest @ ..], None) = (rest, args.cost) else { return Ok(None) };
                args.cost = Some(cost("cost", number)?);
                rest
            } else {
                let Some((name, value)) = attribute(word) else { return Ok(None) };
                args.add(name, value)?;
                rest
            };
        }
        Ok(Some(args))
    }

    /// Adds an attribute. If one occurs twice, it is unclear which value is meant.
    fn add(&mut self, name: &'a str, value: &'a [u8]) -> Result<(), String> {
        bounded(name, value)?;
        if self.has(name) {
            let name = brief(name.as_bytes());
            return Err(format!("attribute {name} occurs twice: expected one value"));
        }
        if self.attributes.len() == JsonAttributes::MAX {
            return Err(format!("too many attributes: expected at most {}", JsonAttributes::MAX));
        }
        self.attributes.push((name, value));
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(other, _)| *other == name)
    }
}

/// A key without a name, whatever it looks like, and the number after it if there is one.
pub(super) fn lone_key<'a, 'w>(words: &'w [&'a [u8]]) -> Option<(&'a [u8], Option<&'w [u8]>)> {
    let is_cost = |word: &[u8]| word.eq_ignore_ascii_case(COST);
    match words {
        [key] => Some((key, None)),
        [key, number] if !number.contains(&b'=') && !is_cost(number) => Some((key, Some(number))),
        [key, word, number] if is_cost(word) => Some((key, Some(number))),
        _ => None,
    }
}

fn attribute(word: &[u8]) -> Option<(&str, &[u8])> {
    let middle = word.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(word.get(..middle)?).ok()?;
    Some((name, word.get(middle + 1..)?))
}

const fn number_name(verb: RespVerb) -> Option<&'static str> {
    match verb {
        RespVerb::Check => Some("cost"),
        RespVerb::Refund => Some("amount"),
        _ => None,
    }
}

fn cost(number_name: &str, word: &[u8]) -> Result<Cost, String> {
    let units = number(number_name, word, 0, MAX_COUNT)?;
    Cost::new(units).map_err(|error| error.to_string())
}

#[cold]
fn unknown_policy(words: &[&[u8]], plan: &Plan) -> String {
    let mut names: Vec<&str> =
        plan.policies().iter().take(MAX_LISTED + 1).map(PlannedPolicy::name).collect();
    if names.len() > MAX_LISTED {
        names.truncate(MAX_LISTED);
        names.push("...");
    }
    let name = brief(words.get(1).copied().unwrap_or_default());
    format!("unknown policy {name}; there are: {}", names.join(", "))
}

/// The error for arguments that do not fit the policy, with the usage for this policy.
#[cold]
fn usage_error(spec: &RespCommandSpec, policy: &PlannedPolicy) -> String {
    let (name, key): (_, Vec<_>) = (policy.name(), policy.key().collect());
    let by = if key.is_empty() { "nothing".to_owned() } else { key.join(" and ") };
    let command = format!("{} {name}", spec.name);
    let mut usage = match (&key[..], spec.verb) {
        ([_], RespVerb::Check) => format!("{command} key [cost], or {command}"),
        ([_], RespVerb::Refund) => format!("{command} key amount, or {command}"),
        ([_], _) => format!("{command} key, or {command}"),
        _ => command,
    };
    key.iter().for_each(|part| usage += &format!(" {part}=..."));
    if key.len() == 1 {
        usage += " name=value ...";
    }
    usage += match spec.verb {
        RespVerb::Check => " [COST n]",
        RespVerb::Refund => " COST n",
        _ => "",
    };
    format!("policy {name:?} tells callers apart by {by}: expected {usage}")
}

/// The reply to a check or peek.
pub(super) struct RespCheckReply {
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after: Option<Span>,
    reset_after: Option<Span>,
    reason: DecisionReason,
}

pub(super) fn answer(charges: &RequestCharges<'_>, decision: &Decision, replies: &mut RespReplies) {
    RespCheckReply::of(&RateLimitAnswer::of_charges(charges, decision)).write(replies);
}

impl RespCheckReply {
    pub(super) fn of(answer: &RateLimitAnswer<'_, '_>) -> Self {
        let decision = answer.decision();
        Self {
            allowed: decision.is_allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: decision.retry_span(),
            reset_after: decision.reset_span(),
            reason: answer.reason(),
        }
    }

    /// Writes whether the request is allowed, the limit, what remains, when to retry and when the limit is
    /// full again (in milliseconds, rounded up; -1 for unknown or never), and the reason.
    #[inline]
    fn write(&self, replies: &mut RespReplies) {
        self.write_with(0, replies);
    }

    /// The same in a reply that has this many more members. Write them next.
    #[inline]
    pub(super) fn write_with(&self, more: usize, replies: &mut RespReplies) {
        let count = |value: Option<u64>| value.map_or(-1, whole);
        let millis = |span: Option<Span>| count(span.map(Span::as_millis_ceil));
        let numbers = [
            i64::from(self.allowed),
            count(self.limit),
            count(self.remaining),
            millis(self.retry_after),
            millis(self.reset_after),
        ];
        if replies.protocol() == RespProtocol::Resp3 {
            replies.map(NAMES.len() + 1 + more);
            for (name, number) in NAMES.into_iter().zip(numbers) {
                replies.bulk(name.as_bytes());
                replies.integer(number);
            }
            replies.bulk(b"reason");
        } else {
            replies.list(NAMES.len() + 1 + more);
            replies.integers(numbers);
        }
        replies.bulk(self.reason.name().as_bytes());
    }
}

/// Writes the reply for the verdict of a single enforced limit.
#[inline]
pub(super) fn answer_verdict(verdict: &Verdict, replies: &mut RespReplies) {
    let reply = RespCheckReply {
        allowed: verdict.allowed,
        limit: Some(verdict.limit),
        remaining: Some(verdict.remaining),
        retry_after: verdict.retry_after,
        reset_after: Some(verdict.reset_after),
        reason: match verdict.allowed {
            true => DecisionReason::WithinLimit,
            false if verdict.is_hopeless() => DecisionReason::CostExceedsLimit,
            false => DecisionReason::LimitExceeded,
        },
    };
    reply.write(replies);
}

const NAMES: [&str; 5] = ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms"];
const COST: &[u8] = b"COST";
/// Enough to show what names look like, even if there are ten thousand policies.
const MAX_LISTED: usize = 20;

#[cfg(test)]
mod tests;
