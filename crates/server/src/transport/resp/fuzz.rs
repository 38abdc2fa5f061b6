//! Whatever comes in: nothing panics, memory stays bounded, and what goes out is RESP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use std::sync::Arc;

use tidegate::MemoryStore;
use tidegate::config::PolicySource;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::decoder::RespDecoder;
use super::stream::RespInputBuffer;
use super::{RespListenerContext, connection};
use crate::seats::Seat;
use crate::{App, ClientRights, ListenerConfig};

const PLAN: &str = "
policies:
  - { name: demo, key: [key], limits: [10/minute] }
  - { name: login, key: [ip, user], limits: [5/minute], block_for: 1m }
";

/// A connection on which these bytes arrive is answered with whole replies, and needs little memory.
pub(crate) fn connection(input: &[u8]) {
    thread_local! {
        static SERVER: (Runtime, Arc<RespListenerContext<MemoryStore>>) = server();
    }
    SERVER.with(|(runtime, door)| {
        stays_small(input, door);
        let output = runtime.block_on(talk(door, input));
        assert!(is_resp(&output), "answered by {}", output.escape_ascii());
    });
}

fn server() -> (Runtime, Arc<RespListenerContext<MemoryStore>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let app = App::load(
        &PolicySource::new("fuzz", PLAN).unwrap(),
        MemoryStore::builder().max_keys(10_000).build(),
    )
    .unwrap();
    let config = ListenerConfig {
        max_body: 4 << 10,
        max_head: 1 << 10,
        rights: ClientRights::ALL,
        ..ListenerConfig::default()
    };
    (runtime, Arc::new(RespListenerContext::new(Arc::new(app), config)))
}

/// Sends it in pieces, and takes whatever is answered.
async fn talk(door: &Arc<RespListenerContext<MemoryStore>>, input: &[u8]) -> Vec<u8> {
    let (client, server) = duplex(1 << 10);
    let (_open, closing) = watch::channel(false);
    let connection =
        tokio::spawn(connection::serve(server, None, Arc::clone(door), Seat::alone(closing)));
    let (mut reader, mut writer) = split(client);
    // Of any size, and always of the same for the same input.
    let size = 1 + input.len().wrapping_mul(31) % 399;
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
fn stays_small(input: &[u8], door: &RespListenerContext<MemoryStore>) {
    let mut inbox = RespInputBuffer::of(b"");
    for piece in input.chunks(100) {
        inbox.put(piece);
        let mut decoder = RespDecoder::new(inbox.bytes(), door.bounds);
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
