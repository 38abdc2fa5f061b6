//! The part of the Redis protocol that a client needs if it knows the answers.

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::{self, KEY, Requests};

/// The command that a client sends.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// The command, with `KEY` where the key is.
    pub(super) command: &'static str,
    pub(super) keys: u32,
    pub(super) depth: usize,
}

impl load::Load for Load {
    type Client = Client;
    const CLIENTS: u32 = 50;

    fn client(&self, stream: TcpStream) -> Client {
        let (lines, says_denied): (_, &[u8]) = match self.command {
            "PING" => (1, b"-"),
            command if command.starts_with("RL.") => (8, b"*6\r\n:0"),
            // redis-cell answers whether it limits, throttlecrab whether it allows.
            command if command.starts_with("CL.") => (6, b"*5\r\n:1"),
            _ => (6, b"*5\r\n:0"),
        };
        Client {
            stream,
            requests: Requests::new(&self.request(), self.depth),
            input: vec![0; 64 << 10],
            lines: lines * self.depth,
            says_denied,
        }
    }

    fn keys(&self) -> u32 {
        self.keys
    }

    fn depth(&self) -> usize {
        self.depth
    }
}

impl Load {
    fn request(&self) -> Vec<u8> {
        let words: Vec<&str> = self.command.split(' ').collect();
        let mut request = format!("*{}\r\n", words.len());
        for word in &words {
            let word = if *word == "KEY" { KEY } else { word };
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        request.into_bytes()
    }
}

/// Sends commands and counts lines.
pub(super) struct Client {
    stream: TcpStream,
    requests: Requests,
    input: Vec<u8>,
    /// For all answers together.
    lines: usize,
    says_denied: &'static [u8],
}

impl load::Client for Client {
    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    async fn round_trip(&mut self) -> anyhow::Result<bool> {
        self.stream.write_all(&self.requests.bytes).await?;
        let (mut left, mut denied) = (self.lines, None);
        while left > 0 {
            let read = self.stream.read(&mut self.input).await?;
            let input = self.input.get(..read).context("what was read")?;
            if read == 0 || input.first() == Some(&b'-') {
                bail!("{}", String::from_utf8_lossy(input));
            }
            denied.get_or_insert(input.starts_with(self.says_denied));
            let lines = input.iter().filter(|byte| **byte == b'\n').count();
            left = left.checked_sub(lines).context("more answers than commands")?;
        }
        Ok(denied == Some(true))
    }
}
