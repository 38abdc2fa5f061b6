//! A property of replies from a server that is not Redis, or is broken: reading them never panics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use std::sync::Arc;

use redis::Value;

use super::RedisReply;
use super::failure::RedisRefusal;
use super::memory::RedisMemory;
use super::slot_map::{SLOTS, SlotMap, ranges};
use crate::url::RedisAddress;

/// The reply in these bytes, if there is one. It is also read as an error, as the slots of a Cluster,
/// and as `INFO`.
pub(crate) fn reply(bytes: &[u8]) -> Option<RedisReply> {
    let server = RedisAddress::Tcp { host: "asked".to_owned(), port: 6379 };
    let value = redis::parse_redis_value(bytes).ok()?;
    if let Value::ServerError(error) = &value {
        match RedisRefusal::of(error, &server) {
            RedisRefusal::Moved { slot, to } => {
                assert!(slot < SLOTS, "{slot}");
                let _ = to.to_string();
            }
            refusal => drop(refusal.into_failure().to_string()),
        }
    }
    let reply = RedisReply::of(value).ok()?;
    if let Ok(ranges) = ranges(&reply, &server) {
        let map = SlotMap::new(
            ranges.into_iter().map(|range| (range.first, range.last, Arc::new(range.primary))),
        );
        assert!(map.get(SLOTS).is_none());
    }
    let _ = RedisMemory::of(&reply).may_evict();
    let _ = (reply.text(), reply.field("config-epoch"));
    Some(reply)
}
