//! Which requests share a counter.

use tidegate_core::Cost;

use super::{counters, plan, same};

#[test]
fn keys_are_brought_into_one_form() {
    let plan = plan(
        "
policies:
  - { name: ip, match: { kind: ip }, key: [ip], limits: [1/s] }
  - { name: path, match: { kind: path }, key: [path], limits: [1/s] }
  - { name: raw, match: { kind: raw }, key: [{ attribute: path, as: text }], limits: [1/s] }
  - { name: mail, match: { kind: mail }, key: [{ attribute: mail, as: lower }], limits: [1/s] }
  - { name: net, match: { kind: net }, key: [{ attribute: ip, prefix: 48 }], limits: [1/s] }
  - name: route
    match: { kind: route }
    key: [{ attribute: path, as: route, routes: ['/users/{id}', '/files/{*rest}'] }]
    limits: [1/s]
",
    );
    for (kind, name, a, b, expected) in [
        ("ip", "ip", "203.0.113.9", "::ffff:203.0.113.9", true),
        ("ip", "ip", "2001:db8::1", "2001:db8::ffff", true),
        ("ip", "ip", "2001:db8::1", "2001:db8:0:1::1", false),
        ("net", "ip", "2001:db8::1", "2001:db8:0:1::1", true),
        ("ip", "ip", "unix:", "unix", false),
        ("path", "path", "/a/./b?q", "/a/b", true),
        ("raw", "path", "/a/./b", "/a/b", false),
        ("mail", "mail", "Bob@Example.org", "bob@example.ORG", true),
        ("route", "path", "/users/1", "/users/2/", true),
        ("route", "path", "/users/1", "/files/1", false),
        ("route", "path", "/nowhere", "/else", true),
    ] {
        let request = |value| [("kind", kind), (name, value)];
        assert_eq!(same(&plan, &request(a), &request(b)), expected, "{kind} {a} {b}");
    }
}

#[test]
fn a_recompiled_plan_finds_its_counters() {
    let text = |limit| format!("policies: [{{ name: a, key: [user], limits: [{limit}] }}]");
    let request = [("user", "42")];
    let counter = |limit| counters(&plan(&text(limit)), &request);
    assert_eq!(counter("5/minute"), counter("50/minute"));
    assert_ne!(counter("5/minute"), counter("5/hour"));
    assert_ne!(counter("5/31d"), counter("5/calendar-month"));
}

#[test]
fn policies_with_the_same_key_share_the_subject_and_no_counter() {
    let plan = plan(
        "policies: [{ name: a, key: [user], limits: [1/s] }, { name: b, key: [user], limits: [1/s] }]",
    );
    let request_charges = plan.charges(&[("user", "42")], Cost::ONE);
    assert_eq!(request_charges.subject(0), request_charges.subject(1));
    assert_ne!(request_charges.charges()[0].counter(), request_charges.charges()[1].counter());
}
