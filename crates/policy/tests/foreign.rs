//! Files of other limiters: read as they are, and imported.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use tidegate_core::{AlgorithmKind, Cost};
use tidegate_policy::{Descriptor, DescriptorOutcome, Plan, PolicySource, import};

fn plan(text: &str) -> Plan {
    let source = PolicySource::new("test.yaml", text).unwrap();
    Plan::compile(&source).unwrap_or_else(|problems| panic!("{problems}"))
}

const ENVOY: &str = "
domain: edge
descriptors:
  # A value of its own, and a default for the others.
  - key: client
    value: partner
    rate_limit: { unit: second, requests_per_unit: 500 }
  - key: client
    rate_limit: { unit: SECOND, requests_per_unit: 10 }
  # Nested: only both entries together have a limit.
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 5 }
      - key: to_number
        value: '2061111111'
        rate_limit: { unlimited: true }
  # Wildcards.
  - key: path
    value: /api/v1*
    rate_limit: { unit: minute, requests_per_unit: 7 }
  - key: path
    value: /api*
    rate_limit: { unit: minute, requests_per_unit: 8 }
  - key: files
    value: report_*
    share_threshold: true
    rate_limit: { unit: hour, requests_per_unit: 3 }
  # Watched.
  - key: beta
    shadow_mode: true
    rate_limit: { unit: week, requests_per_unit: 1 }
  # Replaced.
  - key: user
    value: vip
    rate_limit: { name: vip, unit: minute, requests_per_unit: 90, replaces: [{ name: usual }] }
  - key: account
    detailed_metric: true
    rate_limit: { name: usual, unit: month, requests_per_unit: 9 }
  - key: yearly
    rate_limit: { unit: year, requests_per_unit: 1 }
";

/// The quota of each descriptor, or its outcome.
fn quotas(plan: &Plan, descriptors: &[&[(&str, &str)]]) -> Vec<String> {
    let descriptors: Vec<_> = descriptors
        .iter()
        .map(|entries| Descriptor { entries, cost: Cost::ONE, limit: None })
        .collect();
    let result = plan.descriptor_charges("edge", &descriptors);
    let shown = result.statuses.iter().map(|status| match status {
        DescriptorOutcome::Charged { first, .. } => {
            result.charges.charges()[*first].rule().limit.quota().to_string()
        }
        other => format!("{other:?}"),
    });
    shown.collect()
}

#[test]
fn descriptors_match_as_in_the_reference_server() {
    let plan = plan(ENVOY);
    for (entries, expected) in [
        (&[("client", "partner")][..], "500/second"),
        (&[("client", "anyone")], "10/second"),
        (&[("client", "")], "10/second"),
        // Deeper or less deep than the file.
        (&[("client", "partner"), ("x", "y")], "NoLimit"),
        (&[("message_type", "marketing")], "NoLimit"),
        (&[("message_type", "marketing"), ("to_number", "1")], "5/day"),
        (&[("message_type", "marketing"), ("to_number", "2061111111")], "Unlimited"),
        (&[("to_number", "1"), ("message_type", "marketing")], "NoLimit"),
        (&[("message_type", "alerts"), ("to_number", "1")], "NoLimit"),
        // The first wildcard that matches.
        (&[("path", "/api/v1/x")], "7/minute"),
        (&[("path", "/api/v2")], "8/minute"),
        (&[("path", "/")], "NoLimit"),
        (&[("beta", "x")], "1/7d"),
        (&[("account", "1")], "9/30d"),
        (&[("yearly", "1")], "1/365d"),
        (&[], "NoLimit"),
    ] {
        assert_eq!(quotas(&plan, &[entries]), [expected], "{entries:?}");
    }
    let both: &[&[(&str, &str)]] = &[&[("user", "vip")], &[("account", "1")]];
    assert_eq!(quotas(&plan, both), ["90/minute", "NoLimit"]);
    let none = plan.descriptor_charges("other", &[]);
    assert!(none.charges.is_empty());
}

#[test]
fn descriptors_count_by_all_of_their_values() {
    let plan = plan(ENVOY);
    let counter = |entries: &[(&str, &str)]| {
        let descriptors = [Descriptor { entries, cost: Cost::ONE, limit: None }];
        plan.descriptor_charges("edge", &descriptors).charges.charges()[0].counter()
    };
    assert_ne!(counter(&[("client", "a")]), counter(&[("client", "b")]));
    assert_ne!(counter(&[("path", "/api/v1a")]), counter(&[("path", "/api/v1b")]));
    // Unless the values of a wildcard share one.
    assert_eq!(counter(&[("files", "report_1")]), counter(&[("files", "report_2")]));
    let watched = plan.policies().iter().find(|policy| policy.name() == "edge.beta").unwrap();
    assert!(!watched.rules()[0].enforced);
    assert_eq!(watched.rules()[0].limit.kind(), AlgorithmKind::FixedWindow);
}

