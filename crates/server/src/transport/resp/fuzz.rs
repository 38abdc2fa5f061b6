//! Whatever comes in: nothing panics, memory stays bounded, and what goes out is RESP.
//!
//! A short run with fixed seeds is part of the test suite;
//! `TIDEGATE_FUZZ_SECONDS=600 cargo test -p tidegate-server fuzz` is a long one.

use std::sync::Arc;
use std::time::Duration;

use tidegate::MemoryStore;
use tidegate::config::Source;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::sync::watch;
use tokio::time::Instant;

use super::decode::Decoder;
use super::line::Inbox;
use super::{Door, connection};
use crate::room::Seat;
use crate::{App, Config, Rights};

const PLAN: &str = "
policies:
  - { name: demo, key: [key], limits: [10/minute] }
  - { name: login, key: [ip, user], limits: [5/minute], block_for: 1m }
";

/// What mutations start from.
const SEEDS: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*5\r\n$11\r\nCL.THROTTLE\r\n$5\r\nalice\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
    b"*6\r\n$11\r\ncl.throttle\r\n$1\r\n\0\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n0\r\n",
    b"*3\r\n$8\r\nRL.CHECK\r\n$4\r\ndemo\r\n$5\r\nalice\r\n",
    b"RL.CHECK login ip=203.0.113.9 user=alice COST 3\r\nRL.PEEK login user=alice ip=::1\r\n",
    b"ECHO \"\\xff \\\"\\n\" 'it\\'s'\r\n",
    b"RL.REFUND demo alice 1\r\nRL.RESET demo alice\r\nRL.CHECK demo alice 99\r\n",
    b"*6\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$0\r\n\r\n$3\r\nx y\r\n",
    b"HELLO 3 SETNAME a\r\nINFO\r\nCOMMAND\r\nCOMMAND DOCS\r\nCOMMAND INFO ping nope\r\n",
    b"CLIENT SETNAME x\r\nCLIENT LIST\r\nCLIENT SETINFO LIB-NAME y\r\nCLIENT GETNAME\r\n",
    b"AUTH x\r\nAUTH default x\r\nSELECT 0\r\nSELECT 1\r\nCONFIG GET *\r\nRESET\r\nECHO 'a b'\r\n",
    b"*0\r\n*-1\r\n\r\n*1\r\n$-1\r\n",
    b"*2147483647\r\n$2147483647\r\n",
    b"QUIT\r\nPING\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
];

#[test]
fn hostile_bytes_do_no_harm() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|it| it.parse().ok());
    runtime.block_on(async {
        let app = App::load(&Source::new("fuzz", PLAN).unwrap(), MemoryStore::new()).unwrap();
        let config = Config {
            max_body: 4 << 10,
            max_head: 1 << 10,
            rights: Rights::ALL,
            ..Config::default()
        };
        let door = Arc::new(Door::new(Arc::new(app), config));
        let started = Instant::now();
        let goes_on = |round: u64| match seconds {
            Some(seconds) => started.elapsed() < Duration::from_secs(seconds),
            None => round < 4_000,
        };
        for round in (0..).take_while(|round| goes_on(*round)) {
            let mut random = fastrand::Rng::with_seed(round);
            let input = hostile(&mut random);
            stays_small(&input, &door);
            let output = talk(&door, &input, &mut random).await;
            let shown = || (input.escape_ascii().to_string(), output.escape_ascii().to_string());
            assert!(is_resp(&output), "{round}: {:?}", shown());
        }
    });
}

/// Some seeds in a row, with some bytes changed, lost, repeated or made up.
fn hostile(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.usize(1..6) {
        // What comes again is read in another way.
        let times = if random.bool() { 1 } else { random.usize(1..80) };
        bytes.extend(SEEDS[random.usize(..SEEDS.len())].repeat(times));
    }
    for _ in 0..random.usize(..8) {
        let at = random.usize(..=bytes.len());
        let end = (at + random.usize(..16)).min(bytes.len());
        match random.u8(..6) {
            0 if at < bytes.len() => bytes[at] = random.u8(..),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part.repeat(random.usize(1..200)));
            }
            3 => bytes.insert(at, *random.choice(b"*$\r\n-0919\"' \\").unwrap_or(&b'*')),
            4 => drop(bytes.splice(at..at, random.i64(..).to_string().into_bytes())),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Sends it in pieces, and takes whatever is answered.
async fn talk(door: &Arc<Door<MemoryStore>>, input: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let (client, server) = duplex(1 << 10);
    let (_open, closing) = watch::channel(false);
    let connection =
        tokio::spawn(connection::serve(server, None, Arc::clone(door), Seat::alone(closing)));
    let (mut reader, mut writer) = split(client);
    let size = random.usize(1..400);
    let send = async move {
        for piece in input.chunks(size) {
            // It may have hung up on us by now.
            if writer.write_all(piece).await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
    };
    let mut output = Vec::new();
    let (received, ()) = tokio::join!(reader.read_to_end(&mut output), send);
    received.unwrap();
    connection.await.expect("no panic");
    output
}

/// What is kept of incomplete commands is bounded.
fn stays_small(input: &[u8], door: &Door<MemoryStore>) {
    let mut inbox = Inbox::of(b"");
    for piece in input.chunks(100) {
        inbox.put(piece);
        let mut decoder = Decoder::new(inbox.bytes(), door.bounds);
        loop {
            match decoder.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let taken = decoder.taken();
        inbox.take(taken);
        // A command, what is around its words, and what is read at once.
        let most = door.bounds.bytes + door.bounds.words * 16;
        assert!(inbox.bytes().len() <= most, "{}", inbox.bytes().len());
        assert!(inbox.capacity() <= 4 * most, "{}", inbox.capacity());
    }
}

/// Whether bytes are whole replies.
fn is_resp(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match reply(bytes) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    true
}

/// What comes after a reply.
fn reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&bytes[1..end], &bytes[end + 2..]);
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let items = |count: i64| (0..count).try_fold(rest, |rest, _| reply(rest));
    match bytes[0] {
        b'+' | b'-' if line.iter().all(|byte| !byte.is_ascii_control()) => Some(rest),
        b':' => number().map(|_| rest),
        b'_' if line.is_empty() => Some(rest),
        b'$' if line == b"-1" => Some(rest),
        b'$' | b'=' => rest.get(usize::try_from(number()?).ok()?..)?.strip_prefix(b"\r\n"),
        b'*' => items(number()?),
        b'%' => items(number()? * 2),
        _ => None,
    }
}
