//! A key of a call that is decided here: what Redis has under it, and what becomes of that.

use tidegate_core::{CounterState, Limit, Span, Timestamp};

use crate::link::RedisReply;
use crate::message_pack;

/// A key, with its state.
pub(super) struct ComputedKey<'a> {
    pub(super) name: &'a [u8],
    pub(super) limit: Limit,
    pub(super) phase: Span,
    /// What Redis has under the key.
    pub(super) found: Option<Vec<u8>>,
    /// What was found, and what becomes of it. `None` if the value is not one of ours.
    pub(super) before: Option<CounterState>,
    pub(super) after: Option<CounterState>,
    pub(super) is_reset: bool,
}

impl ComputedKey<'_> {
    /// Remembers what Redis has under the key.
    pub(super) fn record(&mut self, found: &RedisReply) -> Option<()> {
        self.found = match found {
            RedisReply::Bytes(raw) => Some(raw.clone()),
            RedisReply::Nil => None,
            _ => return None,
        };
        Some(())
    }

    pub(super) fn decode(&mut self) {
        self.before = match &self.found {
            Some(raw) => CounterState::decode(&self.limit, raw),
            None => Some(CounterState::fresh(&self.limit)),
        };
        self.after = self.before.clone();
        self.is_reset = false;
    }

    pub(super) fn has_changed(&self) -> bool {
        self.is_reset || self.after != self.before
    }

    /// Writes what the script compares and stores.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match &self.found {
            Some(raw) => message_pack::bytes(out, raw),
            None => message_pack::no(out),
        }
        match &self.after {
            Some(state) if self.has_changed() => {
                let is_fresh = *state == CounterState::fresh(&self.limit);
                let bytes = if is_fresh { Vec::new() } else { self.encode(state) };
                message_pack::bytes(out, &bytes);
            }
            _ => message_pack::no(out),
        }
        let forget_at = self.after.as_ref().map_or(Timestamp::ZERO, CounterState::forget_at);
        message_pack::number(out, forget_at.before(self.phase).as_micros());
    }

    fn encode(&self, state: &CounterState) -> Vec<u8> {
        let bytes = state.encode();
        if bytes.len() <= LARGEST {
            return bytes;
        }
        let mut coarse = state.clone();
        coarse.coarsen(&self.limit);
        coarse.encode()
    }
}

/// The largest state that is stored as it is: as many entries as `sliding_log.lua` stores.
const LARGEST: usize = 8_192 * 10;