/// The quotas that apply to a request under the imported file.
fn imported(plan: &Plan, request: &[(&str, &str)]) -> Vec<String> {
    let request_charges = plan.charges(request, Cost::ONE);
    request_charges.charges().iter().map(|charge| charge.rule().limit.quota().to_string()).collect()
}

/// The quotas that apply to a descriptor in a domain, and whether they are enforced.
fn met(plan: &Plan, domain: &str, entries: &[(&str, &str)]) -> Vec<(String, bool)> {
    let descriptors = [Descriptor { entries, cost: Cost::ONE, limit: None }];
    let found = plan.descriptor_charges(domain, &descriptors);
    let rules = found.charges.charges().iter().map(|charge| *charge.rule());
    rules.map(|rule| (rule.limit.to_string(), rule.enforced)).collect()
}

#[test]
fn an_imported_envoy_file_decides_alike() {
    let text = import(&PolicySource::new("ratelimit.yaml", ENVOY).unwrap()).unwrap();
    let (theirs, ours) = (plan(ENVOY), plan(&text));
    for (entries, count) in [
        (&[("client", "partner")][..], 1),
        (&[("client", "anyone")], 1),
        (&[("message_type", "marketing"), ("to_number", "1")], 1),
        (&[("message_type", "marketing"), ("to_number", "2061111111")], 0),
        (&[("message_type", "marketing")], 0),
        (&[("files", "report_1")], 1),
        (&[("beta", "x")], 1),
        (&[("path", "/api/v1/x")], 1),
        (&[("path", "/api/v2/x")], 1),
    ] {
        let expected = met(&theirs, "edge", entries);
        assert_eq!(expected.len(), count, "{entries:?}");
        assert_eq!(met(&ours, "edge", entries), expected, "{entries:?}\n{text}");
        // A request for another domain matches nothing there, and nothing here.
        assert_eq!(met(&theirs, "other", entries), [], "{entries:?}");
        assert_eq!(met(&ours, "other", entries), [], "{entries:?}\n{text}");
    }
    // The same by attributes.
    assert_eq!(imported(&ours, &[("domain", "edge"), ("client", "partner")]), ["500/second"]);
    assert_eq!(imported(&ours, &[("domain", "other"), ("client", "partner")]), [""; 0]);
    assert!(text.contains("# Not carried over: replaces \"usual\""), "{text}");
    assert!(text.contains("mode: shadow"), "{text}");
}

#[test]
fn what_envoy_can_say_and_we_cannot_is_not_imported_as_something_else() {
    let theirs = |domain: &str, entry: &str| {
        let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
        format!("domain: '{domain}'\ndescriptors: [{{ {entry}, {limit} }}]\n")
    };
    for entry in ["key: domain", "key: client, value: '!x'"] {
        let text = import(&PolicySource::new("f", theirs("edge", entry)).unwrap()).unwrap();
        assert!(text.contains("# Not carried over, so switched off: the entry"), "{text}");
        assert!(text.contains("mode: off"), "{text}");
    }
    for domain in ["edge*", "!edge"] {
        let said =
            import(&PolicySource::new("f", theirs(domain, "key: client")).unwrap()).unwrap_err();
        let expected = format!("f:1:9: the domain {domain:?} would be a pattern here");
        assert!(said.to_string().contains(&expected), "{said}");
    }
}

#[test]
fn rlaas_files_work_as_they_are() {
    let file = |algorithm: &str| {
        format!(
            "spring:\n  data: {{ redis: {{ host: localhost }} }}\nrate-limiter:\n  use-algo: {algorithm}\n  max-requests: 5\n  window-size: 60\n"
        )
    };
    for (algorithm, shown, format) in [
        ("fixed-window-algo", "fixed-window 5/minute", "rlaas:rate_limit:{entity}:{window_index}"),
        ("sliding-window-algo", "sliding-log 5/minute", "rlaas:rate_limit:{entity}"),
    ] {
        let theirs = plan(&file(algorithm));
        assert!(theirs.settings().is_rlaas());
        let text =
            import(&PolicySource::new("application.yaml", file(algorithm)).unwrap()).unwrap();
        for plan in [theirs, plan(&text)] {
            let request_charges = plan.charges(&[("userId", "42")], Cost::ONE);
            assert_eq!(request_charges.charges()[0].rule().limit.to_string(), shown);
            assert_eq!(request_charges.policy(0).unwrap().key_format().unwrap().as_str(), format);
        }
    }
}

