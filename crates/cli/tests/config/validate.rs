//! `validate`, and files that every command refuses.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use tidegate_testkit::Scratch;

use super::{run, text, tidegate};

#[test]
fn the_starter_validates() {
    let scratch = Scratch::new();
    let starter = text(&tidegate().arg("init").output().unwrap().stdout);
    let file = scratch.write("limits.yaml", &starter);
    let output = run("validate", &file, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("limits.yaml: ok, 4 policies\n"));
}

#[test]
fn every_problem_is_told_and_the_exit_code_is_1() {
    let scratch = Scratch::new();
    let file =
        scratch.write("bad.yaml", "policies:\n  - { nam: a, key: [x], limits: [5/minit] }\n");
    let output = run("validate", &file, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("bad.yaml:2:7: unknown field \"nam\""), "{said}");
    assert!(said.contains("unknown unit \"minit\""), "{said}");
    assert!(said.ends_with("3 problems\n"), "{said}");
    for command in ["explain", "import"] {
        assert_eq!(run(command, &file, &[]).status.code(), Some(1));
    }
    let mut serve = tidegate();
    let output = serve.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(&file).output();
    assert_eq!(output.unwrap().status.code(), Some(1));
}

#[test]
fn a_configuration_can_come_from_standard_input() {
    let run = |command: &str, input: &str| {
        let mut child = tidegate();
        child.args([command, "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let ours = "policies: [{ name: a, key: [user], limits: [50/minute] }]";
    assert_eq!(text(&run("validate", ours).stdout), "standard input: ok, 1 policy\n");
    assert!(text(&run("explain", ours).stdout).starts_with("0 of 1 policy applies\n"));
    let theirs =
        "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 3 } }]";
    assert!(text(&run("import", theirs).stdout).contains("limits: [3/day]"));
    let refused = run("validate", "policy: []");
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    let expected =
        "standard input:1:1: unknown field \"policy\" (did you mean \"policies\"?): expected";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn a_store_that_serve_would_refuse_does_not_validate() {
    let scratch = Scratch::new();
    let validate = |store: &str| {
        let policies = "policies: [{ name: a, key: [user], limits: [5/minute] }]";
        let file = scratch.write("limits.yaml", &format!("store: {store}\n{policies}\n"));
        run("validate", &file, &[])
    };
    for (store, why) in [
        ("redis://:hunter2@h:99999", "port \"99999\" is not a number from 1 to 65535"),
        ("redis://", "no host"),
        ("redis://h/abc", "database \"abc\" is not a number"),
        ("redis+cluster://", "no host"),
        ("redis+sentinel://h1,h2", "no service"),
        ("redis+unix://", "no path"),
        ("redis://h:6379/0?foo=1", "unknown parameter \"foo\""),
    ] {
        let output = validate(store);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{store}: {said}");
        assert!(said.contains("limits.yaml: store \"redis") && said.contains(why), "{said}");
        assert!(said.ends_with("1 problem\n") && !said.contains("hunter2"), "{said}");
    }
    for store in ["memory", "redis://:hunter2@h:6379/1", "rediss+cluster://h1,h2"] {
        assert_eq!(validate(store).status.code(), Some(0), "{store}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_the_exit_code_is_2() {
    let directory = std::env::temp_dir();
    let commands =
        ["validate", "explain", "import", "serve --http 127.0.0.1:0 --config", "replay --config"];
    for (file, why) in [("/nonexistent.yaml", "No such file"), ("", "Is a directory")] {
        let file = if file.is_empty() { directory.as_path() } else { Path::new(file) };
        for command in commands {
            let output = tidegate().args(command.split(' ')).arg(file).output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            let expected = format!("tidegate: {}: cannot be read: {why}", file.display());
            assert!(said.starts_with(&expected), "{command}: {said}");
        }
    }
}

/// Keys that a Cluster cannot hold are refused in the same way by every command.
#[test]
fn keys_without_a_hash_tag_are_refused_for_a_cluster() {
    let scratch = Scratch::new();
    let policies = |format: &str| {
        format!(
            "key_format: '{format}'\npolicies: [{{ name: a, key: [user], limits: [50/minute] }}]\n"
        )
    };
    let (apart, together) = ("rl:{entity}:{window_index}", "rl:{{entity}}:{window_index}");
    let cluster = "redis+cluster://127.0.0.1:1";
    let refused = |output: std::process::Output| {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("expected a hash tag"), "{said}");
    };
    let file = scratch.write("limits.yaml", &policies(apart));
    assert_eq!(run("validate", &file, &[]).status.code(), Some(0));
    refused(run("validate", &file, &["--store", cluster]));
    let mut serve = tidegate();
    serve.args(["serve", "--http", "127.0.0.1:0", "--store", cluster, "--config"]).arg(&file);
    refused(serve.output().unwrap());
    let with_store = format!("store: {cluster}\n{}", policies(apart));
    refused(run("validate", &scratch.write("limits.yaml", &with_store), &[]));
    let file = scratch.write("limits.yaml", &policies(together));
    assert_eq!(run("validate", &file, &["--store", cluster]).status.code(), Some(0));
}

#[test]
fn small_sliding_windows_get_a_hint() {
    let scratch = Scratch::new();
    let file =
        scratch.write("sms.yaml", "policies: [{ name: sms, key: [phone], limits: [1/30s] }]");
    for (command, rest) in [("validate", vec![]), ("explain", vec!["phone=1"])] {
        let output = run(command, &file, &rest);
        assert_eq!(output.status.code(), Some(0));
        let said = text(&output.stdout);
        assert!(said.contains("hint: policy \"sms\": a sliding-window of 1/30s"), "{said}");
    }
}

#[test]
fn attack_15_no_command_shows_the_secret_on_a_line_with_a_mistake() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "bad.yaml",
        "gateway:\n  upstreams: { a: http://h }\n  \
         request_headers: { set: { x-internal-key: \"hunter2\" }, sett: 1 }\n\
         policies: [{ name: a, key: [ip], limits: [5/minute] }]\n",
    );
    let mut serve = tidegate();
    let served = serve.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(&file).output();
    for output in [run("validate", &file, &[]), run("explain", &file, &[]), served.unwrap()] {
        let (said, shown) = (text(&output.stderr), text(&output.stdout));
        assert!(said.contains("set: { x-internal-key: *** }, sett: *** }"), "{said}");
        assert!(!said.contains("hunter2") && !shown.contains("hunter2"), "{said}{shown}");
    }
}
