//! One command for many keys, which is what most clients send.
//!
//! All bytes except the key are the same as before, and so is their meaning: they are compared
//! instead of parsed.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate::{Charge, Plan, Store, Verdict};

use super::decode::{Decoder, MAX_DIGITS};
use super::policies::Check;
use super::reply::Replies;
use super::request::MAX_KEY;
use super::throttle::Throttle;
use super::{Door, line, policies, throttle};
use crate::metrics::PolicyCounters;

/// A command that was understood, for all that differ from it only in their key.
#[derive(Debug)]
pub(super) struct Repeat {
    command: Box<[u8]>,
    /// Where in it the key is, and the line that says how long that is.
    key: Range<usize>,
    asked: Asked,
    /// By which it was understood.
    plan: Arc<Plan>,
}

/// What such a command asks for, whatever its key.
#[derive(Debug)]
pub(super) enum Asked {
    Throttle(Throttle),
    Check(Check, Arc<PolicyCounters>),
}

impl Asked {
    /// What a key owes; `None` if it is not as simple as that.
    #[inline]
    fn charge(&self, key: &[u8], plan: &Plan) -> Option<Charge<'_>> {
        match self {
            Self::Throttle(throttle) => Some(throttle.charge(key, plan)),
            Self::Check(check, _) => check.charge(key),
        }
    }

    #[inline]
    fn tell(&self, verdict: &Verdict, replies: &mut Replies) {
        match self {
            Self::Throttle(_) => throttle::tell(verdict, replies),
            Self::Check(..) => policies::tell(verdict, replies),
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

impl Repeat {
    /// From a whole command and its words, of which the one at `key` is the key. `None` for a command
    /// that is a line, and for a long one.
    pub(super) fn of(
        command: &[u8],
        words: &[&[u8]],
        (asked, key): (Asked, usize),
        plan: &Arc<Plan>,
    ) -> Option<Self> {
        if command.first() != Some(&b'*') || command.len() > LONGEST {
            return None;
        }
        let mut start = after_line(command)?;
        for word in words.get(..key)? {
            start += after_line(command.get(start..)?)? + word.len() + END.len();
        }
        let end = start + after_line(command.get(start..)?)? + words.get(key)?.len();
        Some(Self { command: command.into(), key: start..end, asked, plan: Arc::clone(plan) })
    }

    /// Answers all commands that differ only in their key, as long as nothing has to be waited for,
    /// and returns how many.
    pub(super) fn answer<S: Store>(
        &self,
        decoder: &mut Decoder<'_>,
        door: &Door<S>,
        replies: &mut Replies,
    ) -> u64 {
        let mut commands = 0;
        while replies.bytes().len() < line::MOST_WAITING
            && door.app.limiter().decides_by(&self.plan)
        {
            let Ahead { charges, length } = self.look_ahead(decoder.rest(), door);
            let tell = |_: &Charge<'_>, verdict: &Verdict| self.asked.tell(verdict, replies);
            if charges.is_empty()
                || !door.app.settle_each_at_once(self.asked.counters(), &charges, tell)
            {
                break;
            }
            decoder.skip(length);
            commands += charges.len() as u64;
        }
        commands
    }

    /// What the next commands owe, and how long all of them are.
    fn look_ahead<S>(&self, input: &[u8], door: &Door<S>) -> Ahead<'_> {
        let mut ahead = Ahead { charges: SmallVec::new(), length: 0 };
        while ahead.charges.len() < AT_ONCE
            && let Some((key, length)) = input.get(ahead.length..).and_then(|rest| self.find(rest))
            && length <= door.bounds.bytes
            && let Some(charge) = self.asked.charge(key, &self.plan)
        {
            ahead.charges.push(charge);
            ahead.length += length;
        }
        ahead
    }

    /// The key of the command that `input` begins with, and the length of the whole command.
    fn find<'i>(&self, input: &'i [u8]) -> Option<(&'i [u8], usize)> {
        let (head, tail) = (self.command.get(..self.key.start)?, self.command.get(self.key.end..)?);
        let rest = input.strip_prefix(head)?;
        let (length, start) = length_of_word(rest)?;
        let (key, rest) = rest.get(start..)?.split_at_checked(length)?;
        rest.starts_with(tail).then_some((key, head.len() + start + length + tail.len()))
    }
}

/// Commands that will be answered together.
struct Ahead<'r> {
    charges: SmallVec<[Charge<'r>; AT_ONCE]>,
    length: usize,
}

/// So few that their time is still now when the last of them is decided.
const AT_ONCE: usize = 64;
/// What is remembered of a client has its bounds.
const LONGEST: usize = 512;
const END: &[u8] = b"\r\n";

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
