//! The proxy fails on demand.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tidegate_testkit::{Connection, Mode, Proxy, Redis, Reply, encode_command, wait_until};

struct Bench {
    redis: Redis,
    proxy: Proxy,
}

fn bench() -> Bench {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    Bench { redis, proxy }
}

fn connect(proxy: &Proxy) -> Connection {
    Connection::open(proxy.address(), Duration::from_millis(300)).unwrap()
}

fn pong() -> Reply {
    Reply::Simple("PONG".into())
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn it_forwards_and_counts() {
    let Bench { redis, proxy } = bench();
    let mut client = connect(&proxy);
    let large = "x".repeat(5 << 20);
    assert!(client.call(&["SET", "a", &large]).unwrap().is_ok());
    assert_eq!(client.call(&["GET", "a"]).unwrap(), Reply::bulk(&large));
    let sent = encode_command(&["SET", "a", &large]).len() + encode_command(&["GET", "a"]).len();
    assert_eq!(proxy.bytes_up(), sent as u64);
    assert_eq!(connect(&proxy).call(&["PING"]).unwrap(), pong());
    assert_eq!(proxy.connections(), 2);
    wait_until("one to leave", Duration::from_secs(5), || proxy.open_connections() == 1);
    redis.kill();
    assert!(client.call(&["PING"]).is_err());
    assert!(connect(&proxy).call(&["PING"]).is_err());
    redis.start_again();
    assert_eq!(connect(&proxy).call(&["PING"]).unwrap(), pong());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the delay is real")]
fn it_delays_each_reply_once() {
    let Bench { redis: _redis, proxy } = bench();
    let mut client = connect(&proxy);
    proxy.set_mode(Mode::Delay(Duration::from_millis(100)));
    let start = Instant::now();
    assert_eq!(client.call(&["PING"]).unwrap(), pong());
    assert!(start.elapsed() >= Duration::from_millis(100));
    let start = Instant::now();
    for _ in 0..10 {
        client.send(&["PING"]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..10 {
        assert_eq!(client.receive().unwrap(), pong());
    }
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
}

#[test]
fn it_swallows_everything_and_gives_it_back() {
    let Bench { redis, proxy } = bench();
    let mut client = connect(&proxy);
    client.call(&["PING"]).unwrap();
    proxy.set_mode(Mode::Blackhole);
    assert!(is_timeout(client.call(&["SET", "a", "1"]).unwrap_err().kind()));
    let mut late = connect(&proxy);
    assert!(is_timeout(late.call(&["PING"]).unwrap_err().kind()));
    assert_eq!(redis.command(&["GET", "a"]), Reply::Bulk(None));
    proxy.set_mode(Mode::Forward);
    assert!(client.receive().unwrap().is_ok());
    assert_eq!(late.receive().unwrap(), pong());
    proxy.set_mode(Mode::Blackhole);
}

#[test]
fn it_drops_replies_to_what_was_done() {
    let Bench { redis, proxy } = bench();
    let mut client = connect(&proxy);
    proxy.set_mode(Mode::DropReplies);
    assert!(is_timeout(client.call(&["INCR", "a"]).unwrap_err().kind()));
    assert_eq!(redis.command(&["GET", "a"]), Reply::bulk("1"));
    proxy.set_mode(Mode::Forward);
    assert_eq!(client.call(&["INCR", "a"]).unwrap(), Reply::Integer(2));
}

#[test]
fn it_resets_and_then_forwards() {
    let Bench { redis, proxy } = bench();
    let mut clients: Vec<_> = (0..20).map(|_| connect(&proxy)).collect();
    for client in &mut clients {
        client.call(&["PING"]).unwrap();
    }
    proxy.set_mode(Mode::Reset);
    assert_eq!(proxy.open_connections(), 0);
    for client in &mut clients {
        assert_eq!(client.receive().unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(connect(&proxy).call(&["PING"]).unwrap(), pong());
    let alone = || redis.info("clients")["connected_clients"] == "1";
    wait_until("the server to see it too", Duration::from_secs(5), alone);
}

#[test]
fn it_resets_one_that_does_not_read() {
    let Bench { redis, proxy } = bench();
    redis.command(&["SET", "a", &"x".repeat(50 << 20)]).or_panic();
    let mut client = connect(&proxy);
    client.send(&["GET", "a"]).unwrap();
    wait_until("the request to pass", Duration::from_secs(5), || proxy.bytes_up() > 0);
    proxy.set_mode(Mode::Reset);
    assert_eq!(proxy.open_connections(), 0);
    assert!(client.receive().is_err());
}

#[test]
fn it_refuses_new_ones_only() {
    let Bench { redis: _redis, proxy } = bench();
    let mut client = connect(&proxy);
    client.call(&["PING"]).unwrap();
    proxy.set_mode(Mode::Refuse);
    assert_eq!(client.call(&["PING"]).unwrap(), pong());
    let refused = connect(&proxy).call(&["PING"]).unwrap_err();
    assert!(!is_timeout(refused.kind()), "{refused}");
    assert_eq!(proxy.connections(), 2);
    proxy.set_mode(Mode::Forward);
    assert_eq!(connect(&proxy).call(&["PING"]).unwrap(), pong());
}

#[test]
fn it_answers_garbage_and_halves() {
    let Bench { redis: _redis, proxy } = bench();
    let mut client = connect(&proxy);
    proxy.set_mode(Mode::Garbage(b"?!\r\n".to_vec()));
    assert_eq!(client.call(&["PING"]).unwrap_err().kind(), ErrorKind::InvalidData);
    proxy.set_mode(Mode::Truncate(3));
    assert_eq!(client.call(&["PING"]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    proxy.set_mode(Mode::Forward);
    wait_until("the end", Duration::from_secs(5), || proxy.open_connections() == 0);
    assert_eq!(connect(&proxy).call(&["PING"]).unwrap(), pong());
}

#[test]
fn its_threads_end_with_it() {
    let Bench { redis, proxy } = bench();
    let mut clients: Vec<_> = (0..10).map(|_| connect(&proxy)).collect();
    for client in &mut clients {
        client.call(&["PING"]).unwrap();
    }
    proxy.set_mode(Mode::Blackhole);
    let address = proxy.address();
    drop(proxy);
    assert!(clients[0].call(&["PING"]).is_err());
    assert!(Connection::open(address, Duration::from_millis(300)).is_err());
    let alone = || redis.info("clients")["connected_clients"] == "1";
    wait_until("the server to see it too", Duration::from_secs(5), alone);
}

#[test]
fn it_freezes_open_connections_and_leads_new_ones_elsewhere() {
    let Bench { redis, proxy } = bench();
    let other = Redis::start();
    let mut frozen = connect(&proxy);
    assert_eq!(frozen.call(&["PING"]).unwrap(), pong());
    proxy.freeze();
    proxy.redirect(other.address());
    assert!(is_timeout(frozen.call(&["PING"]).unwrap_err().kind()));
    connect(&proxy).call(&["SET", "a", "1"]).unwrap().or_panic();
    assert_eq!(other.command(&["GET", "a"]), Reply::bulk("1"));
    assert_eq!(redis.command(&["EXISTS", "a"]).integer(), 0);
    proxy.set_mode(Mode::Reset);
    assert!(!is_timeout(frozen.call(&["PING"]).unwrap_err().kind()));
}
