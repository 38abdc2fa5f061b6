//! A minimal RESP2 client and its replies.
//!
//! It is our own, so that a bug in the client under test cannot hide in its own test.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR wrong`, without the dash.
    Error(String),
    /// `:42`
    Integer(i64),
    /// A string of any bytes, or nil.
    Bulk(Option<Vec<u8>>),
    /// A list, or nil.
    Array(Option<Vec<Self>>),
}

impl Reply {
    /// A string of any bytes.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(Some(bytes.as_ref().to_vec()))
    }

    /// Whether it is `+OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Simple(text) if text == "OK")
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The reply, if it is not an error.
    ///
    /// # Panics
    ///
    /// If it is one.
    #[track_caller]
    pub fn or_panic(self) -> Self {
        match self {
            Self::Error(error) => panic!("redis answered with an error: {error}"),
            reply => reply,
        }
    }

    /// The text of a string, a number or an error; nil is empty.
    ///
    /// # Panics
    ///
    /// If it is a list.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Bulk(bytes) => {
                String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
            }
            Self::Array(_) => panic!("expected a string, got {self:?}"),
        }
    }

    /// The number, even if it came as a string.
    ///
    /// # Panics
    ///
    /// If it is not a number.
    #[track_caller]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            Self::Bulk(Some(_)) => self.text().parse().expect("a number"),
            _ => panic!("expected a number, got {self:?}"),
        }
    }

    /// The items of a list; nil has none.
    ///
    /// # Panics
    ///
    /// If it is not a list.
    #[track_caller]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items.as_deref().unwrap_or_default(),
            _ => panic!("expected a list, got {self:?}"),
        }
    }

    /// A list of alternating names and values, which RESP2 uses for lack of a map.
    #[track_caller]
    pub(crate) fn fields(&self) -> HashMap<String, String> {
        self.items().chunks_exact(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
    }

    /// The encoded reply, for a [`FakeRedis`](crate::FakeRedis) to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Simple(text) => format!("+{text}\r\n").into_bytes(),
            Self::Error(text) => format!("-{text}\r\n").into_bytes(),
            Self::Integer(number) => format!(":{number}\r\n").into_bytes(),
            Self::Bulk(None) => b"$-1\r\n".to_vec(),
            Self::Bulk(Some(bytes)) => bulk_bytes(bytes),
            Self::Array(None) => b"*-1\r\n".to_vec(),
            Self::Array(Some(items)) => {
                let mut out = format!("*{}\r\n", items.len()).into_bytes();
                out.extend(items.iter().flat_map(Self::to_bytes));
                out
            }
        }
    }

    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let line = read_line(from)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| malformed(&line));
        Ok(match kind {
            "+" => Self::Simple(rest.to_owned()),
            "-" => Self::Error(rest.to_owned()),
            ":" => Self::Integer(number()?),
            "$" => Self::Bulk(match usize::try_from(number()?) {
                Ok(length) => Some(read_bulk(from, length)?),
                Err(_) => None,
            }),
            "*" => Self::Array(match usize::try_from(number()?) {
                Ok(length) => {
                    Some((0..length).map(|_| Self::read(from)).collect::<Result<_, _>>()?)
                }
                Err(_) => None,
            }),
            _ => return Err(malformed(&line)),
        })
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_bulk(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {line:?}"))
}

/// A command as clients send it: a list of strings.
pub fn encode_command(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    out.extend(words.iter().flat_map(|word| bulk_bytes(word.as_ref())));
    out
}

fn bulk_bytes(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A connection of its own, for what one command cannot do: `MULTI`, `SUBSCRIBE`, `CLIENT`.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects. No answer may take longer than `timeout`.
    pub fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its reply.
    pub fn call(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command.
    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.stream.get_mut().write_all(&encode_command(words))
    }

    /// Reads the next reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }
}
