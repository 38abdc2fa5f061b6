//! `RL.CHECK *`: checks by all policies that apply to the attributes.

use tidegate_testkit::Reply;

use crate::support::{Server, call};

/// The whole reply as text, with spaces between its items.
fn items(reply: &Reply) -> Vec<String> {
    let text = |item: &Reply| match item {
        Reply::Integer(number) => number.to_string(),
        other => other.text(),
    };
    reply.items().iter().map(text).collect()
}

#[test]
fn the_tightest_policy_answers_and_all_are_charged() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = |command: &str| items(&call(&mut client, command));
    assert_eq!(
        ask("RL.CHECK * key=alice ip=203.0.113.9 user=alice COST 2"),
        [
            "1",
            "5",
            "3",
            "-1",
            "60000",
            "within_limit",
            "login",
            "60000",
            "store",
            "\"login\";q=5;w=60",
            "\"login\";r=3;t=60",
        ]
    );
    // Both were charged, by the cost.
    assert_eq!(ask("RL.PEEK demo alice")[2], "8");
    assert_eq!(ask("RL.PEEK login ip=203.0.113.9 user=alice")[2], "3");
    // A denial charges none.
    let denied = ask("RL.CHECK * key=alice ip=203.0.113.9 user=alice COST 4");
    assert_eq!(denied[..6], ["0", "5", "3", "60000", "60000", "limit_exceeded"]);
    assert_eq!(denied[6..9], ["login", "60000", "store"]);
    assert_eq!(denied[10], "\"login\";r=3;t=60");
    assert_eq!(ask("RL.PEEK demo alice")[2], "8");
    let peeked = ask("RL.PEEK * key=alice");
    assert_eq!((&*peeked[2], &*peeked[6]), ("8", "demo"));
    assert_eq!(ask("RL.PEEK * key=alice")[2], "8");
}

/// Clients take the first places by position, so the documented six must not move.
#[test]
fn the_first_six_places_are_those_of_a_check_by_name() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = |command: &str| items(&call(&mut client, command));
    for command in ["RL.PEEK", "RL.CHECK", "RL.PEEK"] {
        let by_name = ask(&format!("{command} demo alice"));
        let by_attributes = ask(&format!("{command} * key=bob"));
        assert_eq!((by_name.len(), by_attributes.len()), (6, 11));
        assert_eq!(by_attributes[..6], by_name, "{command}");
    }
}

#[test]
fn without_a_policy_texts_are_empty_and_numbers_are_minus_one() {
    let server = Server::start();
    let reply = items(&server.call("RL.CHECK * usr=alice"));
    let none = ["1", "-1", "-1", "-1", "-1", "no_policy", "", "-1", "none", "", ""];
    assert_eq!(reply, none);
}

#[test]
fn with_resp3_the_answer_has_more_members() {
    let server = Server::start();
    let mut client = server.raw();
    client.send("HELLO 3\r\n");
    while client.line() != "modules" {}
    client.expect("*0\r\n");
    client.send("RL.CHECK * key=alice\r\n");
    client.expect(
        "%11\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:10\r\n$9\r\nremaining\r\n:9\r\n\
         $14\r\nretry_after_ms\r\n:-1\r\n$14\r\nreset_after_ms\r\n:120000\r\n\
         $6\r\nreason\r\n$12\r\nwithin_limit\r\n$6\r\npolicy\r\n$4\r\ndemo\r\n\
         $9\r\nwindow_ms\r\n:60000\r\n$6\r\nsource\r\n$5\r\nstore\r\n\
         $16\r\nratelimit_policy\r\n$16\r\n\"demo\";q=10;w=60\r\n\
         $9\r\nratelimit\r\n$15\r\n\"demo\";r=9;t=60\r\n",
    );
}

/// Only a named policy can be given back to, or be reset.
#[test]
fn only_checks_and_peeks_are_about_all_policies() {
    let server = Server::start();
    for command in ["RL.REFUND * key=alice COST 1", "RL.RESET * key=alice"] {
        let error = "ERR unknown policy \"*\"; there are: demo, login";
        assert_eq!(server.call(command), Reply::Error(error.to_owned()), "{command}");
    }
}

/// A pipeline of the same command takes a short way, which must not take this one.
#[test]
fn a_pipeline_counts_every_check() {
    let server = Server::start();
    let mut client = server.raw();
    let command = "*3\r\n$8\r\nRL.CHECK\r\n$1\r\n*\r\n$9\r\nkey=alice\r\n";
    client.send(command.repeat(12));
    let mut remaining = Vec::new();
    for _ in 0..12 {
        assert_eq!(client.line(), "*11");
        let lines: Vec<String> = (0..5).map(|_| client.line()).collect();
        remaining.push(format!("{} {}", lines[0], lines[2]));
        // The six texts take two lines each, except for the window.
        (0..11).for_each(|_| drop(client.line()));
    }
    let expected: Vec<String> = (0..10)
        .rev()
        .map(|left| format!(":1 :{left}"))
        .chain([":0 :0".to_owned(), ":0 :0".to_owned()])
        .collect();
    assert_eq!(remaining, expected);
}
