//! What a server does when its memory is full.

use super::reply::Reply;

/// What a server does when its memory is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// `maxmemory`, in bytes; zero when there is no limit.
    pub(crate) limit: u64,
    /// `maxmemory-policy`.
    pub(crate) policy: String,
}

impl Memory {
    /// Reads `INFO memory`.
    pub(super) fn of(reply: &Reply) -> Self {
        let text = reply.text().unwrap_or_default();
        let value = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.filter(|(key, _)| *key == name).map(|(_, value)| value.trim()).next()
        };
        let limit = value("maxmemory").and_then(|limit| limit.parse().ok()).unwrap_or(0);
        Self { limit, policy: value("maxmemory_policy").unwrap_or("unknown").to_owned() }
    }

    /// Whether counters may be dropped to make room, which gives their callers a fresh quota.
    pub(crate) fn may_evict(&self) -> bool {
        self.limit > 0 && self.policy != "noeviction"
    }
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
            let memory = Memory::of(&Reply::Bytes(info.as_bytes().to_vec()));
            assert_eq!(memory.may_evict(), expected, "{info:?}");
        }
    }
}
