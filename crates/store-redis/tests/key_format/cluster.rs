//! On a Cluster the windows of an entity share a slot.

use tidegate_testkit::Cluster;

use crate::our_store::{Ours, limit};

#[test]
fn tagged_windows_are_found_on_a_cluster() {
    let cluster = Cluster::start(3);
    for user in ["alice", "bob", "carol", "{dave}", "}erin", ""] {
        for (template, algorithm) in [
            ("fw:{{entity}}:{window_index}", "fixed-window"),
            ("sw:{{entity}}:{window_start}", "sliding-window"),
            ("log:{entity}", "sliding-log"),
        ] {
            let ours = Ours::new(&cluster.url(), template, limit(algorithm, "5/hour"), user, false);
            assert_eq!(ours.take(5).remaining, 0, "{user} {template}");
            assert!(!ours.take(1).allowed, "{user} {template}");
            ours.refund(2);
            assert_eq!(ours.remaining(), 2, "{user} {template}");
            ours.reset();
            assert_eq!(ours.remaining(), 5, "{user} {template}");
        }
    }
}
