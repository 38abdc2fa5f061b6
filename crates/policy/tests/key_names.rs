//! The names of callers in stores whose keys others read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use tidegate_core::{Cost, NameScheme};
use tidegate_policy::{Attributes, Plan, PolicySource};

fn plan(text: &str) -> Plan {
    let source = PolicySource::new("test.yaml", text).unwrap();
    Plan::compile(&source).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Each charge's entity and template.
fn names<A: Attributes + ?Sized>(plan: &Plan, request: &A) -> Vec<(String, String)> {
    let request_charges = plan.charges(request, Cost::ONE);
    let named = request_charges.named_charges();
    let texts = |charge: &tidegate_core::Charge<'_>| {
        let names = charge.names().cloned().unwrap_or_default();
        let scheme = match names.scheme {
            NameScheme::StoreDefault => "-".to_owned(),
            NameScheme::Own => String::new(),
            NameScheme::Template(template) => template,
        };
        (names.entity.unwrap_or("-".to_owned()), scheme)
    };
    named.iter().map(texts).collect()
}

fn entity(key: &str, request: &[(&str, &[u8])]) -> String {
    let format = "key_format: 'k:{entity}:{window_start}'";
    let plan =
        plan(&format!("{format}\npolicies: [{{ name: p, key: {key}, limits: [5/minute] }}]"));
    names(&plan, request).remove(0).0
}

#[test]
fn addresses_are_called_what_people_call_them() {
    let ip = |text: &[u8]| entity("[ip]", &[("ip", text)]);
    assert_eq!(ip(b"203.0.113.9"), "203.0.113.9");
    assert_eq!(ip(b"::ffff:203.0.113.9"), "203.0.113.9");
    assert_eq!(ip(b"2001:DB8::1"), "2001:db8::/64");
    assert_eq!(ip(b"2001:db8::/64"), "?2001:db8::/64");
    assert_ne!(ip(b"203.0.113.9"), ip(b"204.0.113.9"));
}

#[test]
fn names_have_the_form_in_which_values_are_compared() {
    let route = r#"[{ attribute: path, as: route, routes: ["/users/{id}"] }]"#;
    assert_eq!(entity(route, &[("path", b"/users/7/")]), "/users/{id}");
    assert_eq!(entity(route, &[("path", b"/other")]), "*");
    assert_eq!(entity("[{ attribute: mail, as: lower }]", &[("mail", b"A@B.c")]), "a@b.c");
}

#[test]
fn different_callers_never_have_one_name() {
    let both = |a: &[u8], b: &[u8]| entity("[a, b]", &[("a", a), ("b", b)]);
    assert_eq!(both(b"alice", b"mail"), "alice:mail");
    assert_ne!(both(b"1:2", b"3"), both(b"1", b"2:3"));
    let user = |name: &[u8]| entity("[user]", &[("user", name)]);
    assert_ne!(user(b"\xff"), user(b"\xfe"));
}

#[test]
fn a_policy_can_keep_out_of_the_files_template() {
    let plan = plan(
        "
key_format: 'k:{entity}:{limit}:{window_start}'
policies:
  - { name: shared, key: [user], limits: [5/minute] }
  - { name: bucket, key: [user], limits: [5/minute burst 2], key_format: none }
",
    );
    assert!(plan.policy("shared").unwrap().key_format().is_some());
    assert!(plan.policy("bucket").unwrap().key_format().is_none());
    let shared = ("bob".to_owned(), "k:{entity}:{limit}:{window_start}".to_owned());
    // The store's internal names, whatever its setting.
    let own = ("-".to_owned(), String::new());
    assert_eq!(names(&plan, &[("user", "bob")][..]), [shared, own]);
    let request_charges = plan.charges_of("bucket", &[("user", "bob")], Cost::ONE).unwrap();
    assert!(!request_charges.is_named());
}

/// Whether two policies may have these names and templates: by user, and by address.
fn may_share(one: (&str, &str), other: (&str, &str)) -> bool {
    let policy = |(name, format): (&str, &str), key: &str| {
        format!("- {{ name: '{name}', key: [{key}], limits: [5/minute], key_format: '{format}' }}")
    };
    let text = format!("policies:\n{}\n{}", policy(one, "user"), policy(other, "ip"));
    Plan::compile(&PolicySource::new("test.yaml", text).unwrap()).is_ok()
}

