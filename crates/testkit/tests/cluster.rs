//! A cluster: slots are served, moved, and survive their node.

use std::time::Duration;

use tidegate_testkit::{Cluster, MigrationStep, Redis, Reply, slot_of, wait_until};

#[test]
fn three_primaries_share_the_slots() {
    let cluster = Cluster::start(3);
    for key in ["a", "foo", "{user1000}.following", "x{}y", "123456789"] {
        let said = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", key]).integer();
        assert_eq!(said, i64::from(slot_of(key.as_bytes())), "{key}");
        let node = &cluster.nodes()[cluster.node_of_slot(Cluster::slot_of(key.as_bytes()))];
        assert!(node.command(&["SET", key, "1"]).is_ok());
    }
    let ports: Vec<_> =
        cluster.nodes().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", ports.join(",")));
}

#[test]
fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::builder(3).password("secret").start();
    let slot = slot_of(b"t");
    let from = cluster.node_of_slot(slot);
    let to = (from + 1) % 3;
    let (old, new) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    for number in 0..10 {
        old.command(&["SET", &format!("{{t}}{number}"), "1"]).or_panic();
    }
    let mut steps = Vec::new();
    cluster.migrate_slot_with(slot, to, |step| {
        check(step, old, new);
        steps.push(step);
    });
    use MigrationStep::{Done, Given, Importing, Migrating, Moved, Taken};
    assert_eq!(steps, [Importing, Migrating, Moved(4), Moved(8), Moved(10), Taken, Given, Done]);
    assert_eq!(cluster.node_of_slot(slot), to);
    assert_eq!(new.command(&["DBSIZE"]), Reply::Integer(10));
    assert_eq!(old.command(&["DBSIZE"]), Reply::Integer(0));
    cluster.migrate_slot(slot, from);
    assert_eq!(cluster.node_of_slot(slot), from);
}

/// What a client sees between the steps.
fn check(step: MigrationStep, old: &Redis, new: &Redis) {
    let words = |node: &Redis| node.command(&["GET", "{t}absent"]).text();
    match step {
        MigrationStep::Importing => assert_eq!(words(old), ""),
        MigrationStep::Migrating => {
            assert!(words(old).starts_with("ASK "));
            assert!(words(new).starts_with("MOVED "));
        }
        MigrationStep::Moved(8) => {
            let all: Vec<_> = (0..10).map(|number| format!("{{t}}{number}")).collect();
            let command = [vec!["MGET".to_owned()], all].concat();
            assert!(old.command(&command).text().starts_with("TRYAGAIN"));
        }
        MigrationStep::Moved(_) => {}
        MigrationStep::Taken => {
            assert!(words(old).starts_with("ASK ") || words(old).starts_with("MOVED "));
            assert_eq!(words(new), "");
        }
        MigrationStep::Given | MigrationStep::Done => assert!(words(old).starts_with("MOVED ")),
    }
}

#[test]
fn a_replica_takes_over_when_its_primary_dies() {
    let cluster = Cluster::builder(3).replicas(1).start();
    assert_eq!((cluster.nodes().len(), cluster.primaries().len()), (6, 3));
    let slot = slot_of(b"a");
    let node = cluster.node_of_slot(slot);
    cluster.nodes()[node].kill();
    let taken = || cluster.node_of_slot(slot) == node + 3;
    wait_until("the replica to take over", Duration::from_secs(20), taken);
    cluster.nodes()[node].start_again();
    cluster.wait_until_stable();
}
