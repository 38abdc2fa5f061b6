//! A primary behind sentinels.

use std::time::Duration;

use tidegate_testkit::{Replicated, Reply, wait_until};

#[test]
fn a_replica_is_promoted_on_request_and_back() {
    let replicated = Replicated::start();
    let (primary, replica) = (replicated.primary(), replicated.replica());
    assert_eq!(replicated.sentinels().len(), 3);
    assert_eq!(replicated.current_primary_port(), primary.port());
    let ports: Vec<_> =
        replicated.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    assert_eq!(replicated.sentinel_url(), format!("redis+sentinel://{}/mymaster", ports.join(",")));
    // `WAIT` is about what its own connection wrote.
    let mut connection = primary.connect().unwrap();
    assert!(connection.call(&["SET", "a", "1"]).unwrap().is_ok());
    assert_eq!(connection.call(&["WAIT", "1", "500"]).unwrap(), Reply::Integer(1));
    replicated.failover();
    assert_eq!(replicated.current_primary().port(), replica.port());
    assert_eq!(replica.command(&["INCR", "a"]), Reply::Integer(2));
    assert!(primary.command(&["INCR", "a"]).text().starts_with("READONLY"));
    replicated.failover();
    assert_eq!(replicated.current_primary_port(), primary.port());
}

#[test]
fn a_primary_that_dies_is_replaced_and_comes_back_as_a_replica() {
    let replicated = Replicated::builder().replicas(2).password("secret").start();
    let primary = replicated.primary();
    primary.kill();
    let replaced = || replicated.current_primary_port() != primary.port();
    wait_until("a new primary", Duration::from_secs(20), replaced);
    primary.start_again();
    let demoted = || primary.role().is_some_and(|role| role == "slave");
    wait_until("the old primary to obey", Duration::from_secs(20), demoted);
    assert!(replicated.sentinel_url().starts_with("redis+sentinel://:secret@127.0.0.1:"));
}
