//! The reply of each command.

use tidegate::Span;
use tidegate_testkit::Reply;

use crate::support::{Server, call, numbers};

/// Limited, limit, remaining, retry after, reset after.
fn throttle(server: &Server, arguments: &str) -> Vec<i64> {
    numbers(&server.call(&format!("CL.THROTTLE {arguments}")))
}

#[test]
fn throttle_answers_as_redis_cell_does() {
    let server = Server::start();
    let ask = |quantity: u64| throttle(&server, &format!("k 4 1 1 {quantity}"));
    // More than the bucket ever holds.
    assert_eq!(ask(6), [1, 5, 5, -1, 0]);
    for taken in 1..=5 {
        assert_eq!(ask(1), [0, 5, 5 - taken, -1, taken]);
    }
    assert_eq!(ask(1), [1, 5, 0, 1, 5]);
    // Rounded up: 900 ms are one second, and 4.9 are five.
    server.clock.advance(Span::from_millis(100));
    assert_eq!(ask(1), [1, 5, 0, 1, 5]);
    server.clock.advance(Span::from_millis(2_900));
    assert_eq!(ask(1), [0, 5, 2, -1, 3]);
    // A peek takes nothing.
    assert_eq!(ask(0), [0, 5, 2, -1, 3]);
    assert_eq!(ask(0), [0, 5, 2, -1, 3]);
    assert_eq!(ask(5), [1, 5, 2, 3, 3]);
    server.clock.advance(Span::from_secs(60));
    assert_eq!(ask(0), [0, 5, 5, -1, 0]);
    assert_eq!(throttle(&server, "user123 15 30 60"), [0, 16, 15, -1, 2]);
    assert_eq!(throttle(&server, "single 0 1 10"), [0, 1, 0, -1, 10]);
    assert_eq!(throttle(&server, "single 0 1 10"), [1, 1, 0, 10, 10]);
}

#[test]
fn a_throttle_that_changes_keeps_what_was_taken() {
    let server = Server::start();
    assert_eq!(throttle(&server, "k 9 10 60 8"), [0, 10, 2, -1, 48]);
    // Another burst and another count find eight tokens taken, another period does not.
    assert_eq!(throttle(&server, "k 19 10 60 0"), [0, 20, 12, -1, 48]);
    assert_eq!(throttle(&server, "k 9 20 60 0"), [0, 10, 2, -1, 48]);
    // A denial under a smaller one gives nothing back.
    assert_eq!(throttle(&server, "k 0 1 60 1"), [1, 1, 0, 48, 48]);
    assert_eq!(throttle(&server, "k 9 10 60 0"), [0, 10, 2, -1, 48]);
    assert_eq!(throttle(&server, "k 9 10 61 0"), [0, 10, 10, -1, 0]);
    assert_eq!(throttle(&server, "other 9 10 60 0"), [0, 10, 10, -1, 0]);
}

#[test]
fn any_bytes_are_a_key() {
    let server = Server::start();
    let mut connection = server.connect();
    for key in [&b""[..], b"\0", b"\r\n", b"\xff\xfe", "clé".as_bytes()] {
        let reply = connection.call(&[b"CL.THROTTLE", key, b"0", b"1", b"9"]).unwrap();
        assert_eq!(numbers(&reply), [0, 1, 0, -1, 9]);
    }
}

#[test]
fn policies_are_checked_peeked_refunded_and_reset() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = |command: &str| {
        let reply = call(&mut client, command);
        (numbers(&reply), reply.items()[5].text())
    };
    let within = || "within_limit".to_owned();
    assert_eq!(ask("RL.CHECK demo alice"), (vec![1, 10, 9, -1, 120_000], within()));
    assert_eq!(ask("rl.check demo alice 9"), (vec![1, 10, 0, -1, 120_000], within()));
    let denied = vec![0, 10, 0, 66_000, 120_000];
    assert_eq!(ask("RL.CHECK demo alice"), (denied, "limit_exceeded".to_owned()));
    assert_eq!(ask("RL.CHECK demo alice 11").1, "cost_exceeds_limit");
    assert_eq!(ask("RL.PEEK demo alice"), (vec![1, 10, 0, -1, 120_000], within()));
    assert_eq!(ask("RL.PEEK demo bob"), (vec![1, 10, 10, -1, 0], within()));
    assert!(server.call("RL.REFUND demo alice 4").is_ok());
    assert_eq!(ask("RL.PEEK demo alice").0[2], 4);
    assert!(server.call("RL.RESET demo alice").is_ok());
    assert_eq!(ask("RL.PEEK demo alice").0[2], 10);
    // A key that looks like an attribute with its value is still a different key.
    assert_eq!(ask("RL.CHECK demo key=alice 10").0[2], 0);
    assert!(server.call("RL.REFUND demo key=bob 1").is_ok());
    assert!(server.call("RL.RESET demo key=bob").is_ok());
    assert_eq!(ask("RL.CHECK demo alice").0[2], 9);
    assert_eq!(ask("RL.PEEK demo key=alice plan=pro").0[2], 9);
    assert_eq!(ask("RL.CHECK login user=alice ip=203.0.113.9 COST 5").0[..3], [1, 5, 0]);
    assert_eq!(ask("RL.CHECK login ip=203.0.113.9 user=alice").0[0], 0);
}

