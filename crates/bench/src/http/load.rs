//! The part of HTTP/1.1 that a client needs if every answer has a `content-length`.

use anyhow::{Context, bail};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::{self, KEY, Requests};

/// The requests that a client sends.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) path: &'static str,
    /// The body, with `KEY` where the key is.
    pub(super) body: &'static str,
    pub(super) keys: u32,
    pub(super) depth: usize,
}

impl load::Load for Load {
    type Client = Client;
    const CLIENTS: u32 = 64;

    fn client(&self, stream: TcpStream) -> Client {
        let body = self.body.replace("KEY", KEY);
        let (path, length) = (self.path, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        Client {
            stream,
            requests: Requests::new(request.as_bytes(), self.depth),
            input: vec![0; 64 << 10],
            depth: self.depth,
        }
    }

    fn keys(&self) -> u32 {
        self.keys
    }

    fn depth(&self) -> usize {
        self.depth
    }
}

/// Sends requests and counts answers.
pub(super) struct Client {
    stream: TcpStream,
    requests: Requests,
    input: Vec<u8>,
    depth: usize,
}

impl load::Client for Client {
    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    async fn round_trip(&mut self) -> anyhow::Result<bool> {
        self.stream.write_all(&self.requests.bytes).await?;
        let (mut left, mut length, mut denied) = (self.depth, 0, None);
        while left > 0 {
            let read = self.stream.read(&mut self.input[length..]).await?;
            length += read;
            let mut input = self.input.get(..length).context("what was read")?;
            if read == 0 {
                bail!(
                    "the server closed the connection after {:?}",
                    String::from_utf8_lossy(input)
                );
            }
            while let Some((answer, rest)) = answer(input)? {
                left = left.checked_sub(1).context("more answers than requests")?;
                denied.get_or_insert_with(|| memmem::find(answer, DENIED).is_some());
                input = rest;
            }
            let taken = length - input.len();
            self.input.copy_within(taken..length, 0);
            length -= taken;
        }
        Ok(denied == Some(true))
    }
}

/// The first answer, once it is complete, and the rest.
fn answer(input: &[u8]) -> anyhow::Result<Option<(&[u8], &[u8])>> {
    let Some(end) = memmem::find(input, b"\r\n\r\n") else { return Ok(None) };
    let head = &input[..end];
    if !head.starts_with(b"HTTP/1.1 200") && !head.starts_with(b"HTTP/1.1 429") {
        bail!("{}", String::from_utf8_lossy(input));
    }
    let length = memmem::find(head, LENGTH).context("an answer without a length")? + LENGTH.len();
    let digits = head[length..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    Ok(input.split_at_checked(end + 4 + length))
}

const LENGTH: &[u8] = b"\r\ncontent-length: ";
/// In our answers, and in throttlecrab's.
const DENIED: &[u8] = br#""allowed":false"#;
