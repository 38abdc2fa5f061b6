//! Every law, case and vector on a real Redis: alone, behind Sentinels, and as a Cluster.
//!
//! The latter two run as a user with no more permissions than the documented rules grant.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod subject;
mod support;

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use support::{ACL, ACL_ON_A_CLUSTER, as_limited_user};
use tidegate_testkit::{Cluster, Redis, Replicated, slot_of};

mod standalone {
    tidegate_conformance::suite!(super::standalone);
}

/// Every algorithm as if no script knew it.
mod without_twins {
    tidegate_conformance::suite!(super::without_twins);
}

mod sentinel {
    tidegate_conformance::suite!(super::sentinel);
}

mod cluster {
    tidegate_conformance::suite!(super::cluster);
}

fn standalone() -> subject::RedisSubject {
    static REDIS: LazyLock<Redis> = LazyLock::new(Redis::start);
    subject::RedisSubject::new(&REDIS.url(), |_| REDIS.address())
}

fn without_twins() -> subject::RedisSubject {
    static REDIS: LazyLock<Redis> = LazyLock::new(|| Redis::builder().user(ACL).start());
    subject::RedisSubject::without_twins(&as_limited_user(&REDIS.url()), |_| REDIS.address())
}

fn sentinel() -> subject::RedisSubject {
    static GROUP: LazyLock<Replicated> =
        LazyLock::new(|| Replicated::builder().arg("user", ACL).start());
    let url = as_limited_user(&GROUP.sentinel_url());
    subject::RedisSubject::new(&url, |_| GROUP.current_primary().address())
}

fn cluster() -> subject::RedisSubject {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
        Cluster::builder(3).arg("user", &format!("{ACL} {ACL_ON_A_CLUSTER}")).start()
    });
    // No slot migrates here, so each node is looked up once.
    static OWNERS: LazyLock<Mutex<HashMap<u16, usize>>> = LazyLock::new(Mutex::default);
    let owner = |key: &[u8]| {
        let slot = slot_of(key);
        let node = *OWNERS.lock().entry(slot).or_insert_with(|| CLUSTER.node_of_slot(slot));
        CLUSTER.nodes()[node].address()
    };
    subject::RedisSubject::new(&as_limited_user(&CLUSTER.url()), owner)
}
