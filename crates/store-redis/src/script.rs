//! The Lua scripts, each assembled from its parts in order.

use std::sync::LazyLock;

use crate::link::RedisScript;

/// Decides over our own keys, by Redis's clock.
pub(crate) static SETTLE: LazyLock<RedisScript> =
    LazyLock::new(|| assemble(include_str!("../lua/clock.lua")));

/// The same by a given clock, for tests.
pub(crate) static SETTLE_AT: LazyLock<RedisScript> =
    LazyLock::new(|| assemble(include_str!("../lua/clock_in_hand.lua")));

/// Decides over keys that another limiter also writes, by Redis's clock.
pub(crate) static PLAIN: LazyLock<RedisScript> =
    LazyLock::new(|| assemble_plain(include_str!("../lua/clock.lua")));

/// The same by a given clock, for tests.
pub(crate) static PLAIN_AT: LazyLock<RedisScript> =
    LazyLock::new(|| assemble_plain(include_str!("../lua/clock_in_hand.lua")));

/// Stores what was decided outside of Redis, if nothing has changed meanwhile.
pub(crate) static COMPARE_AND_SET: LazyLock<RedisScript> =
    LazyLock::new(|| assemble_comparison(include_str!("../lua/clock.lua")));

/// The same by a given clock, for tests.
pub(crate) static COMPARE_AND_SET_AT: LazyLock<RedisScript> =
    LazyLock::new(|| assemble_comparison(include_str!("../lua/clock_in_hand.lua")));

/// Reads the shared settings.
pub(crate) static BOARD_LOOK: LazyLock<RedisScript> =
    LazyLock::new(|| RedisScript::new(without_comments(include_str!("../lua/board_look.lua"))));

/// Replaces the shared settings.
pub(crate) static BOARD_CHANGE: LazyLock<RedisScript> =
    LazyLock::new(|| RedisScript::new(without_comments(include_str!("../lua/board_change.lua"))));

fn assemble(clock: &str) -> RedisScript {
    let parts = [
        include_str!("../lua/names.lua"),
        clock,
        include_str!("../lua/request.lua"),
        include_str!("../lua/bucket.lua"),
        include_str!("../lua/swift.lua"),
        include_str!("../lua/arithmetic.lua"),
        include_str!("../lua/fixed_window.lua"),
        include_str!("../lua/sliding_window.lua"),
        include_str!("../lua/sliding_log.lua"),
        include_str!("../lua/token_bucket.lua"),
        include_str!("../lua/register.lua"),
        include_str!("../lua/alone.lua"),
        include_str!("../lua/connected.lua"),
        include_str!("../lua/settle.lua"),
    ];
    RedisScript::new(parts.map(without_comments).concat())
}

fn assemble_plain(clock: &str) -> RedisScript {
    let parts = [
        include_str!("../lua/names.lua"),
        clock,
        include_str!("../lua/arithmetic.lua"),
        include_str!("../lua/plain_key.lua"),
        include_str!("../lua/plain_window.lua"),
        include_str!("../lua/plain_log.lua"),
        include_str!("../lua/plain_settle.lua"),
    ];
    RedisScript::new(parts.map(without_comments).concat())
}

fn assemble_comparison(clock: &str) -> RedisScript {
    let parts =
        [include_str!("../lua/names.lua"), clock, include_str!("../lua/compare_and_set.lua")];
    RedisScript::new(parts.map(without_comments).concat())
}

/// Comments are for readers; Redis need not store them, and we need not send them.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    lines.filter(|line| !line.trim().is_empty()).flat_map(|line| [line, "\n"]).collect()
}
