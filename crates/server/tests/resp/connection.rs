//! Slow, numerous or vanished clients, and a server that stops while they are connected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_server::ListenerConfig;

use crate::support::{Server, call};

const SHORT: Duration = Duration::from_secs(1);

#[test]
fn half_a_command_is_not_waited_for_as_long_as_silence() {
    let server =
        Server::with(ListenerConfig { header_timeout: SHORT, ..ListenerConfig::default() });
    let (mut silent, mut good) = (server.raw(), server.connect());
    let begun = ["*", "*1\r\n", "*1\r\n$4\r\nPI", "PIN", "PING\r\nPIN", "\0\0\0"];
    let mut slow: Vec<_> = begun.iter().map(|bytes| (server.raw(), *bytes)).collect();
    slow.iter_mut().for_each(|(client, bytes)| client.send(bytes));
    assert_eq!(call(&mut good, "PING").text(), "PONG");
    for (mut client, bytes) in slow {
        let answered = if bytes.contains("\nPIN") { "+PONG\r\n" } else { "" };
        assert_eq!(client.rest(), answered, "{bytes:?}");
    }
    // Idle for longer than a command may take, and still served.
    assert_eq!(call(&mut good, "PING").text(), "PONG");
    silent.send("PING\r\n");
    silent.expect("+PONG\r\n");
}

#[test]
fn a_command_that_drips_is_cut_off_in_time() {
    let server =
        Server::with(ListenerConfig { header_timeout: SHORT, ..ListenerConfig::default() });
    let mut client = server.raw();
    client.0.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A byte every 20 ms: it is never silent for long, and never comes to an end.
    let ended = (0..500)
        .any(|_| client.0.write_all(b"x").is_err() || matches!(client.0.read(&mut [0]), Ok(0)));
    assert!(ended);
}

#[test]
fn an_idle_client_is_let_go() {
    let server = Server::with(ListenerConfig { idle_timeout: SHORT, ..ListenerConfig::default() });
    let mut client = server.raw();
    client.send("PING\r\n");
    assert_eq!(client.rest(), "+PONG\r\n");
}

#[test]
fn a_client_that_does_not_read_is_let_go_and_hurts_nobody() {
    let server = Server::with(ListenerConfig { body_timeout: SHORT, ..ListenerConfig::default() });
    let mut greedy = server.raw();
    let echo = [b"*2\r\n$4\r\nECHO\r\n$10000\r\n", &[b'x'; 10_000][..], b"\r\n"].concat();
    let mut good = server.connect();
    let mut refused = false;
    for _ in 0..100_000 {
        if greedy.0.write_all(&echo).is_err() {
            refused = true;
            break;
        }
    }
    assert!(refused, "a gigabyte was taken from a client that reads nothing");
    assert_eq!(call(&mut good, "PING").text(), "PONG");
}

#[test]
fn a_client_that_breaks_off_hurts_nobody() {
    let server = Server::start();
    for bytes in ["", "*", "*1\r\n$4\r\nPI", "PING\r\n", "*3\r\n$8\r\nRL.CHECK\r\n"] {
        server.raw().send(bytes);
    }
    assert_eq!(server.call("PING").text(), "PONG");
}

#[test]
fn connections_past_the_cap_wait_for_their_turn() {
    let server = Server::with(ListenerConfig { max_connections: 1, ..ListenerConfig::default() });
    let mut first = server.raw();
    // Half a command.
    first.send("*1\r\n$4");
    let mut second = server.raw();
    second.send("PING\r\n");
    second.0.set_read_timeout(Some(SHORT)).unwrap();
    assert!(second.0.read(&mut [0]).is_err());
    drop(first);
    second.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    second.expect("+PONG\r\n");
}

#[test]
fn the_connection_that_has_been_idle_for_longest_is_evicted() {
    let server = Server::with(ListenerConfig { max_connections: 3, ..ListenerConfig::default() });
    let mut clients = vec![server.raw(), server.raw(), server.raw()];
    for client in &mut clients {
        client.send("HELLO 3\r\n");
        while client.line() != "modules" {}
        assert_eq!(client.line(), "*0");
    }
    // Half a command, in the oldest of them.
    clients[0].send("*1\r\n$4\r\nPI");
    let mut newcomer = server.raw();
    newcomer.send("PING\r\n");
    newcomer.expect("+PONG\r\n");
    assert_eq!(clients.remove(1).rest(), "");
    clients[0].send("NG\r\n");
    clients[0].expect("+PONG\r\n");
    // HELLO from before the idle time still applies: a null of RESP3.
    clients[1].send("CLIENT GETNAME\r\n");
    clients[1].expect("_\r\n");
}

#[test]
fn a_stopping_server_finishes_what_it_has_begun() {
    let mut server = Server::start();
    let (mut idle, mut busy) = (server.raw(), server.raw());
    idle.send("PING\r\n");
    idle.expect("+PONG\r\n");
    busy.send("*2\r\n$4\r\nECHO\r\n$5\r\n");
    // Answered by the same thread, so that the half command has been read too.
    assert_eq!(server.call("PING").text(), "PONG");
    assert_eq!(server.call("PING").text(), "PONG");

    server.stop();
    assert_eq!(idle.rest(), "");
    busy.send("hello\r\n");
    assert_eq!(busy.rest(), "$5\r\nhello\r\n");
    server.stopped();
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn a_drain_does_not_wait_for_ever() {
    let mut server =
        Server::with(ListenerConfig { drain_timeout: SHORT, ..ListenerConfig::default() });
    let mut stuck = server.raw();
    stuck.send("*1\r\n$4\r\n");
    assert_eq!(server.call("PING").text(), "PONG");
    assert_eq!(server.call("PING").text(), "PONG");
    server.stopped();
    assert_eq!(stuck.rest(), "");
}
