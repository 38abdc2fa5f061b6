//! Runtimes that end while a request is under way: as in tests, in scripts, and in programs that
//! start one for each piece of work. A store outlives them.

use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::{Mode, Proxy, Redis};
use tokio::runtime::Runtime;

use crate::support::{Counter, store_within};

const BACK: Duration = Duration::from_secs(20);

#[test]
fn a_runtime_that_ends_during_a_call_leaves_the_next_one_a_store_that_works() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let store = store_within(&proxy.url(), Duration::from_millis(100));
    let counter = Counter::ample(1);
    // As many as there may be calls under way on a connection, plus one.
    for _ in 0..3 {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(counter.ask_until_answered(&store, BACK));
        proxy.set_mode(Mode::Blackhole);
        let error = runtime.block_on(counter.ask(&store)).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        drop(runtime);
        proxy.set_mode(Mode::Reset);
    }
    Runtime::new().unwrap().block_on(counter.ask_until_answered(&store, BACK));
}

#[test]
fn a_runtime_that_ends_while_the_breaker_is_open_does_not_leave_it_open() {
    let redis = Redis::start();
    redis.kill();
    let store = store_within(&redis.url(), Duration::from_millis(100));
    let counter = Counter::ample(1);
    let runtime = Runtime::new().unwrap();
    while store.is_available() {
        assert!(runtime.block_on(counter.ask(&store)).is_err());
    }
    drop(runtime);
    redis.start_again();
    Runtime::new().unwrap().block_on(counter.ask_until_answered(&store, BACK));
}
