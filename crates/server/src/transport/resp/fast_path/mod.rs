//! The fast path: answers repeated commands that differ only in their key, without parsing them again.
//!
//! Most clients send the same command for many keys. All bytes except the key are the same as before, and
//! so is their meaning, so the bytes are compared instead of parsed, and the commands that have arrived are
//! decided together. `RespSession::answer_repeats` is the only way in: without its template, every command
//! takes the slow path, which gives the same replies (`tests.rs`).
//!
//! It buys a factor of 3 for `RL.CHECK` with 64 pipelined, and of 1.1 one at a time: `./scripts/bench resp`.
//! What it needs elsewhere: `SingleLimit` in `policy`, `Store::settle_each`, and the `DecisionTally` of the
//! metrics.

pub(super) mod decimal;
mod policy_check;

use std::ops::Range;
use std::sync::{Arc, Weak};

use tidegate::{Charge, Plan, Store, Verdict};

pub(super) use self::policy_check::RespPolicyCheck;
use super::decoder::{MAX_DIGITS, RespDecoder};
use super::reply::RespReplies;
use super::request::MAX_KEY;
use super::throttle::RespThrottle;
use super::{RespListenerContext, policies, stream, throttle};
use crate::service::metrics::PolicyCounters;

/// A command that was parsed, as a template for commands that differ only in their key.
#[derive(Debug)]
pub(super) struct RespCommandTemplate {
    command: Box<[u8]>,
    /// The range of the key in `command`, including the line with the key's length.
    key: Range<usize>,
    repeated: RepeatedCommand,
    /// The plan that the command was parsed with. Weak, so that a silent client does not keep an old plan.
    plan: Weak<Plan>,
}

/// What a repeated command requests, for any key.
#[derive(Debug)]
pub(super) enum RepeatedCommand {
    Throttle(RespThrottle),
    Check(RespPolicyCheck, Arc<PolicyCounters>),
}

impl RepeatedCommand {
    /// A key's charge; `None` if the key needs more than a single enforced limit.
    #[inline]
    fn charge<'a>(&'a self, key: &[u8], plan: &'a Plan) -> Option<Charge<'a>> {
        match self {
            Self::Throttle(throttle) => Some(throttle.charge(key, plan)),
            Self::Check(check, _) => check.charge(key, plan),
        }
    }

    #[inline]
    fn answer_verdict(&self, verdict: &Verdict, replies: &mut RespReplies) {
        match self {
            Self::Throttle(_) => throttle::answer_verdict(verdict, replies),
            Self::Check(..) => policies::answer_verdict(verdict, replies),
        }
    }

    /// The name of its spans.
    const fn name(&self) -> &'static str {
        match self {
            Self::Throttle(_) => "CL.THROTTLE",
            Self::Check(check, _) if check.is_peek() => "RL.PEEK",
            Self::Check(..) => "RL.CHECK",
        }
    }

    /// The counters for its decisions, if they belong to a policy.
    fn counters(&self) -> Option<&PolicyCounters> {
        match self {
            Self::Throttle(_) => None,
            Self::Check(_, counters) => Some(counters),
        }
    }
}

impl RespCommandTemplate {
    /// A template of the last command, whose key is the word at index `key`. `None` for an inline command,
    /// for a long command, and if a different command already follows.
    pub(super) fn of(
        decoder: &RespDecoder<'_>,
        (words, key): (&[&[u8]], usize),
        plan: &Arc<Plan>,
        repeated: impl FnOnce() -> Option<RepeatedCommand>,
    ) -> Option<Self> {
        let command = decoder.last();
        if command.first() != Some(&b'*') || command.len() > LONGEST {
            return None;
        }
        let key = key_range(command, words, key)?;
        if !begin_alike(command.get(..key.start)?, decoder.rest()) {
            return None;
        }
        Some(Self {
            repeated: repeated()?,
            command: command.into(),
            key,
            plan: Arc::downgrade(plan),
        })
    }

