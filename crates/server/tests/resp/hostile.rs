//! Bytes that no honest client sends.

use std::io::Write;
use std::thread;

use tidegate_server::ListenerConfig;

use crate::support::Server;

#[test]
fn what_breaks_the_protocol_is_told_so_and_hung_up_on() {
    let server = Server::start();
    for (bytes, error) in [
        (
            &b"*1000000000\r\n"[..],
            "invalid multibulk length: 1000000000 words, expected at most 256",
        ),
        (b"*99999999999999999999\r\n", "invalid multibulk length: expected a number"),
        (b"*x\r\n", "invalid multibulk length: expected a number"),
        (
            b"*1\r\n$1000000000\r\n",
            "invalid bulk length: 1000000000, expected 0 or more and at most 65536 in a command",
        ),
        (
            b"*1\r\n$-5\r\n",
            "invalid bulk length: -5, expected 0 or more and at most 65536 in a command",
        ),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*1\r\n\xff", "expected '$', got '\\xff'"),
        (b"*1\r\n$4\r\nPINGPING\r\n", "expected the end of a line after a bulk string"),
        (b"ECHO \"x\r\n", "unbalanced quotes in request"),
        (&[b'x'; 17_000], "too big inline request: expected at most 16384 bytes"),
    ] {
        // Also if much more follows, which is not read.
        for behind in [0, 300_000] {
            let mut client = server.raw();
            client.send(b"*1\r\n$4\r\nPING\r\n");
            client.send(bytes);
            let _ = client.0.write_all(&vec![b'*'; behind]);
            let answer = client.rest();
            assert_eq!(answer, format!("+PONG\r\n-ERR Protocol error: {error}\r\n"));
        }
    }
}

#[test]
fn other_protocols_are_turned_away() {
    let server = Server::start();
    // A form that a browser was made to send: its body is not read as commands.
    let mut browser = server.raw();
    browser.send("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nRL.RESET demo alice\r\n");
    assert_eq!(browser.rest(), "");
    let mut browser = server.raw();
    browser.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(browser.rest().starts_with("-ERR unknown command 'GET'"));
    // A TLS client hello is not a complete line yet; with the next bytes it is.
    let mut tls = server.raw();
    tls.send(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\n");
    assert!(tls.line().starts_with("-ERR unknown command '\\u{16}\\u{3}"));
}

#[test]
fn nothing_that_a_client_says_forges_an_answer() {
    let server = Server::start();
    let mut client = server.connect();
    let reply = client.call(&["X\r\n+OK\r\n", "\r\n:1\r\n"]).unwrap();
    assert!(reply.is_error() && reply.text().contains(r"'X\r\n+OK\r\n'"), "{reply:?}");
    let reply = client.call(&["RL.CHECK", "a\r\n+OK", "k"]).unwrap();
    assert!(reply.text().contains(r#"unknown policy "a\r\n+OK""#), "{reply:?}");
    let reply = client.call(&["CL.THROTTLE", "k", "\r\n-ERR", "1", "1"]).unwrap();
    assert!(reply.text().contains(r#"max_burst is "\r\n-ERR""#), "{reply:?}");
    assert_eq!(client.call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn a_large_command_is_taken_and_a_larger_one_is_not() {
    let server = Server::with(ListenerConfig { max_body: 100_000, ..ListenerConfig::default() });
    let mut client = server.connect();
    let large = vec![b'x'; 100_000 - 4];
    assert_eq!(client.call(&[b"ECHO", &large[..]]).unwrap().text().len(), large.len());
    let larger = vec![b'x'; 100_000];
    assert!(client.call(&[b"ECHO", &larger[..]]).unwrap().text().contains("invalid bulk length"));
}

#[test]
fn a_crowd_of_hostile_clients_leaves_a_good_one_alone() {
    let server = Server::start();
    let mut good = server.connect();
    thread::scope(|scope| {
        for seed in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..50 {
                    let garbage: Vec<u8> =
                        (0..random.usize(..2_000)).map(|_| random.u8(..)).collect();
                    let _ = server.raw().0.write_all(&garbage);
                }
            });
        }
        for _ in 0..500 {
            assert_eq!(good.call(&["PING"]).unwrap().text(), "PONG");
        }
    });
}
