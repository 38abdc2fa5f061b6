//! Large bodies: unchanged, and never held as a whole. `TIDEGATE_LONG=1` sends a gigabyte.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use ring::digest::{Context, SHA256};
use support::Front;
use support::echo::Echo;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

fn size() -> usize {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 1 << 30 } else { 64 << 20 }
}

/// The peak memory of this process, in bytes.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let kilobytes = line.split_whitespace().nth(1).and_then(|it| it.parse::<usize>().ok());
    kilobytes.unwrap_or_default() << 10
}

/// Bytes that differ from block to block.
fn block(number: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut block = vec![0; BLOCK];
    random.fill(&mut block);
    block
}

const BLOCK: usize = 64 << 10;

/// Sends a body and reads the echo at the same time. Returns whether it is unchanged.
async fn there_and_back(front: &Front, size: usize, is_chunked: bool) -> bool {
    let (read, mut write) = TcpStream::connect(front.address).await.unwrap().into_split();
    let sending = tokio::spawn(async move {
        let framing = match is_chunked {
            true => "transfer-encoding: chunked".to_owned(),
            false => format!("content-length: {size}"),
        };
        let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n");
        write.write_all(head.as_bytes()).await.unwrap();
        let mut hash = Context::new(&SHA256);
        for number in 0..size / BLOCK {
            let block = block(number);
            hash.update(&block);
            if is_chunked {
                write.write_all(format!("{BLOCK:x}\r\n").as_bytes()).await.unwrap();
            }
            write.write_all(&block).await.unwrap();
            if is_chunked {
                write.write_all(b"\r\n").await.unwrap();
            }
        }
        if is_chunked {
            write.write_all(b"0\r\n\r\n").await.unwrap();
        }
        (hash.finish(), write)
    });
    let mut read = BufReader::with_capacity(BLOCK, read);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        read.read_line(&mut line).await.unwrap();
    }
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; BLOCK];
    let mut left = size;
    loop {
        let mut chunk = if is_chunked { 0 } else { left };
        if is_chunked {
            line.clear();
            read.read_line(&mut line).await.unwrap();
            chunk = usize::from_str_radix(line.trim_end(), 16).unwrap();
        }
        if chunk == 0 {
            break;
        }
        left -= chunk;
        while chunk > 0 {
            let count = chunk.min(BLOCK);
            read.read_exact(&mut buffer[..count]).await.unwrap();
            hash.update(&buffer[..count]);
            chunk -= count;
        }
        if is_chunked {
            read.read_exact(&mut buffer[..2]).await.unwrap();
        }
    }
    let (sent, _write) = sending.await.unwrap();
    left == 0 && sent.as_ref() == hash.finish().as_ref()
}

#[tokio::test]
async fn large_bodies_pass_unchanged_and_cost_no_memory() {
    let (h1, h2) = (Echo::start().await, Echo::h2().await);
    let over_h2 =
        format!("gateway: {{ upstreams: {{ up: h2c://{} }} }}\n{}", h2.address, support::GENEROUS);
    let fronts = [Front::to(h1.address).await, Front::start(&over_h2).await];
    // The buffers have reached their final size now.
    for front in &fronts {
        assert!(there_and_back(front, 4 << 20, false).await);
    }
    let before = most_memory();
    for front in &fronts {
        for is_chunked in [false, true] {
            assert!(there_and_back(front, size(), is_chunked).await, "chunked: {is_chunked}");
        }
    }
    let grown = most_memory() - before;
    assert!(grown < 24 << 20, "{grown} bytes more for bodies of {}", size());
}
