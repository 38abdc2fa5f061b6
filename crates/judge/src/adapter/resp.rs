//! Limiters behind the Redis protocol.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{AdapterError, CallAnswer, filled};
use crate::history::StatedWait;

/// A command with `{key}` and `{cost}` among its words, and where it is sent.
#[derive(Clone, Debug)]
pub struct RespTemplate {
    address: String,
    words: Vec<String>,
    layout: ReplyLayout,
}

/// Where a reply says what.
#[derive(Clone, Copy, Debug)]
struct ReplyLayout {
    name: &'static str,
    /// The first number of a call that was admitted.
    admitted: i64,
    /// The place of the wait.
    wait: usize,
    /// Its unit, in microseconds.
    unit: i64,
}

const LAYOUTS: [ReplyLayout; 3] = [
    ReplyLayout { name: "CL.THROTTLE", admitted: 0, wait: 3, unit: 1_000_000 },
    ReplyLayout { name: "THROTTLE", admitted: 1, wait: 4, unit: 1_000_000 },
    ReplyLayout { name: "RL.CHECK", admitted: 1, wait: 3, unit: 1_000 },
];

impl RespTemplate {
    /// `CL.THROTTLE {key} 15 30 60 {cost}`, `THROTTLE` in the same way, or `RL.CHECK policy {key} {cost}`.
    ///
    /// # Errors
    ///
    /// [`AdapterError::Answer`] for a command whose reply is not known.
    pub fn new(address: &str, command: &str) -> Result<Self, AdapterError> {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let layout = LAYOUTS.into_iter().find(|layout| layout.name == name).ok_or_else(|| {
            let names = LAYOUTS.map(|layout| layout.name).join(", ");
            AdapterError::answer(format!("unknown command {name:?}; expected one of {names}"))
        })?;
        Ok(Self { address: address.to_owned(), words, layout })
    }

    fn bytes(&self, key: &str, cost: u64) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", self.words.len());
        for word in self.words.iter().map(|word| filled(word, key, cost)) {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        bytes.into_bytes()
    }

    fn answer(&self, numbers: &[i64]) -> Result<CallAnswer, AdapterError> {
        let number = |place: usize| numbers.get(place).copied();
        let (Some(first), Some(left)) = (number(0), number(2)) else {
            return Err(AdapterError::answer(format!("unexpected reply: {numbers:?}")));
        };
        let allowed = first == self.layout.admitted;
        let wait = number(self.layout.wait).filter(|wait| !allowed && *wait >= 0);
        let unit = self.layout.unit;
        Ok(CallAnswer {
            allowed,
            remaining: u64::try_from(left).ok(),
            retry_after: wait
                .map(|wait| StatedWait { micros: wait.saturating_mul(unit), rounding: unit }),
        })
    }
}

/// A connection of its own for each caller.
#[derive(Debug)]
pub(crate) struct RespLink {
    command: Arc<RespTemplate>,
    stream: BufReader<TcpStream>,
}

impl RespLink {
    pub(super) async fn open(command: Arc<RespTemplate>) -> Result<Self, AdapterError> {
        let stream = TcpStream::connect(&command.address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { command, stream: BufReader::new(stream) })
    }

    pub(super) async fn call(&mut self, key: &str, cost: u64) -> Result<CallAnswer, AdapterError> {
        self.stream.write_all(&self.command.bytes(key, cost)).await?;
        let header = self.line().await?;
        let Some(count) = header.strip_prefix('*').and_then(|count| count.parse().ok()) else {
            return Err(AdapterError::answer(header));
        };
        let mut numbers = Vec::new();
        for _ in 0..count {
            let item = self.line().await?;
            match item.split_at_checked(1) {
                Some((":", number)) => numbers.extend(number.parse::<i64>()),
                Some(("$", length)) => {
                    // A text, such as the reason of RL.CHECK, with its line end.
                    let length = length.parse::<usize>().unwrap_or(0).min(1 << 16) + 2;
                    let mut text = vec![0; length];
                    self.stream.read_exact(&mut text).await?;
                }
                _ => return Err(AdapterError::answer(item)),
            }
        }
        self.command.answer(&numbers)
    }

    async fn line(&mut self) -> Result<String, AdapterError> {
        let mut line = String::new();
        if (&mut self.stream).take(1 << 16).read_line(&mut line).await? == 0 {
            return Err(AdapterError::answer("the connection was closed"));
        }
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own_reply() {
        let command = |text: &str| RespTemplate::new("127.0.0.1:6379", text).unwrap();
        let cell = command("CL.THROTTLE {key} 15 30 60 {cost}");
        assert_eq!(
            cell.bytes("a", 2),
            b"*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n2\r\n"
        );
        let answer = cell.answer(&[1, 16, 0, 3, 9]).unwrap();
        let wait = answer.retry_after.unwrap();
        assert_eq!((answer.allowed, wait.micros), (false, 3_000_000));
        let crab = command("THROTTLE {key} 15 30 60").answer(&[0, 16, 0, 9, 3]).unwrap();
        assert_eq!((crab.allowed, crab.retry_after), (false, Some(wait)));
        let ours = command("rl.check demo {key} {cost}").answer(&[1, 9, 5, -1, 7]).unwrap();
        assert_eq!((ours.allowed, ours.remaining, ours.retry_after), (true, Some(5), None));
        assert!(RespTemplate::new("x", "INCR {key}").is_err());
    }
}
