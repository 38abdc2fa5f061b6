//! The fake Redis with scripted replies.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::ErrorKind;
use std::time::Duration;

use tidegate_testkit::{Connection, FakeRedis, Reply};

fn connect(fake: &FakeRedis) -> Connection {
    Connection::open(fake.address(), Duration::from_millis(300)).unwrap()
}

#[test]
fn it_answers_as_scripted_and_greets_by_itself() {
    let fake = FakeRedis::start(|command| match command[0].as_slice() {
        b"EVAL" => Some(b"-BUSY Redis is busy running a script\r\n".to_vec()),
        b"GET" => Some(Reply::bulk(&command[1]).to_bytes()),
        b"SILENCE" => Some(Vec::new()),
        _ => None,
    });
    let mut client = connect(&fake);
    assert!(client.call(&["EVAL", "x"]).unwrap().text().starts_with("BUSY "));
    assert_eq!(client.call(&["GET", "a\r\nb"]).unwrap(), Reply::bulk("a\r\nb"));
    assert_eq!(client.call(&["ping"]).unwrap(), Reply::Simple("PONG".into()));
    for words in [vec!["AUTH", "x"], vec!["SELECT", "1"], vec!["CLIENT", "SETNAME", "x"]] {
        assert!(client.call(&words).unwrap().is_ok());
    }
    assert!(client.call(&["WHAT"]).unwrap().text().starts_with("ERR unknown command 'WHAT'"));
    assert_eq!(client.call(&["HELLO"]).unwrap().items().len(), 14);
    assert!(client.call(&["SILENCE"]).is_err());
    assert_eq!(fake.seen().len(), 9);
    assert_eq!(fake.seen()[1], [b"GET".to_vec(), b"a\r\nb".to_vec()]);
}

#[test]
fn it_greets_in_resp3() {
    use std::io::{Read, Write};
    let fake = FakeRedis::start(|_| None);
    let mut stream = std::net::TcpStream::connect(fake.address()).unwrap();
    stream.write_all(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n").unwrap();
    let mut opening = [0; 18];
    stream.read_exact(&mut opening).unwrap();
    assert_eq!(&opening, b"%7\r\n$6\r\nserver\r\n$5");
}

#[test]
fn it_hangs_up() {
    let fake = FakeRedis::start(|_| None);
    let mut client = connect(&fake);
    client.call(&["PING"]).unwrap();
    fake.disconnect();
    assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(connect(&fake).call(&["PING"]).is_ok());
    let address = fake.address();
    drop(fake);
    assert!(Connection::open(address, Duration::from_millis(300)).is_err());
}

#[test]
#[should_panic(expected = "thread panicked")]
fn a_scripts_assertion_is_the_tests() {
    let fake = FakeRedis::start(|command| {
        assert_ne!(command[0], b"BAD");
        None
    });
    assert!(connect(&fake).call(&["BAD"]).is_err());
}
