//! `explain`: which policies apply to a request, and why the others do not.

use tidegate_testkit::Scratch;

use super::{run, text, tidegate};

#[test]
fn explain_says_what_applies_and_why_the_rest_does_not() {
    let scratch = Scratch::new();
    let starter = text(&tidegate().arg("init").output().unwrap().stdout);
    let file = scratch.write("limits.yaml", &starter);
    let request = ["user=7", "plan=pro", "path=/search/x", "method=GET", "shoe=42"];
    let output = run("explain", &file, &request);
    let expected = "\
2 of 4 policies apply
- per-ip: skipped, its key needs ip
+ per-user (enforce) for user=\"7\", from tier 1
    1000/minute, sliding-window: at most 1999 in any minute
- login: does not match, path is \"/search/x\"
+ search (shadow) for user=\"7\", from `limits`
    30/minute burst 10, token-bucket: at most 40 in any minute
note: no policy uses shoe
";
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(run("explain", &file, &["nonsense"]).status.code(), Some(2));
}

#[test]
fn explain_shows_keys_as_they_are_counted() {
    let scratch = Scratch::new();
    let keys = [
        ("by-route", "{ attribute: path, as: route, routes: [\"/users/{id}\"] }"),
        ("by-path", "path"),
        ("by-ip", "ip"),
        ("by-mail", "{ attribute: mail, as: lower }"),
        ("by-user", "{ attribute: user, default: nobody }"),
    ];
    let policy = |(name, key): (&str, &str)| {
        format!("  - {{ name: {name}, key: [{key}], limits: [1/minute] }}\n")
    };
    let policies: String = keys.map(policy).concat();
    let file = scratch.write("limits.yaml", &format!("policies:\n{policies}"));
    for (request, expected) in [
        (
            ["path=/a/../users/7", "ip=2001:DB8::1", "mail=Bob@X.org"],
            [
                "by-route (enforce) for path=\"/users/{id}\", from",
                "by-path (enforce) for path=\"/users/7\", from",
                "by-ip (enforce) for ip=\"2001:db8::/64\", from",
                "by-mail (enforce) for mail=\"bob@x.org\", from",
                "by-user (enforce) for user=\"nobody\", from",
            ],
        ),
        (
            ["path=/else", "ip=[::ffff:203.0.113.9]:80", "mail=b"],
            [
                "by-route (enforce) for path=any other route, from",
                "by-path (enforce) for path=\"/else\", from",
                "by-ip (enforce) for ip=\"203.0.113.9\", from",
                "by-mail (enforce) for mail=\"b\", from",
                "by-user (enforce) for user=\"nobody\", from",
            ],
        ),
    ] {
        let said = text(&run("explain", &file, &request).stdout);
        for line in expected {
            assert!(said.contains(line), "no {line:?} in {said}");
        }
    }
}

#[test]
fn explain_walks_descriptors_of_an_envoy_file() {
    let scratch = Scratch::new();
    let text = "domain: d\ndescriptors:\n  - { key: a, value: b, rate_limit: { unit: day, requests_per_unit: 3 } }\n  - { key: c, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 3 } }\n";
    let file = scratch.write("ratelimit.yaml", text);
    let limit = "    3/day, fixed-window: at most 6 in any day\n";
    let enforced = format!("+ d.a_b (enforce) for this descriptor in domain d\n{limit}");
    let watched = format!("+ d.c (shadow) for this descriptor in domain d\n{limit}");
    for (attributes, expected) in [
        (&["a=b"][..], enforced.as_str()),
        (&["domain=d", "a=b"], &enforced),
        (&["domain=e", "a=b"], "- d: does not match, domain is \"e\"\n"),
        (&["c=x"], &watched),
        (&["a=c"], "- d: no limit for this descriptor\n"),
    ] {
        let output = run("explain", &file, attributes);
        assert_eq!(self::text(&output.stdout), expected, "{attributes:?}");
    }
}
