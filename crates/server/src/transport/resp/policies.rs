//! `RL.CHECK`, `RL.PEEK`, `RL.REFUND` and `RL.RESET`: what the policies say.
//!
//! A policy whose key is one attribute is asked by the attribute's value, `RL.CHECK demo alice`, or
//! with its name, `RL.CHECK demo key=alice`; a number after that is the cost. Every other policy is
//! asked by names and values, `RL.CHECK login ip=203.0.113.9 user=alice COST 2`. Both may be
//! followed by more names and values, for tiers.

use smallvec::SmallVec;
use tidegate::config::PlannedPolicy;
use tidegate::{Cost, Decision, MAX_COUNT, Owed, Plan, Span};
use tidegate_http::Answer;

use super::catalogue::{Spec, Verb};
use super::reply::{Protocol, Replies, brief};
use super::request::{bounded, number};

/// What a command owes to its policy.
pub(super) fn owed<'p>(spec: &Spec, words: &[&[u8]], plan: &'p Plan) -> Result<Owed<'p>, String> {
    let [_, name, rest @ ..] = words else { return Err("a policy was expected".to_owned()) };
    let name = std::str::from_utf8(name).unwrap_or_default();
    let Some(policy) = plan.policy(name) else { return Err(unknown(words, plan)) };
    let Some(asked) = Asked::read(policy, rest, number_behind_the_key(spec.verb))? else {
        return Err(expected(spec, policy));
    };
    let cost = match (spec.verb, asked.cost) {
        (Verb::Check, cost) => cost.unwrap_or(Cost::ONE),
        (Verb::Refund, Some(amount)) => amount,
        (Verb::Peek, None) => Cost::PEEK,
        (Verb::Forget, None) => Cost::ONE,
        _ => return Err(expected(spec, policy)),
    };
    let owed = plan.charges_of(name, &asked.attributes[..], cost);
    let owed = owed.ok_or_else(|| unknown(words, plan))?;
    if owed.is_empty() && policy.key().any(|part| !asked.has(part)) {
        return Err(expected(spec, policy));
    }
    owed.cost_fault().map_or(Ok(()), |fault| Err(fault.to_string()))?;
    Ok(owed)
}

/// The words after a policy.
#[derive(Default)]
struct Asked<'a> {
    attributes: SmallVec<[(&'a str, &'a [u8]); 4]>,
    cost: Option<Cost>,
}

impl<'a> Asked<'a> {
    /// `None` if they are not what the policy needs. `called` is what a number after the key means,
    /// if there may be one.
    fn read(
        policy: &'a PlannedPolicy,
        words: &[&'a [u8]],
        called: Option<&str>,
    ) -> Result<Option<Self>, String> {
        let (mut asked, mut words) = (Self::default(), words);
        let mut key = policy.key();
        if let (Some(attribute), None) = (key.next(), key.next()) {
            let [word, rest @ ..] = words else { return Ok(None) };
            let value = named(attribute, word).unwrap_or(word);
            bounded("key", value)?;
            asked.attributes.push((attribute, value));
            words = rest;
            if let [number, rest @ ..] = words
                && !number.contains(&b'=')
                && !number.eq_ignore_ascii_case(COST)
            {
                let Some(called) = called else { return Ok(None) };
                asked.cost = Some(cost(called, number)?);
                words = rest;
            }
        }
        while let [word, rest @ ..] = words {
            if word.eq_ignore_ascii_case(COST) {
                let ([number, rest @ ..], None) = (rest, asked.cost) else { return Ok(None) };
                asked.cost = Some(cost("cost", number)?);
                words = rest;
            } else {
                let Some((name, value)) = attribute(word) else { return Ok(None) };
                asked.add(name, value)?;
                words = rest;
            }
        }
        Ok(Some(asked))
    }

    /// If one occurs twice, nobody can tell which value is meant.
    fn add(&mut self, name: &'a str, value: &'a [u8]) -> Result<(), String> {
        bounded(name, value)?;
        if self.has(name) {
            let name = brief(name.as_bytes());
            return Err(format!("attribute {name} is there twice: expected one value"));
        }
        self.attributes.push((name, value));
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(other, _)| *other == name)
    }
}

/// The value of a word that names this very attribute. Any other word may be a plain value.
fn named<'a>(name: &str, word: &'a [u8]) -> Option<&'a [u8]> {
    word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

fn attribute(word: &[u8]) -> Option<(&str, &[u8])> {
    let middle = word.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(word.get(..middle)?).ok()?;
    Some((name, word.get(middle + 1..)?))
}

const fn number_behind_the_key(verb: Verb) -> Option<&'static str> {
    match verb {
        Verb::Check => Some("cost"),
        Verb::Refund => Some("amount"),
        _ => None,
    }
}

fn cost(called: &str, word: &[u8]) -> Result<Cost, String> {
    let units = number(called, word, 0, MAX_COUNT)?;
    Cost::new(units).map_err(|error| error.to_string())
}

#[cold]
fn unknown(words: &[&[u8]], plan: &Plan) -> String {
    let mut names: Vec<&str> =
        plan.policies().iter().take(MAX_LISTED + 1).map(PlannedPolicy::name).collect();
    if names.len() > MAX_LISTED {
        names.truncate(MAX_LISTED);
        names.push("...");
    }
    let name = brief(words.get(1).copied().unwrap_or_default());
    format!("unknown policy {name}; there are: {}", names.join(", "))
}

/// How to ask this policy.
#[cold]
fn expected(spec: &Spec, policy: &PlannedPolicy) -> String {
    let (name, key): (_, Vec<_>) = (policy.name(), policy.key().collect());
    let by = if key.is_empty() { "nothing".to_owned() } else { key.join(" and ") };
    let mut usage = format!("{} {name}", spec.name);
    match (&key[..], spec.verb) {
        ([_], Verb::Check) => usage += " key [cost]",
        ([_], Verb::Refund) => usage += " key amount",
        ([_], _) => usage += " key",
        (parts, verb) => {
            parts.iter().for_each(|part| usage += &format!(" {part}=..."));
            usage += match verb {
                Verb::Check => " [COST n]",
                Verb::Refund => " COST n",
                _ => "",
            };
        }
    }
    format!("policy {name:?} tells callers apart by {by}: expected {usage}")
}

/// Whether it may happen, the limit, what remains, when to retry, when the limit is full again (in
/// milliseconds, rounded up; -1 for unknown or never), and why.
pub(super) fn answer(owed: &Owed<'_>, decision: &Decision, replies: &mut Replies) {
    let millis = |span: Option<Span>| span.map(Span::as_millis_ceil);
    let named = replies.protocol() == Protocol::Resp3;
    if named {
        replies.map(6);
        replies.bulk(b"allowed");
    } else {
        replies.list(6);
    }
    replies.integer(i64::from(decision.is_allowed()));
    for (name, value) in [
        ("limit", decision.limit()),
        ("remaining", decision.remaining()),
        ("retry_after_ms", millis(decision.retry_after())),
        ("reset_after_ms", millis(decision.reset_after())),
    ] {
        if named {
            replies.bulk(name.as_bytes());
        }
        match value {
            Some(value) => replies.count(value),
            None => replies.integer(-1),
        }
    }
    if named {
        replies.bulk(b"reason");
    }
    let reason = Answer::of_owed(owed, decision).reason();
    replies.bulk(reason.name().as_bytes());
}

const COST: &[u8] = b"COST";
/// Enough to see what names look like, if there are ten thousand policies.
const MAX_LISTED: usize = 20;

#[cfg(test)]
#[path = "policies_tests.rs"]
mod tests;
