//! One command for many keys, which is what most clients send.
//!
//! All bytes except the key are the same as before, and so is their meaning: they are compared
//! instead of parsed.

use std::ops::Range;
use std::sync::{Arc, Weak};

use tidegate::{Charge, Plan, Store, Verdict};

use super::decoder::{MAX_DIGITS, RespDecoder};
use super::policies::RespPolicyCheck;
use super::reply::RespReplies;
use super::request::MAX_KEY;
use super::throttle::RespThrottle;
use super::{RespListenerContext, policies, stream, throttle};
use crate::metrics::PolicyCounters;

/// A command that was understood, for all that differ from it only in their key.
#[derive(Debug)]
pub(super) struct RespCommandTemplate {
    command: Box<[u8]>,
    /// Where in it the key is, and the line that says how long that is.
    key: Range<usize>,
    repeated: RepeatedCommand,
    /// By which it was understood. A client that is silent does not keep it.
    plan: Weak<Plan>,
}

/// What such a command asks for, whatever its key.
#[derive(Debug)]
pub(super) enum RepeatedCommand {
    Throttle(RespThrottle),
    Check(RespPolicyCheck, Arc<PolicyCounters>),
}

impl RepeatedCommand {
    /// What a key owes; `None` if it is not as simple as that.
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

    /// Where its decisions are counted, if they are a policy's.
    fn counters(&self) -> Option<&PolicyCounters> {
        match self {
            Self::Throttle(_) => None,
            Self::Check(_, counters) => Some(counters),
        }
    }
}

impl RespCommandTemplate {
    /// Of the last command, of whose words the one at `key` is the key. `None` for a command that is a
    /// line, for a long one, and for one that something else follows already.
    pub(super) fn of(
        decoder: &RespDecoder<'_>,
        (words, key): (&[&[u8]], usize),
        plan: &Arc<Plan>,
        asked: impl FnOnce() -> Option<RepeatedCommand>,
    ) -> Option<Self> {
        let command = decoder.last();
        if command.first() != Some(&b'*') || command.len() > LONGEST {
            return None;
        }
        let key = key_range(command, words, key)?;
        if !begin_alike(command.get(..key.start)?, decoder.rest()) {
            return None;
        }
        Some(Self { repeated: asked()?, command: command.into(), key, plan: Arc::downgrade(plan) })
    }

    /// Answers all commands that differ only in their key, as long as nothing has to be waited for,
    /// and returns how many.
    pub(super) fn answer<S: Store>(
        &self,
        decoder: &mut RespDecoder<'_>,
        door: &RespListenerContext<S>,
        replies: &mut RespReplies,
    ) -> u64 {
        let Some(plan) = door.app.limiter().plan_if(&self.plan) else { return 0 };
        let (input, longest) = (decoder.rest(), door.bounds.bytes);
        let mut ahead = UpcomingCharges { repeat: self, plan: &plan, input, longest, commands: 0 };
        while replies.bytes().len() < stream::MAX_PENDING_REPLIES {
            let before = ahead.commands;
            let charges = ahead.by_ref().take(AT_ONCE);
            let tell =
                |_: &Charge<'_>, verdict: &Verdict| self.repeated.answer_verdict(verdict, replies);
            if !door.app.decide_each(self.repeated.counters(), charges, tell)
                || ahead.commands == before
            {
                break;
            }
        }
        decoder.skip(input.len() - ahead.input.len());
        ahead.commands
    }

    /// The key of the command that `input` begins with, and what follows that command.
    fn find<'i>(&self, input: &'i [u8]) -> Option<(&'i [u8], &'i [u8])> {
        let (head, tail) = (self.command.get(..self.key.start)?, self.command.get(self.key.end..)?);
        let rest = input.strip_prefix(head)?;
        let (length, start) = length_of_word(rest)?;
        let (key, rest) = rest.get(start..)?.split_at_checked(length)?;
        Some((key, rest.strip_prefix(tail)?))
    }
}

/// What the next commands owe.
struct UpcomingCharges<'r, 'i> {
    repeat: &'r RespCommandTemplate,
    plan: &'r Plan,
    input: &'i [u8],
    /// As many bytes as a command may have.
    longest: usize,
    commands: u64,
}

impl<'r> Iterator for UpcomingCharges<'r, '_> {
    type Item = Charge<'r>;

    #[inline]
    fn next(&mut self) -> Option<Charge<'r>> {
        let (key, rest) = self.repeat.find(self.input)?;
        if self.input.len() - rest.len() > self.longest {
            return None;
        }
        let charge = self.repeat.repeated.charge(key, self.plan)?;
        self.input = rest;
        self.commands += 1;
        Some(charge)
    }
}

/// So few that their answers fit beside those that may wait.
const AT_ONCE: usize = 64;
/// What is remembered of a client has its bounds.
const LONGEST: usize = 512;
const END: &[u8] = b"\r\n";

/// Where in a command the word at `key` is, and the line that says how long that is.
fn key_range(command: &[u8], words: &[&[u8]], key: usize) -> Option<Range<usize>> {
    let mut start = after_line(command)?;
    for word in words.get(..key)? {
        start += after_line(command.get(start..)?)? + word.len() + END.len();
    }
    let end = start + after_line(command.get(start..)?)? + words.get(key)?.len();
    Some(start..end)
}

/// Whether what has come so far could be the same.
fn begin_alike(head: &[u8], input: &[u8]) -> bool {
    head.iter().zip(input).all(|(one, other)| one == other)
}

/// `$7\r\n`: how long a key is, and where it begins. `None` also if it would be too long.
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

/// Where a line has ended.
fn after_line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|index| index + 1)
}

#[cfg(test)]
#[path = "repeat_tests.rs"]
mod tests;
