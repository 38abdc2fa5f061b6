//! Bodies that nobody intended: questions with parts lost, doubled, swapped and overwritten.
//!
//! A short run with a fixed seed; `TIDEGATE_FUZZ_SECONDS=600` goes on for that long, from a seed
//! that it prints.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use support::Server;
use tokio::time::Instant;

const PATHS: [&str; 3] = ["/v1/check", "/v1/check/batch", "/v1/refund"];

const SEEDS: [&str; 8] = [
    r#"{"policy": "demo", "key": "alice", "cost": 1}"#,
    r#"{"attributes": {"key": "42", "path": "/a", "ip": "203.0.113.9"}, "cost": 0}"#,
    r#"{"checks": [{"policy": "demo", "key": "a"}, {"attributes": {"key": null}}, 7]}"#,
    r#"{"policy": "demo", "key": "a", "amount": 1000000000000000}"#,
    r#"{"key": "\u0000\ud83d\ude00\\\"", "policy": null, "cost": 18446744073709551616}"#,
    r#"{"attributes": {"": "", "a": "b", "a": "c"}, "cost": -1e-400}"#,
    r#"[[[[[[{"a": {"b": {"c": [1.5, true, false, null]}}}]]]]]]"#,
    "\u{feff}{\"checks\": []}",
];

/// What is put in at random places.
const PIECES: [&[u8]; 14] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\u",
    b"\xff\xfe",
    b"\0",
    b"1e999",
    b"null",
    b"\"key\":",
    b"-0.0",
];

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides.max(1) as u64).unwrap()
    }

    fn body(&mut self) -> Vec<u8> {
        let mut body = SEEDS[self.roll(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..=self.roll(6) {
            self.spoil(&mut body);
        }
        body.truncate(60_000);
        body
    }

    fn spoil(&mut self, body: &mut Vec<u8>) {
        let (from, to) = (self.roll(body.len() + 1), self.roll(body.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match self.roll(6) {
            0 => drop(body.drain(from..to)),
            1 => {
                let copy = body[from..to].repeat(1 + self.roll(3));
                body.splice(to..to, copy);
            }
            2 => body.truncate(to),
            3 => {
                let piece = PIECES[self.roll(PIECES.len())].repeat(1 + self.roll(200));
                body.splice(from..from, piece);
            }
            4 => {
                let other = SEEDS[self.roll(SEEDS.len())];
                body.splice(from..to, other.bytes());
            }
            _ => {
                if let Some(byte) = body.get_mut(from) {
                    *byte = self.roll(256) as u8;
                }
            }
        }
    }
}

#[tokio::test]
async fn no_body_breaks_the_server() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let beginning = match seconds {
        None => 0x7469_6465_6761_7465,
        Some(_) => u64::from(std::process::id()) << 20 | 1,
    };
    println!("beginning with {beginning}");
    let mut dice = Dice(beginning);
    let mut count = 0;
    while count < 5_000 || Instant::now() < until {
        let (path, body) = (PATHS[dice.roll(PATHS.len())], dice.body());
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        client.send_bytes(&[head.as_bytes(), &body].concat()).await;
        let reply = client.reply().await;
        let shown = String::from_utf8_lossy(&body);
        assert!(matches!(reply.status, 200 | 400 | 404 | 429), "{path} {shown}: {reply:?}");
        // Whatever came in, JSON goes out, and a refusal is short.
        let answer = reply.json();
        assert!(answer.is_object(), "{path} {shown}: {reply:?}");
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(reply.status == 200 || !detail.is_empty() && detail.len() < 1_000, "{shown}");
        count += 1;
    }
    println!("{count} bodies");
}
