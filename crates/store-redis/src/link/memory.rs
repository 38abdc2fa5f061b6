//! How much a server holds, and what it does when its memory is full.

use super::reply::RedisReply;

/// How much a server holds, and what it does when its memory is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisMemory {
    /// `maxmemory`, in bytes; zero when there is no limit.
    pub(crate) limit: u64,
    /// `maxmemory-policy`.
    pub(crate) policy: String,
    /// `used_memory`, in bytes.
    pub(crate) used: Option<u64>,
    /// Keys in all databases.
    pub(crate) keys: Option<u64>,
}

impl RedisMemory {
    /// Reads `INFO`.
    pub(super) fn of(reply: &RedisReply) -> Self {
        let text = reply.text().unwrap_or_default();
        let value = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.filter(|(key, _)| *key == name).map(|(_, value)| value.trim()).next()
        };
        let number = |name| value(name).and_then(|number| number.parse().ok());
        Self {
            limit: number("maxmemory").unwrap_or(0),
            policy: value("maxmemory_policy").unwrap_or("unknown").to_owned(),
            used: number("used_memory"),
            keys: text.contains("# Keyspace").then(|| keys(text)),
        }
    }

    /// Whether counters may be evicted to make room, which gives their clients a fresh quota.
    pub(crate) fn may_evict(&self) -> bool {
        self.limit > 0 && self.policy != "noeviction"
    }
}

/// The sum over lines such as `db0:keys=12,expires=12,avg_ttl=0`.
fn keys(text: &str) -> u64 {
    let databases = text.lines().filter(|line| line.starts_with("db"));
    let counts = databases.filter_map(|line| line.split_once(":keys="));
    counts.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_with_a_policy_evicts() {
        for (info, expected) in [
            ("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", false),
            ("maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", false),
            ("maxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n", true),
            ("", false),
        ] {
            let memory = RedisMemory::of(&RedisReply::Bytes(info.as_bytes().to_vec()));
            assert_eq!(memory.may_evict(), expected, "{info:?}");
        }
    }

    #[test]
    fn what_it_holds_is_read_where_it_is_said() {
        let info = "# Memory\r\nused_memory:1048576\r\nmaxmemory:0\r\n# Keyspace\r\n\
            db0:keys=12,expires=12,avg_ttl=0\r\ndb3:keys=5,expires=0,avg_ttl=0\r\n";
        let memory = RedisMemory::of(&RedisReply::Bytes(info.as_bytes().to_vec()));
        assert_eq!((memory.used, memory.keys), (Some(1_048_576), Some(17)));
        assert_eq!(RedisMemory::of(&RedisReply::Nil).keys, None);
    }
}
