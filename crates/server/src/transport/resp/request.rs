//! What a command asks for.

use std::pin::pin;

use tidegate::{Decision, Plan, RequestCharges, Store};

use super::command_spec::{self, RespCommandSpec, RespVerb};
use super::policies::RespPolicyCheck;
use super::repeat::RepeatedCommand;
use super::reply::{RespReplies, brief};
use super::throttle::RespThrottle;
use super::{policies, throttle};
use crate::App;
use crate::trace::within;

/// A command, understood. What is large is in a box: it changes hands several times, and that would
/// take longer than making room for it.
pub(super) enum RespRequest<'p> {
    /// May this happen?
    Question(RespQuestion<'p>),
    /// It was taken and not used.
    Refund(Box<RequestCharges<'p>>),
    /// The counter is to be reset.
    ResetKey(Box<RequestCharges<'p>>),
    /// About the connection or the server.
    ConnectionCommand(&'static RespCommandSpec),
    /// Invalid, and why.
    Refused(String),
    /// Not meant for us.
    Foreign,
}

/// What a decision is asked for.
pub(super) enum RespQuestion<'p> {
    Throttle(RespThrottle),
    Check(Box<RequestCharges<'p>>),
}

impl RespQuestion<'_> {
    pub(super) async fn decide<S: Store>(&self, app: &App<S>) -> Decision {
        // Redis clients have no way to say what they are part of.
        let mut span = app.tracer().and_then(|tracer| tracer.begin(self.name(), None));
        let decision = within(&mut span, pin!(self.decide_untraced(app))).await;
        app.end_span(span);
        decision
    }

    /// The same if there is no need to wait and nothing is traced.
    pub(super) fn try_decide<S: Store>(&self, app: &App<S>) -> Option<Decision> {
        match self {
            Self::Throttle(throttle) => app.try_decide_ad_hoc(&throttle.ad_hoc, throttle.cost),
            Self::Check(owed) => app.try_decide(owed),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Throttle(_) => "CL.THROTTLE",
            Self::Check(owed) if owed.charges().first().is_some_and(|it| it.cost().is_peek()) => {
                "RL.PEEK"
            }
            Self::Check(_) => "RL.CHECK",
        }
    }

    async fn decide_untraced<S: Store>(&self, app: &App<S>) -> Decision {
        match self {
            Self::Throttle(throttle) => app.decide_ad_hoc(&throttle.ad_hoc, throttle.cost).await,
            Self::Check(owed) => app.decide(owed).await,
        }
    }

    pub(super) fn answer(&self, decision: &Decision, replies: &mut RespReplies) {
        match self {
            Self::Throttle(throttle) => throttle.answer(decision, replies),
            Self::Check(owed) => policies::answer(owed, decision, replies),
        }
    }

    /// What it asks for, whatever the key.
    pub(super) fn repeated_command<S: Store>(
        self,
        words: &[&[u8]],
        plan: &Plan,
        app: &App<S>,
    ) -> Option<RepeatedCommand> {
        match self {
            Self::Throttle(throttle) => Some(RepeatedCommand::Throttle(throttle)),
            Self::Check(owed) => {
                let check = RespPolicyCheck::of(&owed, words, plan)?;
                let counters = app.metrics().policy(owed.policy_name(0)?)?;
                Some(RepeatedCommand::Check(check, counters))
            }
        }
    }

    /// Which of its words is the key, if it is only one.
    pub(super) const fn key_index(&self) -> usize {
        match self {
            Self::Throttle(_) => 1,
            Self::Check(_) => 2,
        }
    }
}

/// Reads a command. Before a client is known, it may only say who it is.
pub(super) fn read<'p>(words: &[&[u8]], plan: &'p Plan, is_known: bool) -> RespRequest<'p> {
    let Some(spec) = words.first().and_then(|name| command_spec::find(name)) else {
        return unknown_command(words);
    };
    if !spec.accepts(words.len()) {
        return RespRequest::Refused(spec.wrong_number());
    }
    if !is_known && !spec.verb.is_allowed_before_auth() {
        return RespRequest::Refused("NOAUTH Authentication required.".to_owned());
    }
    let understood = match spec.verb {
        RespVerb::Throttle => {
            throttle::read(words, plan).map(RespQuestion::Throttle).map(RespRequest::Question)
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
    understood.unwrap_or_else(|problem| RespRequest::Refused(format!("ERR {problem}")))
}

#[cold]
fn unknown_command<'p>(words: &[&[u8]]) -> RespRequest<'p> {
    let (name, arguments) = split(words);
    // A browser that was tricked into sending us a form: its body would be commands.
    if [&b"POST"[..], b"HOST:"].iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return RespRequest::Foreign;
    }
    let list: String = arguments.iter().take(4).map(|word| format!("{} ", quoted(word))).collect();
    let name = quoted(name);
    RespRequest::Refused(format!("ERR unknown command {name}, with args beginning with: {list}"))
}

/// The first word, which is empty if there is none, and the others.
pub(super) fn split<'b, 'w>(words: &'w [&'b [u8]]) -> (&'b [u8], &'w [&'b [u8]]) {
    match words {
        [first, rest @ ..] => (first, rest),
        [] => (b"", &[]),
    }
}

/// The way Redis shows words of commands.
pub(super) fn quoted(word: &[u8]) -> String {
    let brief = brief(word);
    let inner = brief.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    format!("'{}'", inner.unwrap_or(&brief))
}

/// A whole number that a word stands for.
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

/// Keys are hashed, never stored: this bounds time, not memory.
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
