//! Properties of any RESP input: nothing panics, memory stays bounded, and the output is valid RESP.

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
use super::{RespListenerContext, RespOptions, connection};
use crate::net::seats::Seat;
use crate::{App, ClientRights, ListenerConfig};

const PLAN: &str = "
policies:
  - { name: demo, key: [key], limits: [10/minute] }
  - { name: login, key: [ip, user], limits: [5/minute], block_for: 1m }
";

/// A connection that receives these bytes sends only complete replies, and needs little memory.
pub(crate) fn connection(input: &[u8]) {
    thread_local! {
        static SERVER: (Runtime, Arc<RespListenerContext<MemoryStore>>) = server();
    }
    SERVER.with(|(runtime, context)| {
        stays_small(input, context);
        let output = runtime.block_on(talk(context, input));
        assert!(is_resp(&output), "answered by {}", output.escape_ascii());
    });
}

fn server() -> (Runtime, Arc<RespListenerContext<MemoryStore>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let app = App::load(
        &PolicySource::new("fuzz", PLAN).unwrap(),
        MemoryStore::builder().max_keys(10_000).build(),
    )
    .unwrap()
    .with_rights(ClientRights::ALL);
    let config =
        ListenerConfig { max_body: 4 << 10, max_head: 1 << 10, ..ListenerConfig::default() };
    (runtime, Arc::new(RespListenerContext::new(Arc::new(app), config, RespOptions::default())))
}

/// Sends the input in pieces, and returns the output.
async fn talk(context: &Arc<RespListenerContext<MemoryStore>>, input: &[u8]) -> Vec<u8> {
    let (client, server) = duplex(1 << 10);
    let (_open, closing) = watch::channel(false);
    let connection =
        tokio::spawn(connection::serve(server, None, Arc::clone(context), Seat::alone(closing)));
    let (mut reader, mut writer) = split(client);
    // Derived from the input, so that a failure can be reproduced.
    let size = 1 + input.len().wrapping_mul(31) % 399;
    let send = async move {
        for piece in input.chunks(size) {
            // The server may have closed the connection by now.
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

/// The memory for incomplete commands is bounded.
fn stays_small(input: &[u8], context: &RespListenerContext<MemoryStore>) {
    let mut buffer = RespInputBuffer::of(b"");
    for piece in input.chunks(100) {
        buffer.put(piece);
        let mut decoder = RespDecoder::new(buffer.bytes(), context.bounds);
        loop {
            match decoder.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let taken = decoder.taken();
        buffer.take(taken);
        // A command with the framing of its words.
        let most = context.bounds.bytes + context.bounds.words * 16;
        assert!(buffer.bytes().len() <= most, "{}", buffer.bytes().len());
        assert!(buffer.capacity() <= 4 * most, "{}", buffer.capacity());
    }
}

/// Whether the bytes are complete replies.
fn is_resp(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match reply(bytes) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    true
}

/// The bytes after the first reply.
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
