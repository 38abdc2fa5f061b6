//! A Cluster: nodes that share the slots, and migrate them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::{Cluster, FakeRedis, Redis, Reply, slot_of};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::*;
use crate::link::LinkNodes;
use crate::link::shared_connection::ConnectionFault;
use crate::url::RedisAddress;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_goes_to_its_node_and_follows_its_slot() {
    let cluster = Cluster::start(3);
    let link = link(&cluster.url());
    assert!(link.is_cluster());
    for key in 0..300 {
        assert_eq!(count(&link, &key.to_string()).await.unwrap(), 1);
    }
    follows_a_migration(&cluster, &link, "{a}").await;
    follows_a_migration(&cluster, &link, "{b}").await;
}

/// At each step of a migration, with keys on either side: nothing is refused, nothing counted
/// twice.
async fn follows_a_migration(cluster: &Cluster, link: &RedisLink, tag: &str) {
    let slot = slot_of(tag.as_bytes());
    let to = (cluster.node_of_slot(slot) + 1) % 3;
    let keys: Vec<_> = (0..20).map(|n| format!("{tag}{n}")).collect();
    let mut expected = 0;
    let mut steps = 0;
    let mut check = || {
        steps += 1;
        expected += 1;
        for key in &keys {
            let counted = Handle::current().block_on(count(link, key));
            assert_eq!(counted.unwrap(), expected, "{key}");
        }
        let new = format!("{tag}new{steps}");
        assert_eq!(Handle::current().block_on(count(link, &new)).unwrap(), 1);
    };
    block_in_place(|| {
        check();
        cluster.migrate_slot_with(slot, to, |_| check());
        check();
    });
    assert!(steps >= 7, "{steps} steps");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over() {
    let cluster = Cluster::builder(3).replicas(1).arg("cluster-node-timeout", "1000").start();
    let link = link(&cluster.url());
    for key in 0..100 {
        assert_eq!(count(&link, &key.to_string()).await.unwrap(), 1);
    }
    let lost = cluster.node_of_slot(slot_of(b"k"));
    cluster.nodes()[lost].kill();
    let start = Instant::now();
    while count(&link, "k").await.is_err() {
        assert!(start.elapsed() < PATIENCE, "nobody took over");
        sleep(Duration::from_millis(10)).await;
    }
    for key in 0..100 {
        count_soon(&link, &key.to_string(), PATIENCE).await;
    }
}

#[tokio::test]
async fn the_wrong_kind_of_url_is_a_misconfiguration() {
    let cluster = Cluster::start(3);
    let plain = link(&cluster.nodes()[0].url());
    let mut failures = Vec::new();
    for key in 0..20 {
        failures.extend(count(&plain, &key.to_string()).await.err());
    }
    let failure = failures.pop().expect("a key of another node");
    assert_eq!(
        (failure.kind, failure.outcome),
        (StoreErrorKind::Misconfigured, CallOutcome::NotRun)
    );
    assert!(failure.message.contains("redis+cluster://"), "{failure}");

    let single = Redis::start();
    let url = single.url().replace("redis://", "redis+cluster://");
    let result = count(&link(&url), "k").await;
    assert_failed(result, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
    let nowhere = link("redis+cluster://127.0.0.1:1");
    assert_failed(count(&nowhere, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
}

/// A node that reports this port for all slots, and answers scripts with this reply.
fn node(
    port: &Arc<OnceLock<u16>>,
    script: impl Fn() -> Vec<u8> + Send + Sync + 'static,
) -> FakeRedis {
    let port = Arc::clone(port);
    FakeRedis::start(move |command| match command[0].to_ascii_uppercase().as_slice() {
        b"CLUSTER" => {
            let port = i64::from(*port.wait());
            let node = vec![Reply::bulk("127.0.0.1"), Reply::Integer(port), Reply::bulk("id")];
            let range = vec![Reply::Integer(0), Reply::Integer(16_383), Reply::Array(Some(node))];
            Some(Reply::Array(Some(vec![Reply::Array(Some(range))])).to_bytes())
        }
        word if word.starts_with(b"EVAL") => Some(script()),
        _ => None,
    })
}

#[tokio::test]
async fn a_probe_that_is_sent_on_blames_who_is_silent() {
    let port = Arc::default();
    let silent = node(&port, Vec::new);
    let to = silent.address();
    let alive = node(&port, move || format!("-MOVED 42 {to}\r\n").into_bytes());
    let _ = port.set(alive.port());
    let link = link(&alive.url().replace("redis://", "redis+cluster://"));
    let LinkNodes::Many(nodes) = &link.nodes else { panic!("a Cluster") };
    let first = link.node(42).await.unwrap();
    let address = RedisAddress::Tcp { host: to.ip().to_string(), port: to.port() };
    let second = nodes.node_at(address).unwrap();
    let [is_alive, is_silent] =
        [first.lane(0).connection().await.unwrap(), second.lane(0).connection().await.unwrap()];
    let mut call = ScriptCall::new(&COUNT, &["k"]);
    call.number(1);
    let answer = link.probe(42, 0, &call, Duration::from_millis(200)).await;
    assert_failed(answer, StoreErrorKind::Timeout, CallOutcome::Unknown);
    assert!(is_alive.fault().is_none(), "it has answered");
    assert!(matches!(is_silent.fault(), Some(ConnectionFault::Silent)));
}
