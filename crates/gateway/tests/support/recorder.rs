//! A service that records every byte, and responds with prepared bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The behaviour on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// Answers every head with these bytes.
    Answer(Vec<u8>),
    /// Answers the first head with these bytes, and closes.
    AnswerAndClose(Vec<u8>),
    /// Answers the first head with these bytes, and resets the connection.
    AnswerAndReset(Vec<u8>),
    /// Closes after the head, without a response.
    Close,
    /// Reads, and never responds.
    Hang,
    /// Does not even read.
    Ignore,
}

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    manners: Arc<Mutex<Vec<Manner>>>,
    connections: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

impl Recorder {
    pub(crate) async fn start() -> Self {
        Self::with(vec![Manner::Answer(OK.to_vec())]).await
    }

    /// Each connection gets the next manner; all later ones get the last.
    pub(crate) async fn with(manners: Vec<Manner>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let manners = Arc::new(Mutex::new(manners));
        let connections = Arc::new(Mutex::new(0));
        let (log, ways, count) = (heard.clone(), manners.clone(), connections.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock() += 1;
                let manner = {
                    let mut ways = ways.lock();
                    if ways.len() > 1 { ways.remove(0) } else { ways[0].clone() }
                };
                tokio::spawn(serve(stream, manner, log.clone()));
            }
        });
        Self { address, heard, manners, connections, task }
    }

    pub(crate) fn behave(&self, manners: Vec<Manner>) {
        *self.manners.lock() = manners;
    }

    /// Takes all bytes received so far.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.heard.lock())
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, manner: Manner, log: Arc<Mutex<Vec<u8>>>) {
    if matches!(manner, Manner::Ignore) {
        std::future::pending::<()>().await;
    }
    let mut buffer = vec![0; 64 << 10];
    let mut seen = Vec::new();
    loop {
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        seen.extend_from_slice(&buffer[..count]);
        let is_head = seen.windows(4).any(|it| it == b"\r\n\r\n");
        log.lock().extend_from_slice(&buffer[..count]);
        if !is_head {
            continue;
        }
        match &manner {
            Manner::Answer(bytes) => {
                if stream.write_all(bytes).await.is_err() {
                    return;
                }
                seen.clear();
            }
            Manner::AnswerAndClose(bytes) => {
                let _ = stream.write_all(bytes).await;
                return;
            }
            Manner::AnswerAndReset(bytes) => {
                let _ = stream.write_all(bytes).await;
                let _ = stream.set_zero_linger();
                return;
            }
            Manner::Close => return,
            Manner::Hang | Manner::Ignore => {}
        }
    }
}
