//! One command for many keys, which is what most pipelines consist of.
//!
//! All bytes except the key are the same as before, and so is their meaning: they are compared
//! instead of parsed.

use smallvec::SmallVec;
use tidegate::{Fingerprint, Plan, Store};

use super::Door;
use super::decode::{Decoder, MAX_DIGITS};
use super::line;
use super::reply::Replies;
use super::request::MAX_KEY;
use super::throttle::Throttle;

/// A `CL.THROTTLE` that was understood: what comes before its key and after it.
pub(super) struct Repeat<'b> {
    /// Up to the line that says how long the key is.
    head: &'b [u8],
    tail: &'b [u8],
    throttle: Throttle,
}

impl<'b> Repeat<'b> {
    /// From a whole command with this key. `None` for a command that is a line.
    pub(super) fn of(command: &'b [u8], key: &[u8], throttle: Throttle) -> Option<Self> {
        if command.first() != Some(&b'*') {
            return None;
        }
        // The number of words, the length of the name, and the name, which contains no line break.
        let (head, rest) = command.split_at(after_lines(command, 3)?);
        let tail = rest.get(after_lines(rest, 1)? + key.len()..)?;
        Some(Self { head, tail, throttle })
    }

    /// Answers all commands that differ only in their key, as long as nothing has to be waited for,
    /// and returns how many.
    pub(super) fn answer<S: Store>(
        &self,
        decoder: &mut Decoder<'b>,
        plan: &Plan,
        door: &Door<S>,
        replies: &mut Replies,
    ) -> u64 {
        let mut commands = 0;
        while replies.bytes().len() < line::MOST_WAITING {
            let ahead = self.look_ahead(decoder.rest(), plan, door);
            if ahead.is_empty() {
                break;
            }
            for (subject, length) in ahead {
                let throttle = self.throttle.of(&subject, plan);
                let decided = door.app.settle_ad_hoc_at_once(&throttle.asked, throttle.cost);
                let Some(decision) = decided else { return commands };
                throttle.answer(&decision, replies);
                decoder.skip(length);
                commands += 1;
            }
        }
        commands
    }

    /// Whose commands come next, and how long each is. The store hears about all of them before it
    /// is asked about the first.
    fn look_ahead<S: Store>(&self, mut input: &[u8], plan: &Plan, door: &Door<S>) -> Ahead {
        let mut ahead = Ahead::new();
        while ahead.len() < AT_ONCE
            && let Some((key, length)) = self.find(input)
            && length <= door.bounds.bytes
        {
            let Throttle { asked, cost, .. } = self.throttle.of(key, plan);
            let charge = asked.charge(cost);
            door.app.limiter().announce(&charge);
            ahead.push((charge.subject(), length));
            input = input.get(length..).unwrap_or_default();
        }
        ahead
    }

    /// The key of the command that `input` begins with, and the length of the whole command.
    fn find<'i>(&self, input: &'i [u8]) -> Option<(&'i [u8], usize)> {
        let rest = input.strip_prefix(self.head)?;
        let (length, start) = length_of_word(rest)?;
        let (key, rest) = rest.get(start..)?.split_at_checked(length)?;
        rest.starts_with(self.tail)
            .then_some((key, self.head.len() + start + length + self.tail.len()))
    }
}

type Ahead = SmallVec<[(Fingerprint, usize); AT_ONCE]>;

/// As much memory as a core requests at once.
const AT_ONCE: usize = 16;

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

/// Where this many lines have ended.
fn after_lines(bytes: &[u8], lines: usize) -> Option<usize> {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.nth(lines.checked_sub(1)?).map(|(index, _)| index + 1)
}

#[cfg(test)]
#[path = "repeat_tests.rs"]
mod tests;
