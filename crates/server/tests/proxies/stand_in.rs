//! A stand-in for Tidegate that refuses every request in one chosen way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// How to refuse.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// With this status, and the fields and body of a refusal by Tidegate.
    Status(u16),
    /// By closing the connection without an answer.
    Closes,
    /// By never answering.
    Hangs,
}

pub(crate) struct StandIn {
    pub(crate) address: SocketAddr,
    refusal: Arc<Mutex<Refusal>>,
    task: AbortHandle,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refusal = Arc::new(Mutex::new(Refusal::Closes));
        let chosen = Arc::clone(&refusal);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(refuse(stream, Arc::clone(&chosen)));
            }
        });
        Self { address, refusal, task: task.abort_handle() }
    }

    pub(crate) fn refuse_with(&self, refusal: Refusal) {
        *self.refusal.lock().unwrap() = refusal;
    }

    /// Stops listening.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

async fn refuse(mut stream: TcpStream, chosen: Arc<Mutex<Refusal>>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.extend(byte),
            _ => return,
        }
    }
    let refusal = *chosen.lock().unwrap();
    match refusal {
        Refusal::Status(status) => {
            let body = format!(r#"{{"type":"about:blank","title":"Refused","status":{status}}}"#);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} Refused\r\ncontent-type: application/problem+json\r\n\
                 content-length: {length}\r\nretry-after: 60\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
        Refusal::Closes => {}
        // Until the proxy gives up.
        Refusal::Hangs => while matches!(stream.read(&mut byte).await, Ok(1)) {},
    }
}