    /// Answers all following commands that differ only in their key, as long as the store decides
    /// immediately, and returns how many.
    pub(super) fn answer<S: Store>(
        &self,
        decoder: &mut RespDecoder<'_>,
        context: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> u64 {
        let Some(plan) = context.app.limiter().plan_if(&self.plan) else { return 0 };
        let (input, longest) = (decoder.rest(), context.bounds.bytes);
        let mut upcoming =
            UpcomingCharges { template: self, plan: &plan, input, longest, commands: 0 };
        while replies.bytes().len() < stream::MAX_PENDING_REPLIES {
            let before = upcoming.commands;
            let charges = upcoming.by_ref().take(AT_ONCE);
            let answer =
                |_: &Charge<'_>, verdict: &Verdict| self.repeated.answer_verdict(verdict, replies);
            let (name, counters) = (self.repeated.name(), self.repeated.counters());
            if !context.app.decide_each(name, counters, charges, answer)
                || upcoming.commands == before
            {
                break;
            }
        }
        decoder.skip(input.len() - upcoming.input.len());
        upcoming.commands
    }

    /// If `input` begins with a matching command: the command's key, and what follows the command.
    fn find<'i>(&self, input: &'i [u8]) -> Option<(&'i [u8], &'i [u8])> {
        let (head, tail) = (self.command.get(..self.key.start)?, self.command.get(self.key.end..)?);
        let rest = input.strip_prefix(head)?;
        let (length, start) = length_of_word(rest)?;
        let (key, rest) = rest.get(start..)?.split_at_checked(length)?;
        Some((key, rest.strip_prefix(tail)?))
    }
}

/// An iterator over the charges of the next matching commands.
struct UpcomingCharges<'r, 'i> {
    template: &'r RespCommandTemplate,
    plan: &'r Plan,
    input: &'i [u8],
    /// The most bytes that a command can have.
    longest: usize,
    commands: u64,
}

impl<'r> Iterator for UpcomingCharges<'r, '_> {
    type Item = Charge<'r>;

    #[inline]
    fn next(&mut self) -> Option<Charge<'r>> {
        let (key, rest) = self.template.find(self.input)?;
        if self.input.len() - rest.len() > self.longest {
            return None;
        }
        let charge = self.template.repeated.charge(key, self.plan)?;
        self.input = rest;
        self.commands += 1;
        Some(charge)
    }
}

/// The commands that are decided together: few enough that their replies fit into the buffer.
const AT_ONCE: usize = 64;
/// Longer commands are not remembered, to bound the memory of a client.
const LONGEST: usize = 512;
const END: &[u8] = b"\r\n";

/// The range of the word at index `key` in a command, including the line with the word's length.
fn key_range(command: &[u8], words: &[&[u8]], key: usize) -> Option<Range<usize>> {
    let mut start = after_line(command)?;
    for word in words.get(..key)? {
        start += after_line(command.get(start..)?)? + word.len() + END.len();
    }
    let end = start + after_line(command.get(start..)?)? + words.get(key)?.len();
    Some(start..end)
}

/// Whether the input so far is consistent with `head`: one is a prefix of the other.
fn begin_alike(head: &[u8], input: &[u8]) -> bool {
    head.iter().zip(input).all(|(one, other)| one == other)
}

/// `$7\r\n`: the length of a key, and where the key begins. `None` also if the key is too long.
fn length_of_word(input: &[u8]) -> Option<(usize, usize)> {
    let digits = input.strip_prefix(b"$")?;
    let mut length = 0_usize;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < MAX_DIGITS => length = length * 10 + usize::from(byte - b'0'),
            b'\r' if index > 0 && digits.get(index + 1) == Some(&b'\n') => {
                return Some((length, index + 3));
            }
            _ => return None,
        }
        if length > MAX_KEY {
            return None;
        }
    }
    None
}

/// The index after the first line.
fn after_line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|index| index + 1)
}

#[cfg(test)]
mod tests;
