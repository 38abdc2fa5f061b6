//! Interprets a command's words as a request.

use std::pin::pin;

use tidegate::{ChargeIntent, Decision, Plan, RequestCharges, Store};

use super::command_spec::{self, RespCommandSpec, RespVerb};
use super::fast_path::{RepeatedCommand, RespPolicyCheck};
use super::reply::{RespReplies, brief};
use super::throttle::RespThrottle;
use super::{all_policies, policies, throttle};
use crate::App;
use crate::service::trace::within;

/// An interpreted command. Large contents are boxed: a request is moved several times, which would cost
/// more than the allocation.
pub(super) enum RespRequest<'p> {
    /// A check or a peek, which needs a decision.
    Question(RespQuestion<'p>),
    /// Units that were taken and not used are to be given back.
    Refund(Box<RequestCharges<'p>>),
    /// A key's counters are to be reset.
    ResetKey(Box<RequestCharges<'p>>),
    /// A command about the connection or the server.
    ConnectionCommand(&'static RespCommandSpec),
    /// An invalid command, and the error text.
    Refused(String),
    /// A request of another protocol: the connection must close without a reply.
    Foreign,
}

/// What a decision is requested for.
pub(super) enum RespQuestion<'p> {
    Throttle(RespThrottle),
    /// By a policy that the command names.
    Check(Box<RequestCharges<'p>>),
    /// By all policies that apply to the command's attributes.
    CheckAll(Box<RequestCharges<'p>>),
}

impl RespQuestion<'_> {
    pub(super) async fn decide<S: Store>(&self, app: &App<S>) -> Decision {
        // The Redis protocol cannot carry a parent span.
        let mut span = app.tracer().and_then(|tracer| tracer.begin(self.name(), None));
        let decision = within(&mut span, pin!(self.decide_untraced(app))).await;
        app.end_span(span);
        decision
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Throttle(_) => "CL.THROTTLE",
            Self::Check(charges) | Self::CheckAll(charges)
                if charges.charges().first().is_some_and(|charge| charge.cost().is_peek()) =>
            {
                "RL.PEEK"
            }
            Self::Check(_) | Self::CheckAll(_) => "RL.CHECK",
        }
    }

    async fn decide_untraced<S: Store>(&self, app: &App<S>) -> Decision {
        match self {
            Self::Throttle(throttle) => {
                let charges = throttle.request_charges();
                app.decide(&charges, ChargeIntent::Take).await
            }
            Self::Check(charges) | Self::CheckAll(charges) => {
                app.decide(charges, ChargeIntent::Take).await
            }
        }
    }

    pub(super) fn answer(&self, decision: &Decision, replies: &mut RespReplies) {
        match self {
            Self::Throttle(throttle) => throttle.answer(decision, replies),
            Self::Check(charges) => policies::answer(charges, decision, replies),
            Self::CheckAll(charges) => all_policies::answer(charges, decision, replies),
        }
    }

    /// The same question without its key, to be repeated for other keys.
    pub(super) fn repeated_command<S: Store>(
        self,
        words: &[&[u8]],
        plan: &Plan,
        app: &App<S>,
    ) -> Option<RepeatedCommand> {
        match self {
            Self::Throttle(throttle) => Some(RepeatedCommand::Throttle(throttle)),
            Self::Check(charges) => {
                let check = RespPolicyCheck::of(&charges, words, plan)?;
                let counters = app.metrics().policy(charges.policy_name(0)?)?;
                Some(RepeatedCommand::Check(check, counters))
            }
            Self::CheckAll(_) => None,
        }
    }

    /// The index of the word that is the key, if the key is a single word.
    pub(super) const fn key_index(&self) -> usize {
        match self {
            Self::Throttle(_) => 1,
            Self::Check(_) | Self::CheckAll(_) => 2,
        }
    }
}

/// Interprets a command. A client that is not authenticated can only authenticate, reset or quit.
pub(super) fn read<'p>(words: &[&[u8]], plan: &'p Plan, is_authenticated: bool) -> RespRequest<'p> {
    let Some(spec) = words.first().and_then(|name| command_spec::find(name)) else {
        return unknown_command(words);
    };
    if !spec.accepts(words.len()) {
        return RespRequest::Refused(spec.wrong_number());
    }
    if !is_authenticated && !spec.verb.is_allowed_before_auth() {
        return RespRequest::Refused("NOAUTH Authentication required.".to_owned());
    }
    let request = match spec.verb {
        RespVerb::Throttle => {
            throttle::read(words, plan).map(RespQuestion::Throttle).map(RespRequest::Question)
        }
        RespVerb::Check | RespVerb::Peek if all_policies::are_meant(words, plan) => {
            all_policies::request_charges(spec, words, plan)
                .map(RespQuestion::CheckAll)
                .map(RespRequest::Question)
        }
        RespVerb::Check | RespVerb::Peek => policies::request_charges(spec, words, plan)
            .map(RespQuestion::Check)
            .map(RespRequest::Question),
        RespVerb::Refund => policies::request_charges(spec, words, plan).map(RespRequest::Refund),
        RespVerb::ResetKey => {
            policies::request_charges(spec, words, plan).map(RespRequest::ResetKey)
        }
        _ => Ok(RespRequest::ConnectionCommand(spec)),
    };
    request.unwrap_or_else(|problem| RespRequest::Refused(format!("ERR {problem}")))
}

#[cold]
fn unknown_command<'p>(words: &[&[u8]]) -> RespRequest<'p> {
    let (name, arguments) = split(words);
    // An HTTP request, from a browser that was tricked into sending a form whose body is commands.
    if [&b"POST"[..], b"HOST:"].iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return RespRequest::Foreign;
    }
    let list: String = arguments.iter().take(4).map(|word| format!("{} ", quoted(word))).collect();
    let name = quoted(name);
    RespRequest::Refused(format!("ERR unknown command {name}, with args beginning with: {list}"))
}

/// The first word, or an empty one if there is none, and the others.
pub(super) fn split<'b, 'w>(words: &'w [&'b [u8]]) -> (&'b [u8], &'w [&'b [u8]]) {
    match words {
        [first, rest @ ..] => (first, rest),
        [] => (b"", &[]),
    }
}

/// A word in single quotes, as Redis shows it.
pub(super) fn quoted(word: &[u8]) -> String {
    let brief = brief(word);
    let inner = brief.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    format!("'{}'", inner.unwrap_or(&brief))
}

/// Reads a whole number within bounds.
pub(super) fn number(name: &str, word: &[u8], least: u64, most: u64) -> Result<u64, String> {
    let value = whole(word).filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| {
        format!("{name} is {}: expected a whole number from {least} to {most}", brief(word))
    })
}

fn whole(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 18 {
        return None;
    }
    word.iter().try_fold(0_u64, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0'))
    })
}

/// Checks a key's length. Keys are hashed, never stored: this bounds time, not memory.
pub(super) fn bounded(name: &str, value: &[u8]) -> Result<(), String> {
    match value.len() {
        0..=MAX_KEY => Ok(()),
        length => Err(format!("{name} has {length} bytes: expected at most {MAX_KEY}")),
    }
}

pub(super) const MAX_KEY: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(number("n", b"0", 0, 9), Ok(0));
        assert_eq!(number("n", b"007", 0, 9), Ok(7));
        for word in ["", "-1", "+1", "1.5", "1e3", " 1", "x", "10", "9999999999999999999999"] {
            let error = number("n", word.as_bytes(), 0, 9).unwrap_err();
            assert_eq!(error, format!("n is {word:?}: expected a whole number from 0 to 9"));
        }
    }
}
