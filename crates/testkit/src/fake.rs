//! A fake Redis with scripted replies.

use std::fmt;
use std::io::{BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::accept_loop::{AcceptLoop, ConnectionRegister};
use crate::resp::Reply;

/// A server with scripted replies, for those that a real one sends too rarely: `LOADING`, `BUSY`,
/// `MISCONF`, or nothing. Closed when dropped.
///
/// ```
/// use tidegate_testkit::FakeRedis;
///
/// let fake = FakeRedis::start(|command| {
///     let eval = command[0].eq_ignore_ascii_case(b"EVALSHA");
///     eval.then(|| b"-LOADING Redis is loading the dataset in memory\r\n".to_vec())
/// });
/// assert!(fake.url().starts_with("redis://127.0.0.1:"));
/// ```
#[derive(Debug)]
pub struct FakeRedis {
    shared: Arc<Shared>,
    accept_loop: AcceptLoop,
}

/// The words of a command.
type Words = Vec<Vec<u8>>;
type Script = dyn Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync;

struct Shared {
    script: Box<Script>,
    streams: ConnectionRegister<TcpStream>,
    seen: Mutex<Vec<Words>>,
}

impl FakeRedis {
    /// Starts one that answers each command with the bytes that `script` returns for it, unchanged.
    /// Empty bytes mean no answer. For `None` it answers like a server that supports little more
    /// than the handshake; `HELLO`, `AUTH`, `SELECT`, `CLIENT` and `PING` succeed.
    ///
    /// A panic in `script` resurfaces when the value is dropped.
    pub fn start(script: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            script: Box::new(script),
            streams: ConnectionRegister::new(),
            seen: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        Self { shared, accept_loop: AcceptLoop::start(move |stream| served.serve(stream)) }
    }

    /// Starts one whose first connection gets no answer after the handshake. Later ones work as with
    /// [`start`](Self::start).
    pub fn start_with_a_silent_connection(
        script: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let greetings = AtomicUsize::new(0);
        Self::start(move |command| match command[0].as_slice() {
            b"HELLO" => {
                greetings.fetch_add(1, Ordering::SeqCst);
                None
            }
            _ if greetings.load(Ordering::SeqCst) < 2 => Some(Vec::new()),
            _ => script(command),
        })
    }

    /// Where clients find it: `redis://127.0.0.1:6379`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.accept_loop.address()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// The commands it has been sent so far, over all connections.
    pub fn seen(&self) -> Vec<Vec<Vec<u8>>> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Closes the open connections. New ones are accepted.
    pub fn disconnect(&self) {
        shut_down(&self.shared.streams.take());
    }
}

impl Drop for FakeRedis {
    fn drop(&mut self) {
        shut_down(&self.shared.streams.close());
    }
}

fn shut_down(streams: &[Arc<TcpStream>]) {
    streams.iter().for_each(|stream| {
        let _ = stream.shutdown(Shutdown::Both);
    });
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        if let Some(stream) = self.streams.register(stream) {
            self.answer_all(&stream);
        }
    }

    fn answer_all(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Ok(request) = Reply::read(&mut reader) {
            let answer = match words_of(request) {
                Some(words) => self.answer(words),
                None => b"-ERR Protocol error: expected a list of strings\r\n".to_vec(),
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }

    fn answer(&self, words: Words) -> Vec<u8> {
        let answer = (self.script)(&words).unwrap_or_else(|| default_answer(&words));
        self.seen.lock().unwrap().push(words);
        answer
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("seen", &self.seen).finish_non_exhaustive()
    }
}

fn words_of(request: Reply) -> Option<Words> {
    let Reply::Array(Some(items)) = request else { return None };
    let words = items.into_iter().map(|item| match item {
        Reply::Bulk(word) => word,
        _ => None,
    });
    words.collect::<Option<Words>>().filter(|words| !words.is_empty())
}

fn default_answer(words: &[Vec<u8>]) -> Vec<u8> {
    let name = String::from_utf8_lossy(&words[0]).to_uppercase();
    match name.as_str() {
        "HELLO" => hello(words.get(1).map(Vec::as_slice)),
        "PING" => b"+PONG\r\n".to_vec(),
        "AUTH" | "CLIENT" | "QUIT" | "RESET" | "SELECT" => b"+OK\r\n".to_vec(),
        _ => Reply::Error(format!("ERR unknown command '{name}', with args beginning with: "))
            .to_bytes(),
    }
}

/// The greeting: as a map in RESP3, and as a list of as many pairs in RESP2.
fn hello(version: Option<&[u8]>) -> Vec<u8> {
    let (opening, version) = match version {
        Some(b"3") => ("%7", 3),
        Some(b"2") | None => ("*14", 2),
        Some(_) => return b"-NOPROTO unsupported protocol version\r\n".to_vec(),
    };
    let pairs = [
        ("server", Reply::bulk("redis")),
        ("version", Reply::bulk("7.0.15")),
        ("proto", Reply::Integer(version)),
        ("id", Reply::Integer(1)),
        ("mode", Reply::bulk("standalone")),
        ("role", Reply::bulk("master")),
        ("modules", Reply::Array(Some(Vec::new()))),
    ];
    let pairs = pairs.iter().flat_map(|(name, value)| [Reply::bulk(name), value.clone()]);
    let mut out = format!("{opening}\r\n").into_bytes();
    out.extend(pairs.flat_map(|reply| reply.to_bytes()));
    out
}
