//! Every law, case and vector on a real Redis.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod subject;

use std::sync::LazyLock;

use tidegate_testkit::Redis;

mod standalone {
    tidegate_conformance::suite!(super::standalone);
}

fn standalone() -> subject::RedisSubject {
    static REDIS: LazyLock<Redis> = LazyLock::new(Redis::start);
    subject::RedisSubject::new(&REDIS.url(), REDIS.address())
}
