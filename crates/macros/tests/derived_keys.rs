//! `#[derive(Key)]`: which types are keys, and which keys are equal.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use tidegate::{Key, Policy};

#[derive(Key)]
struct Caller<'a, T> {
    tenant: T,
    user: &'a str,
}

#[derive(Key)]
struct UserId(u64);

#[derive(Key)]
enum Login {
    Anyone,
    User(UserId),
    Both { user: UserId, tenant: u64 },
}

fn print(key: &impl Key) -> tidegate::Fingerprint {
    Policy::new("api", ["5/minute".parse().unwrap()]).unwrap().fingerprint(key)
}

#[test]
fn a_struct_is_the_key_of_its_fields() {
    assert_eq!(print(&Caller { tenant: 7_u64, user: "a" }), print(&(7_u64, "a")));
    assert_ne!(
        print(&Caller { tenant: "a", user: "bc" }),
        print(&Caller { tenant: "ab", user: "c" })
    );
    assert_eq!(print(&UserId(7)), print(&7_u64));
    // Also in the names of counters that others read.
    assert_eq!(tidegate::key_as_text(&UserId(7)), "7");
    assert_eq!(tidegate::key_as_text(&Caller { tenant: UserId(7), user: "a" }), "7:a");
}

#[test]
fn variants_are_different_keys() {
    let keys = [
        print(&Login::Anyone),
        print(&Login::User(UserId(7))),
        print(&Login::Both { user: UserId(7), tenant: 7 }),
    ];
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    assert_eq!(print(&Login::User(UserId(7))), print(&("User", 7_u64)));
}
