//! Mutated messages: each is answered, and none with a panic.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use prost::Message;
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitOverride};

use super::support::{METHOD, Server, entry, frame, framed, hits, refund, request};

const FILE: &str = "
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: path, value: /api*, rate_limit: { unit: day, requests_per_unit: 7 } }
";

/// Set `TIDEGATE_FUZZ_SECONDS` to go on for longer, with another seed each time.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "how long a search takes is no decision")]
async fn whatever_is_sent_is_answered() {
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let mut random = Rng::with_seed(if seconds.is_some() { fastrand::u64(..) } else { 7 });
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or_default());
    eprintln!("seed {}", random.get_seed());
    let server = Server::start(FILE).await;
    let client = server.connect().await;
    let seeds = seeds();
    let mut sent = 0;
    while sent < 3_000 || Instant::now() < end {
        let body = mutated(&seeds, &mut random);
        let reply = client.call(METHOD, body.clone()).await;
        let code = reply.code();
        assert_eq!(reply.http, 200, "{body:?}");
        assert!(matches!(code, 0 | 12), "{code} for {body:?}");
        sent += 1;
    }
    client.ask(&request([entry("user", "alice")])).await;
}

fn seeds() -> Vec<Vec<u8>> {
    let own = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 5, unit: 2 }),
        ..entry("user", "alice")
    };
    let requests = [
        request([entry("user", "alice"), entry("path", "/api/x")]),
        request([hits(entry("user", "alice"), 0), refund(entry("path", "/api"), 3)]),
        request([own, RateLimitDescriptor::new([("a", "b"), ("c", "d"), ("e", "f")])]),
        request(vec![entry("user", "x"); 32]),
    ];
    requests.iter().map(Message::encode_to_vec).collect()
}

fn mutated(seeds: &[Vec<u8>], random: &mut Rng) -> Bytes {
    let mut message = seeds[random.usize(..seeds.len())].clone();
    for _ in 0..random.usize(1..8) {
        let at = random.usize(..=message.len());
        match random.u8(..6) {
            0 if at < message.len() => message[at] = random.u8(..),
            1 if at < message.len() => message[at] ^= 1 << random.u8(..8),
            2 => message.truncate(at),
            3 => message.insert(at, random.u8(..)),
            4 => {
                // Numbers that lengths and tags do not expect.
                let large = [0xff, 0xff, 0xff, 0xff, 0x0f];
                message.splice(at..at, large);
            }
            _ => {
                let other = &seeds[random.usize(..seeds.len())];
                let from = random.usize(..other.len());
                message.extend_from_slice(&other[from..]);
            }
        }
    }
    if random.u8(..20) == 0 {
        let mut bytes = framed(&request([entry("user", "alice")])).to_vec();
        let at = random.usize(..5);
        bytes[at] = random.u8(..);
        return bytes.into();
    }
    frame(0, &message)
}
