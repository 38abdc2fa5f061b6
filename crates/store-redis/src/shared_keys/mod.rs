//! Calls for counters in another limiter's format: their arguments, and what their replies mean.
//!
//! One request makes one call. As with our own keys, the script decides and stores, and `core`
//! works out the verdicts from what the script found.

mod accounts;

use tidegate_core::{Limit, Span};

use crate::batch::{RedisCharge, RedisRequest};
use crate::key_format::SharedKeyName;
use crate::link::{RedisScript, ScriptCall};
use crate::message_pack;

pub(crate) use accounts::answer;

/// A key that another limiter also writes.
#[derive(Clone, Debug)]
pub(crate) struct SharedKey {
    pub(crate) name: SharedKeyName,
    /// The divisor that turns a window's start into the number in its name.
    pub(crate) unit: Span,
    /// How long the key is kept beyond the time for which it matters.
    pub(crate) buffer: Span,
}

/// The script call of a request.
pub(crate) fn call(request: &RedisRequest, script: &'static RedisScript) -> ScriptCall {
    let items = request.items();
    let keys: Vec<&[u8]> = items.iter().map(|item| item.key.as_bytes()).collect();
    let mut call = ScriptCall::new(script, &keys);
    call.arg(argument(request, items));
    call
}

/// What `plain_key.lua` and `plain_settle.lua` unpack.
fn argument(request: &RedisRequest, items: &[RedisCharge]) -> Vec<u8> {
    let verb = match request {
        RedisRequest::Settle(_) => 0,
        RedisRequest::Refund(_) => 1,
        RedisRequest::Reset(_) => 2,
        RedisRequest::Peek(_) => 3,
    };
    let buffer =
        |item: &RedisCharge| item.shared_key.as_deref().map(|shared| shared.buffer.as_micros());
    let mut out = Vec::with_capacity(64 + 128 * items.len());
    message_pack::list(&mut out, 4);
    message_pack::number(&mut out, verb);
    message_pack::number(&mut out, items.iter().find_map(buffer).unwrap_or_default());
    message_pack::bytes(&mut out, format!("{:016x}", fastrand::u64(..)).as_bytes());
    message_pack::list(&mut out, items.len());
    items.iter().for_each(|item| write(&mut out, item, items));
    out
}

fn write(out: &mut Vec<u8>, item: &RedisCharge, items: &[RedisCharge]) {
    let Some(shared_key) = &item.shared_key else { return };
    let quota = item.rule.limit.quota();
    let numbers = [
        layout(&item.rule.limit),
        quota.limit(),
        quota.window().as_micros(),
        u64::from(item.rule.limit.counts_denied()),
        item.cost.get(),
        item.shadow_position(items),
        first_of(items, item) as u64 + 1,
        shared_key.unit.as_micros(),
    ];
    message_pack::list(out, numbers.len() + 2);
    numbers.iter().for_each(|number| message_pack::number(out, *number));
    message_pack::bytes(out, &shared_key.name.head);
    message_pack::bytes(out, &shared_key.name.tail);
}

/// The number of the layout in `plain_settle.lua`. Limits without a layout have been refused already.
const fn layout(limit: &Limit) -> u64 {
    match limit {
        Limit::FixedWindow(_) => 1,
        Limit::SlidingLog(_) => 3,
        _ => 2,
    }
}

/// The position of the first charge to the same counter.
fn first_of(items: &[RedisCharge], item: &RedisCharge) -> usize {
    items.iter().position(|other| other.counter == item.counter).unwrap_or_default()
}
