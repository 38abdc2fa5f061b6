//! Checks that clients cannot make a real gateway hold more memory than SECURITY.md says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{Server, serve};
use tidegate_testkit::{Scratch, wait_until};

/// A sample on the page of metrics, by the beginning of its line.
fn value(server: &Server, sample: &str) -> u64 {
    let page = server.get("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(sample));
    let text = line.unwrap_or_else(|| panic!("no {sample} in {page}"));
    text.rsplit(' ').next().unwrap().parse().unwrap()
}

fn resident(server: &Server) -> u64 {
    value(server, "process_resident_memory_bytes")
}

fn gateway(upstream: SocketAddr, flags: &[&str]) -> Server {
    let scratch = Scratch::new();
    let file = scratch.write(
        "limits.yaml",
        &format!(
            "gateway: {{ upstreams: {{ all: 'http://{upstream}' }} }}\n\
             policies: [{{ name: many, key: [ip], limits: [1000000/minute] }}]"
        ),
    );
    let file = file.to_str().unwrap();
    let common = ["--config", file, "--gateway", "127.0.0.1:0", "--workers", "1"];
    serve(&[&common[..], flags].concat())
}

fn place(server: &Server) -> SocketAddr {
    let said = server.greeting.iter().find(|line| line.contains("gateway")).unwrap();
    let at = said.split("http://").nth(1).unwrap();
    at.split([' ', ',']).next().unwrap().parse().unwrap()
}

/// Half a head of almost 16 KiB, as large as one may be.
fn half_a_head() -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nhost: a\r\n".to_vec();
    for number in 0..15 {
        head.extend(format!("x-{number}: {}\r\n", "x".repeat(1_024)).bytes());
    }
    head
}

/// As many as a process may usually open. `TIDEGATE_HALF_HEADS=10000` needs a higher limit.
fn half_heads() -> u64 {
    std::env::var("TIDEGATE_HALF_HEADS").map_or(700, |count| count.parse().unwrap())
}

#[test]
fn attack_13_half_heads_take_little_memory() {
    const EACH: u64 = 80 << 10;
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (count, head) = (half_heads(), half_a_head());
    let seats = (count * 2).to_string();
    let server = gateway(nowhere, &["--max-connections", &seats, "--header-timeout", "10m"]);
    let (place, before) = (place(&server), resident(&server));
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = TcpStream::connect(place).unwrap();
        client.write_all(&head).unwrap();
        clients.push(client);
    }
    let seated = format!("tidegate_connections{{listener=\"{place}\"}}");
    wait_until("all to have seats", Duration::from_secs(60), || value(&server, &seated) == count);
    let mut last = 0;
    wait_until("all to be heard", Duration::from_secs(60), || {
        std::mem::replace(&mut last, resident(&server)) == last
    });
    let grown = last.saturating_sub(before);
    assert!(grown < count * EACH, "{} bytes each", grown / count);
    assert!(grown > count * head.len() as u64, "{} bytes each: not heard", grown / count);
}

/// A service that answers every connection with a megabyte.
fn service(requests: &Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (place, requests) = (listener.local_addr().unwrap(), Arc::clone(requests));
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let requests = Arc::clone(&requests);
            std::thread::spawn(move || {
                let _ = client.read(&mut [0; 4_096]);
                let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n\r\n");
                requests.fetch_add(1, Ordering::SeqCst);
                let _ = client.write_all(&vec![b'x'; 1 << 20]);
            });
        }
    });
    place
}

#[test]
fn attack_13_answers_over_http2_that_nobody_reads_take_little_memory() {
    const STREAMS: usize = 200;
    let requests = Arc::new(AtomicUsize::new(0));
    let server = gateway(service(&requests), &[]);
    let (place, before) = (place(&server), resident(&server));
    let mut client = TcpStream::connect(place).unwrap();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Windows as large as they can be, for every stream and for the connection.
    said.extend(b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff");
    said.extend(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0");
    for stream in 0..STREAMS {
        let number = u32::try_from(stream * 2 + 1).unwrap().to_be_bytes();
        said.extend(b"\0\0\x09\x01\x05");
        said.extend(number);
        said.extend(b"\x82\x86\x84\x01\x04test");
    }
    client.write_all(&said).unwrap();
    wait_until("all to be answered", Duration::from_secs(60), || {
        requests.load(Ordering::SeqCst) == STREAMS
    });
    let (mut last, mut calm) = (0, 0);
    wait_until("nothing to move", Duration::from_secs(60), || {
        let now = resident(&server);
        calm = if now == last { calm + 1 } else { 0 };
        last = now;
        calm > 20
    });
    let grown = last.saturating_sub(before);
    assert!(grown < 28 << 20, "{} KiB", grown >> 10);
    let buffered = value(&server, "tidegate_gateway_buffered_bytes");
    assert!((1 << 20..10 << 20).contains(&buffered), "{buffered}");
    drop(client);
    wait_until("it to be given back", Duration::from_secs(60), || {
        value(&server, "tidegate_gateway_buffered_bytes") == 0
    });
}