#[test]
fn the_store_of_an_rlaas_file_is_where_its_counters_are() {
    let file = |store: &str| {
        format!(
            "{store}\nrate-limiter:\n  use-algo: fixed-window-algo\n  max-requests: 5\n  window-size: 60\n"
        )
    };
    let theirs = file("store: redis://localhost:6379/1");
    let text = import(&PolicySource::new("application.yaml", theirs.as_str()).unwrap()).unwrap();
    for plan in [plan(&theirs), plan(&text)] {
        assert_eq!(plan.settings().store(), Some("redis://localhost:6379/1"));
    }
    // An application may have settings of its own with that name.
    assert_eq!(plan(&file("store: { city: Oslo }")).settings().store(), None);
    let source = PolicySource::new("application.yaml", file("store: postgres://host")).unwrap();
    let said = Plan::compile(&source).unwrap_err().to_string();
    assert!(said.contains("application.yaml:1:8: unknown store \"postgres\""), "{said}");
}

#[test]
fn limitador_files_are_translated_where_conditions_are_simple() {
    let theirs = r#"
- namespace: toystore
  name: get
  max_value: 10
  seconds: 60
  conditions: ["descriptors[0]['req.method'] == 'GET'", "path != '/health'"]
  variables: ["descriptors[0].user_id"]
- namespace: toystore
  max_value: 1
  seconds: 1
  conditions: ["size(descriptors[0].x) > 3"]
  variables: []
"#;
    let text = import(&PolicySource::new("limits.yaml", theirs).unwrap()).unwrap();
    let ours = plan(&text);
    let get = [("req.method", "GET"), ("user_id", "1"), ("path", "/x")];
    assert_eq!(imported(&ours, &get), ["10/minute"]);
    let health = [("req.method", "GET"), ("user_id", "1"), ("path", "/health")];
    assert_eq!(imported(&ours, &health), [""; 0]);
    assert!(text.contains("switched off: the condition"), "{text}");
    assert!(text.contains("mode: off"), "{text}");
}

#[test]
fn namespaces_of_limitador_are_domains_of_envoy() {
    let theirs = "
- { namespace: toys, max_value: 10, seconds: 60, conditions: [], variables: [user_id] }
- { namespace: books, max_value: 20, seconds: 60, conditions: [], variables: [user_id] }
- { namespace: 'any*', max_value: 30, seconds: 60, conditions: [], variables: [user_id] }
";
    let text = import(&PolicySource::new("limits.yaml", theirs).unwrap()).unwrap();
    let ours = plan(&text);
    assert_eq!(imported(&ours, &[("domain", "toys"), ("user_id", "1")]), ["10/minute"]);
    assert_eq!(imported(&ours, &[("domain", "books"), ("user_id", "1")]), ["20/minute"]);
    assert_eq!(imported(&ours, &[("domain", "anyone"), ("user_id", "1")]), [""; 0]);
    assert!(text.contains("switched off: the namespace \"any*\""), "{text}");
}

#[test]
fn what_has_no_place_in_our_file_is_refused_and_long_paths_are_named() {
    let theirs = "domain: d\ndescriptors:\n  - { key: 'a=b', rate_limit: { unit: day, requests_per_unit: 1 } }\n";
    let said = import(&PolicySource::new("f", theirs).unwrap()).unwrap_err().to_string();
    assert!(
        said.contains("cannot be expressed in a Tidegate file: \"a=b\" is not an attribute name"),
        "{said}"
    );
    let long = theirs.replace("a=b", &"k".repeat(300));
    let plan = plan(&long);
    assert!(plan.policies()[0].name().starts_with("d.kkkk"));
    assert!(plan.policies()[0].name().len() < 128);
}

#[test]
fn what_is_ours_already_is_not_imported() {
    let source = PolicySource::new("f", "policies: [{ name: a, key: [], limits: [1/s] }]").unwrap();
    let said = import(&source).unwrap_err().to_string();
    assert!(said.contains("this is a Tidegate file already: expected an envoy"), "{said}");
    let said = import(&PolicySource::new("f", "a: 1").unwrap()).unwrap_err().to_string();
    assert!(said.contains("there is nothing to import here"), "{said}");
}
