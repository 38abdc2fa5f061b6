//! `tidegate admin`: what operators type.

use std::process::{Command, Output};

use tidegate_testkit::wait_until;

use crate::server::{FILE, SOON, Server, TOKEN, scratch, serve, tidegate};

fn run(server: &Server, token: &str, arguments: &[&str]) -> Output {
    let mut command = tidegate();
    command.env("TIDEGATE_ADMIN_URL", format!("http://{}", server.admin));
    command.env("TIDEGATE_ADMIN_TOKEN", token).arg("admin").args(arguments).output().unwrap()
}

/// What it prints, if it succeeds.
#[track_caller]
fn done(server: &Server, arguments: &[&str]) -> String {
    let output = run(server, TOKEN, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Its error, which is one line.
#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn operators_look_and_change_without_curl() {
    let file = scratch("commands.yaml", FILE);
    let server = Server::start(&mut serve("memory", &file));
    let caller = ["--policy", "api", "--key", "42"];
    let with = |action: &'static str, more: &[&'static str]| {
        done(&server, &[&[action][..], &caller, more].concat())
    };
    assert_eq!(server.check("42"), 200);
    assert_eq!(server.check("42"), 200);
    let shown = with("peek", &[]);
    assert!(shown.contains("0 of 2 left"), "{shown}");
    assert!(shown.contains("key of api: #"), "{shown}");
    assert_eq!(with("refund", &["--amount", "1"]), "done, in api\n");
    assert_eq!(server.remaining("42"), Some(1));
    assert_eq!(with("reset", &[]), "done, in api\n");
    assert_eq!(server.remaining("42"), Some(2));
    let by_attributes = done(&server, &["peek", "-a", "user=42"]);
    assert!(by_attributes.contains("2 of 2 left"), "{by_attributes}");

    assert_eq!(done(&server, &["overrides"]), "none\n");
    let key = ["override", "--policy", "api", "--key", "user=42"];
    let set = done(&server, &[&key[..], &["9/hour", "--for", "2h"]].concat());
    assert_eq!(set, "api: set on all instances, for 2h\n");
    wait_until("the override", SOON, || server.limit("42") == Some(9));
    let list = done(&server, &["overrides"]);
    assert!(list.contains("user=42") && list.contains("9/hour"), "{list}");
    let removed = done(&server, &[&key[..], &["--remove"]].concat());
    assert_eq!(removed, "api: removed; the configuration is in effect again\n");
    wait_until("its end", SOON, || server.limit("42") == Some(2));
    let set = done(&server, &[&key[..], &["unlimited", "--for", "1h"]].concat());
    assert_eq!(set, "api: set on all instances, for 1h\n");
    wait_until("no limit", SOON, || server.limit("42").is_none());

    done(&server, &["mode", "--policy", "api", "shadow", "--for", "30m"]);
    wait_until("shadow", SOON, || done(&server, &["policies"]).contains("shadow"));
    done(&server, &["mode", "--policy", "api", "--remove"]);
    wait_until("enforce", SOON, || done(&server, &["policies"]).contains("enforce"));
    let policies = done(&server, &["policies"]);
    assert!(
        policies.starts_with("POLICY  MODE     KEY   LIMITS  ALLOWED  DENIED\napi "),
        "{policies}"
    );

    let reloaded = done(&server, &["reload"]);
    assert!(reloaded.ends_with("nothing has changed\n"), "{reloaded}");
    let json = done(&server, &["--json", "policies"]);
    assert!(json.starts_with('{') && json.contains("\"policies\":["), "{json}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn what_the_server_refuses_is_said_in_its_words() {
    let file = scratch("refusals.yaml", FILE);
    let server = Server::start(&mut serve("memory", &file));
    let error = |arguments: &[&str]| refused(&run(&server, TOKEN, arguments));
    let unknown = error(&["peek", "--policy", "apj", "--key", "42"]);
    assert!(unknown.contains("no policy \"apj\"") || unknown.contains("apj"), "{unknown}");
    let limits =
        error(&["override", "--policy", "api", "--key", "user=42", "9/hoor", "--for", "2h"]);
    assert!(limits.contains("hoor"), "{limits}");
    let mode = error(&["mode", "--policy", "api", "on"]);
    assert!(mode.contains("expected enforce, shadow or off"), "{mode}");
    let none = error(&["mode", "--policy", "api", "--remove"]);
    assert!(none.contains("there is no such mode"), "{none}");
    let nobody = error(&["reset", "--policy", "api"]);
    assert!(nobody.contains("expected --policy NAME and --key TEXT"), "{nobody}");
    std::fs::write(&file, "policies: [{ name: api, key: [user], limits: [2/hoor] }]").unwrap();
    let reload = run(&server, TOKEN, &["reload"]);
    assert_eq!(reload.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&reload.stderr).contains("hoor"), "{reload:?}");

    let stranger = refused(&run(&server, "", &["policies"]));
    assert!(
        stranger.contains("requires a token: expected it in TIDEGATE_ADMIN_TOKEN"),
        "{stranger}"
    );
    let wrong = refused(&run(&server, &"x".repeat(32), &["policies"]));
    assert!(wrong.contains("does not know the token"), "{wrong}");
    let mut elsewhere = tidegate();
    elsewhere.args(["admin", "policies", "--admin"]).arg(format!("http://{}", server.http));
    let elsewhere = refused(&elsewhere.output().unwrap());
    assert!(elsewhere.contains("is this its admin address?"), "{elsewhere}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn without_a_server_the_address_is_named() {
    let mut command: Command = tidegate();
    let output = command.args(["admin", "policies", "--admin", "http://127.0.0.1:1"]).output();
    let said = refused(&output.unwrap());
    assert!(said.contains("cannot reach http://127.0.0.1:1"), "{said}");
    assert!(said.contains("Is `tidegate serve` running"), "{said}");
}
