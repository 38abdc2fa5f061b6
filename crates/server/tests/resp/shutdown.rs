//! How connections end when the server stops: no answer is lost, and no connection is reset.

use std::io::{ErrorKind, Read, Write};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use tidegate_server::ListenerConfig;

use crate::support::Server;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Clients that send the next command as soon as they have the answer to the last: each command is
/// answered, or the connection ends as if nothing had been sent. None is reset.
#[test]
fn busy_clients_are_answered_or_see_the_end() {
    for _ in 0..5 {
        let mut server = Server::start();
        let started = Arc::new(Barrier::new(CLIENTS + 1));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (mut client, started) = (server.raw(), Arc::clone(&started));
                thread::spawn(move || {
                    let mut answers = 0;
                    loop {
                        client.0.write_all(PING)?;
                        let mut answer = [0; PONG.len()];
                        match client.0.read_exact(&mut answer) {
                            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                            other => other?,
                        }
                        answers += 1;
                        if answers == 20 {
                            started.wait();
                        }
                    }
                    std::io::Result::Ok(())
                })
            })
            .collect();
        started.wait();
        server.stopped();
        for client in clients {
            client.join().unwrap().expect("an answer or the end");
        }
    }
}

/// Commands before QUIT are answered, and commands after it are not, however many there are.
#[test]
fn a_slow_reader_gets_all_answers_before_the_end() {
    const ANSWERS: usize = 30_000;
    let server = Server::start();
    let mut client = server.raw();
    SockRef::from(&client.0).set_recv_buffer_size(64 << 10).unwrap();
    let mut writer = client.0.try_clone().unwrap();
    let writing = thread::spawn(move || {
        writer.write_all(&PING.repeat(ANSWERS)).unwrap();
        writer.write_all(b"QUIT\r\n").unwrap();
        // Several megabytes that the server discards.
        writer.write_all(&PING.repeat(10 * ANSWERS)).unwrap();
    });
    let (mut heard, mut part) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        match client.0.read(&mut part).unwrap() {
            0 => break,
            length => heard.extend_from_slice(&part[..length]),
        }
        // Slower than the server discards.
        thread::park_timeout(Duration::from_millis(1));
    }
    writing.join().unwrap();
    assert!(heard == [&PONG.repeat(ANSWERS)[..], b"+OK\r\n"].concat(), "{} bytes", heard.len());
}

/// When the server closes, it waits for the end of a half command, but not for further ones.
#[test]
fn halves_of_commands_do_not_keep_a_server_open() {
    let drain_timeout = Duration::from_secs(3_600);
    let mut server = Server::with(ListenerConfig { drain_timeout, ..ListenerConfig::default() });
    let mut client = server.raw();
    client.send(&PING[..5]);
    server.stop();
    let again = [&PING[5..], &PING[..5]].concat();
    let mut answer = [0; PONG.len()];
    for answers in 0.. {
        if client.0.write_all(&again).is_err() || client.0.read_exact(&mut answer).is_err() {
            break;
        }
        assert!(answers < 200_000, "it never ends");
    }
}

const CLIENTS: usize = 20;