#[test]
fn no_two_policies_can_have_one_name() {
    let (a, b) = ("a:{entity}:{window_start}", "b:{entity}:{window_start}");
    assert!(may_share(("x", a), ("y", b)));
    assert!(!may_share(("x", a), ("y", a)));
    // A caller called `1.2.3.4:x`, or `x:1.2.3.4`.
    assert!(!may_share(("x", a), ("y", "a:{entity}:x:{window_start}")));
    assert!(!may_share(("x", "a:x:{entity}:{window_start}"), ("y", a)));
    assert!(may_share(("x", "a:x:{entity}:{window_start}"), ("y", "a:y:{entity}:{window_start}")));
    // The numbers of windows can be equal, whatever they count from.
    assert!(!may_share(("x", a), ("y", "a:{entity}:{window_index}")));
    assert!(!may_share(("x", a), ("y", "a:{window_index}:{entity}")));
    let (after, before) =
        ("a:{entity}:{limit}:{window_start}", "a:{limit}:{entity}:{window_start}");
    for limit in [after, before] {
        let may_be = |other| may_share(("x", limit), (other, limit));
        assert!(["y", "xy", "yx", "x-1m"].map(may_be).iter().all(|may| *may), "{limit}");
    }
    assert!(!may_share(("x", after), ("y:x", after)));
    assert!(!may_share(("x", before), ("x:y", before)));
}

#[test]
fn tiers_and_overrides_of_a_policy_have_its_names() {
    let policy = |name: &str, rest: &str| {
        format!(
            "- {{ name: {name}, key: [user], limits: [5/minute], {rest}\n    \
             key_format: 'a:{{entity}}:{{limit}}:{{window_start}}' }}\n"
        )
    };
    let problems = |first: &str| {
        let text = format!("policies:\n{}{}", policy("x", first), policy("x-1h", ""));
        let plan = Plan::compile(&PolicySource::new("test.yaml", text).unwrap());
        plan.err().map(|problems| problems.to_string())
    };
    assert_eq!(problems("tiers: [{ when: { plan: pro }, limits: [9/minute] }],"), None);
    assert_eq!(problems("overrides: { 'user=1': [9/hour] },"), None);
    for several in [
        "tiers: [{ when: { plan: pro }, limits: [9/minute, 90/hour] }],",
        "overrides: { 'user=1': [9/minute, 90/hour] },",
    ] {
        let said = problems(several).unwrap();
        let expected =
            "and \"x-1h\": a key could also belong to \"x\" on line 2: expected another name";
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn what_never_passes_suits_every_template() {
    let plan = plan(
        "
key_format: 'l:{entity}'
policies:
  - name: log
    key: [user]
    limits: [{ quota: 5, per: 1m, algorithm: sliding-log }]
    overrides:
      'user=eve': [0/second]
      'user=mallory': [{ quota: 0, per: 1m, algorithm: token-bucket }]
",
    );
    let format = |user| names(&plan, &[("user", user)][..]).remove(0).1;
    assert_eq!(["bob", "eve", "mallory"].map(format), ["l:{entity}", "", ""]);
}

#[test]
fn each_policy_has_its_own_template_or_none() {
    let plan = plan(
        "
policies:
  - { name: ours, key: [user], limits: [5/minute] }
  - { name: log, key: [user], limits: [5/minute], algorithm: sliding-log, key_format: 'l:{entity}' }
  - name: windows
    key: [user]
    limits: [5/minute, 50/hour]
    key_format: 'w:{{entity}}:{limit}:{window_start}'
",
    );
    let windows = ("bob".to_owned(), "w:{{entity}}:{limit}:{window_start}".to_owned());
    let none = ("-".to_owned(), "-".to_owned());
    let log = ("bob".to_owned(), "l:{entity}".to_owned());
    let request = [("user", "bob")];
    assert_eq!(names(&plan, &request[..]), [none, log, windows.clone(), windows.clone()]);
    let request_charges = plan.charges(&request[..], Cost::ONE);
    let part = request_charges.subset([3]);
    let names = part.named_charges()[0].names().unwrap();
    assert_eq!(names.scheme, NameScheme::Template(windows.1));
}