#[test]
fn with_resp3_decisions_are_maps() {
    let server = Server::start();
    let mut client = server.raw();
    client.send("HELLO 3\r\n");
    assert_eq!(client.line(), "%7");
    while client.line() != "modules" {}
    client.expect("*0\r\n");
    client.send("RL.CHECK demo alice\r\n");
    client.expect(
        "%6\r\n$7\r\nallowed\r\n:1\r\n$5\r\nlimit\r\n:10\r\n$9\r\nremaining\r\n:9\r\n\
         $14\r\nretry_after_ms\r\n:-1\r\n$14\r\nreset_after_ms\r\n:120000\r\n\
         $6\r\nreason\r\n$12\r\nwithin_limit\r\n",
    );
    // As in redis-cell, whatever the protocol.
    client.send("CL.THROTTLE k 0 1 9\r\nCLIENT GETNAME\r\nCONFIG GET x\r\n");
    client.expect("*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:9\r\n_\r\n%0\r\n");
    client.send("HELLO 2\r\n");
    assert_eq!(client.line(), "*14");
}

#[test]
fn a_mistake_is_answered_with_what_was_expected() {
    let server = Server::start();
    let mut client = server.connect();
    for (command, error) in [
        ("FLUSHALL now x", "ERR unknown command 'FLUSHALL', with args beginning with: 'now' 'x' "),
        (
            "CL.THROTTLE k 1",
            "ERR wrong number of arguments for 'cl.throttle' command: expected CL.THROTTLE key \
             max_burst count period [quantity]",
        ),
        (
            "CL.THROTTLE k 1 ten 60",
            "ERR count is \"ten\": expected a whole number from 1 to 1000000000000000",
        ),
        ("RL.CHECK nope alice", "ERR unknown policy \"nope\"; there are: demo, login"),
        (
            "RL.CHECK login alice",
            "ERR policy \"login\" tells callers apart by ip and user: expected RL.CHECK login \
             ip=... user=... [COST n]",
        ),
        ("SELECT 1", "ERR DB index is out of range: expected 0"),
        ("HELLO 4", "NOPROTO unsupported protocol version: expected 2 or 3"),
        ("HELLO 3 NONSENSE", "ERR Syntax error in HELLO option 'NONSENSE'"),
        ("CONFIG SET a b", "ERR CONFIG supports only GET: limits are in the configuration file"),
        (
            "AUTH guess",
            "ERR AUTH <password> called without any password configured for the default user. Are \
             you sure your configuration is correct?",
        ),
    ] {
        assert_eq!(call(&mut client, command), Reply::Error(error.to_owned()), "{command}");
    }
    // The connection can still be used.
    assert_eq!(call(&mut client, "PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn clients_get_the_small_talk_they_need() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = |command: &str| call(&mut client, command);
    assert_eq!(ask("PING hello"), Reply::bulk("hello"));
    assert_eq!(ask("ECHO hello"), Reply::bulk("hello"));
    assert!(ask("SELECT 0").is_ok());
    assert!(ask("CLIENT SETNAME worker").is_ok());
    assert_eq!(ask("CLIENT GETNAME"), Reply::bulk("worker"));
    assert!(ask("CLIENT NO-EVICT on").is_ok());
    assert_eq!(ask("CONFIG GET save"), Reply::Array(Some(vec![])));
    assert!(ask("INFO").text().contains("redis_version:7.2.0"));
    assert!(ask("INFO clients").text().contains("connected_clients:1\r\n"));
    assert_eq!(ask("COMMAND COUNT").integer(), 16);
    assert_eq!(ask("COMMAND").items().len(), 16);
    assert_eq!(ask("COMMAND LIST").items()[0].text(), "cl.throttle");
    let described = ask("COMMAND INFO cl.throttle nope");
    let throttle = described.items()[0].items();
    assert_eq!(throttle[0].text(), "cl.throttle");
    assert_eq!([1, 3, 4, 5].map(|place| throttle[place].integer()), [-5, 1, 1, 1]);
    assert_eq!(described.items()[1], Reply::Bulk(None));
    assert_eq!(ask("COMMAND DOCS ping").items()[0].text(), "ping");
    assert_eq!(ask("RESET"), Reply::Simple("RESET".to_owned()));
    assert_eq!(ask("CLIENT GETNAME"), Reply::Bulk(None));
}

#[test]
fn people_may_type_lines() {
    let server = Server::start();
    let mut client = server.raw();
    client
        .send("PING\r\nping 'two words'\n\r\n  CL.THROTTLE \"a key\" 0 1 9  \r\nQUIT\r\nPING\r\n");
    assert_eq!(
        client.rest(),
        "+PONG\r\n$9\r\ntwo words\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:9\r\n+OK\r\n"
    );
}

#[test]
fn without_the_password_nothing_is_told_or_decided() {
    let server = Server::with_password("sesame");
    let mut client = server.connect();
    let mut ask = |command: &str| call(&mut client, command).text();
    for command in ["PING", "CL.THROTTLE k 0 1 9", "RL.PEEK demo x", "INFO", "COMMAND", "ECHO x"] {
        assert_eq!(ask(command), "NOAUTH Authentication required.");
    }
    assert!(ask("HELLO 3").starts_with("NOAUTH "));
    for guess in ["AUTH open", "AUTH root sesame", "HELLO 2 AUTH default x"] {
        assert!(ask(guess).starts_with("WRONGPASS "), "{guess}");
        assert!(ask("PING").starts_with("NOAUTH "));
    }
    assert_eq!(ask("AUTH sesame"), "OK");
    assert_eq!(ask("PING"), "PONG");
    assert_eq!(ask("RESET"), "RESET");
    assert!(ask("PING").starts_with("NOAUTH "));
    let hello = server.call("HELLO 2 AUTH default sesame SETNAME me");
    assert_eq!(hello.items()[1].text(), "tidegate");
}
