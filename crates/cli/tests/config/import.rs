//! `import`: translates the files of other limiters.

use tidegate_testkit::Scratch;

use super::{run, text};

#[test]
fn import_writes_a_file_that_validates() {
    let scratch = Scratch::new();
    let theirs = "domain: d\ndescriptors:\n  - { key: a, rate_limit: { unit: day, requests_per_unit: 3 } }\n";
    let output = run("import", &scratch.write("ratelimit.yaml", theirs), &[]);
    let ours = scratch.write("limits.yaml", &text(&output.stdout));
    assert_eq!(run("validate", &ours, &[]).status.code(), Some(0));
}

#[test]
fn import_lists_what_it_switched_off() {
    let scratch = Scratch::new();
    let limit = "unit: day, requests_per_unit: 3";
    let usual = format!("  - {{ key: a, rate_limit: {{ name: usual, {limit} }} }}\n");
    let vip =
        format!("  - {{ key: b, rate_limit: {{ {limit}, replaces: [{{ name: usual }}] }} }}\n");
    let not = format!("  - {{ key: c, value: '!x', rate_limit: {{ {limit} }} }}\n");
    let kept = "1 not carried over and still limited: see the comments\n";
    let off = "1 not carried over and switched off: see the comments\n";
    for (descriptors, expected) in [
        (usual.clone(), String::new()),
        (format!("{usual}{vip}"), kept.to_owned()),
        (format!("{usual}{vip}{not}"), format!("{off}{kept}")),
    ] {
        let theirs = format!("domain: d\ndescriptors:\n{descriptors}");
        let output = run("import", &scratch.write("ratelimit.yaml", &theirs), &[]);
        assert_eq!(text(&output.stderr), expected, "{theirs}");
    }
}
