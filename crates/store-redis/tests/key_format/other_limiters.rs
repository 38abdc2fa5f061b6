//! Simple limiters of other projects, as their documents describe them.

use std::time::Duration;

use tidegate_testkit::{Connection, Redis};

/// A limiter that shares a Redis with ours.
pub(crate) struct Neighbour {
    pub(crate) kind: Kind,
    pub(crate) user: String,
    pub(crate) limit: u64,
    /// In seconds.
    pub(crate) window: u64,
    redis: Connection,
    requests: u64,
}

/// The kinds of limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    RlaasWindow,
    RlaasLog,
    Gateway,
    Hybrid,
    Java,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::RlaasWindow, Self::RlaasLog, Self::Gateway, Self::Hybrid, Self::Java];

    /// How it names its keys.
    pub(crate) const fn template(self) -> &'static str {
        match self {
            Self::RlaasWindow => "rlaas:rate_limit:{entity}:{window_index}",
            Self::RlaasLog => "rlaas:rate_limit:{entity}",
            Self::Gateway => "gw:{entity}:{limit}:{window_start}",
            Self::Hybrid => "sw:{{entity}}:{window_start}",
            Self::Java => "ratelimiter:{entity}:{window_start_ms}",
        }
    }

    /// What we call its algorithm.
    pub(crate) const fn algorithm(self) -> &'static str {
        match self {
            Self::RlaasWindow | Self::Gateway | Self::Java => "fixed-window",
            Self::Hybrid => "sliding-window",
            Self::RlaasLog => "sliding-log",
        }
    }
}

/// Counts in the window of Redis's clock; requests over the limit count too.
const RLAAS_WINDOW: &str = "
local bucket = math.floor(redis.call('TIME')[1] / ARGV[1])
local key = KEYS[1] .. ':' .. bucket
local count = redis.call('INCR', key)
if count == 1 then redis.call('EXPIRE', key, ARGV[1]) end
return count <= tonumber(ARGV[2]) and 1 or 0";

/// Prunes, counts, adds. The document makes members unique with `math.random`, which in older
/// versions of Redis is reseeded with each call, so that two requests in the same millisecond
/// become one. Here they are numbered.
const RLAAS_LOG: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[1])
local admits = redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2])
if admits then redis.call('ZADD', KEYS[1], now, now .. '-' .. ARGV[3]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
return admits and 1 or 0";

/// Counts under the key that its client has chosen, with a buffer of five seconds.
const GATEWAY: &str = "
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2] + 5) end
return count > tonumber(ARGV[1]) and 0 or 1";

impl Neighbour {
    pub(crate) fn new(kind: Kind, redis: &Redis, user: &str, limit: u64, window: u64) -> Self {
        let redis = Connection::open(redis.address(), Duration::from_secs(10)).unwrap();
        Self { kind, user: user.to_owned(), limit, window, redis, requests: 0 }
    }

    /// One request at Redis's time: whether it passes.
    pub(crate) fn take(&mut self) -> bool {
        let time = self.redis.call(&["TIME"]).unwrap();
        let [seconds, micros] = [0, 1].map(|i| time.items()[i].integer() as u64);
        self.take_at(seconds * 1_000_000 + micros)
    }

    /// One request at a given time in microseconds; limiters that ask Redis for the time still do.
    pub(crate) fn take_at(&mut self, now: u64) -> bool {
        let (user, window) = (&self.user, self.window);
        let start = now / 1_000_000 / window * window;
        let (limit, length) = (self.limit.to_string(), window.to_string());
        match self.kind {
            Kind::RlaasWindow => {
                let key = format!("rlaas:rate_limit:{user}");
                self.call(&["EVAL", RLAAS_WINDOW, "1", &key, &length, &limit]) == 1
            }
            Kind::RlaasLog => {
                let key = format!("rlaas:rate_limit:{user}");
                let length = (window * 1000).to_string();
                self.requests += 1;
                let request = format!("{:p}-{}", self, self.requests);
                self.call(&["EVAL", RLAAS_LOG, "1", &key, &length, &limit, &request]) == 1
            }
            Kind::Gateway => {
                let key = format!("gw:{user}:login:{start}");
                self.call(&["EVAL", GATEWAY, "1", &key, &limit, &length]) == 1
            }
            Kind::Hybrid => self.take_hybrid(start, now - start * 1_000_000),
            Kind::Java => {
                let key = format!("ratelimiter:{user}:{}", start * 1000);
                let count = self.call(&["INCR", &key]);
                if count == 1 {
                    self.call(&["EXPIRE", &key, &(window + 1).to_string()]);
                }
                count <= self.limit
            }
        }
    }

    /// The previous window, weighted by what of it still overlaps, plus this one.
    fn take_hybrid(&mut self, start: u64, elapsed: u64) -> bool {
        let window = self.window * 1_000_000;
        let key = |start: u64| format!("sw:{{{}}}:{start}", self.user);
        let (earlier, later) = (key(start - self.window), key(start));
        let [before, so_far] = [&earlier, &later].map(|key| self.call(&["GET", key]));
        if before * (window - elapsed) + (so_far + 1) * window > self.limit * window {
            return false;
        }
        self.call(&["INCR", &later]);
        self.call(&["EXPIRE", &later, &(2 * self.window).to_string()]);
        true
    }

    /// A number that Redis answers; none counts as zero.
    fn call(&mut self, words: &[&str]) -> u64 {
        let reply = self.redis.call(words).unwrap().or_panic();
        reply.text().parse().unwrap_or(0)
    }
}
