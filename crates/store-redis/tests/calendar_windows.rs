//! Windows that follow the calendar, on a real Redis.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use tidegate_core::algorithm::FixedWindow;
use tidegate_core::{CalendarPeriod, Charge, Cost, Fingerprint, Rule, Span, Timestamp};
use tidegate_store::{LocalStore, ManualClock, MemoryStore, Store, Verdicts};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tidegate_testkit::Redis;

/// 2024-01-30 23:00, a leap year.
const START: Timestamp = Timestamp::from_secs(1_706_655_600);

#[tokio::test]
async fn months_weeks_and_days_end_as_they_do_in_memory() {
    let redis = Redis::start();
    let config: RedisConfig = redis.url().parse().unwrap();
    let patient = Duration::from_secs(20);
    let store = RedisStore::builder(config).manual_clock().deadline(patient).build();
    let clock = ManualClock::at(START);
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    for (n, calendar) in
        [CalendarPeriod::Day, CalendarPeriod::Week, CalendarPeriod::Month].into_iter().enumerate()
    {
        let limit = FixedWindow::by_calendar(3, calendar).unwrap().into();
        let id = Fingerprint::new(n as u64, 1);
        let rule = Rule { id, limit, enforced: true, staggered: false };
        let charges = [Charge::new(Fingerprint::new(7, 7), Cost::ONE, &rule)];
        clock.set(START);
        for _ in 0..2_000 {
            store.set_now(tidegate_store::Clock::now(&clock));
            let (mut here, mut there) = (Verdicts::new(), Verdicts::new());
            memory.settle_now(&charges, &mut here);
            store.settle(&charges, None, &mut there).await.unwrap();
            assert_eq!(here, there, "{calendar:?}");
            clock.advance(Span::from_secs(7 * 3_600 + 11));
        }
    }
}
