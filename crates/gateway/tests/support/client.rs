//! A client that sends exactly the given bytes.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::soon;

pub(crate) struct Client(pub(crate) BufStream<TcpStream>);

#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The trailers of a chunked body.
    pub(crate) trailers: Vec<(String, String)>,
    /// Whether the body came to its end.
    pub(crate) is_whole: bool,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(BufStream::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Sends bytes to a gateway that may have closed the connection.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok() && self.0.flush().await.is_ok()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await;
        self.reply().await
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        self.reply_to("GET").await
    }

    pub(crate) async fn reply_to(&mut self, method: &str) -> Reply {
        soon(self.read_reply(method)).await
    }

    /// The response, unless the connection is closed without one.
    pub(crate) async fn reply_or_end(&mut self) -> Option<Reply> {
        let is_over = soon(self.0.fill_buf()).await.map_or(true, <[u8]>::is_empty);
        if is_over { None } else { Some(self.reply().await) }
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        // A reset counts as closed, too.
        soon(self.0.read_u8()).await.is_err()
    }

    /// Whether the rest of a response arrives completely.
    pub(crate) async fn reply_ends(&mut self) -> bool {
        let mut reply = Reply { headers: self.fields().await, ..Reply::default() };
        let length = reply.header("content-length").map_or(0, |it| it.parse().unwrap());
        reply.body = vec![0; length];
        soon(self.0.read_exact(&mut reply.body)).await.is_ok()
    }

    pub(crate) async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(200), self.0.fill_buf()).await.is_err()
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        let _ = soon(self.0.read_until(b'\n', &mut line)).await;
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    async fn fields(&mut self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else { return fields };
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    async fn read_reply(&mut self, method: &str) -> Reply {
        let line = self.line().await;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("no status in {line:?}"));
        let mut reply = Reply { status, headers: self.fields().await, ..Reply::default() };
        let has_body = method != "HEAD" && status >= 200 && !matches!(status, 204 | 304);
        let length = reply.header("content-length").map(|it| it.parse::<usize>().unwrap());
        let is_chunked = reply.header("transfer-encoding") == Some("chunked");
        reply.is_whole = match (has_body, length, is_chunked) {
            (false, ..) => true,
            (_, _, true) => self.chunks(&mut reply).await,
            (_, Some(length), _) => {
                let mut body = vec![0; length];
                let is_whole = self.0.read_exact(&mut body).await.is_ok();
                reply.body = body;
                is_whole
            }
            (_, None, _) => self.0.read_to_end(&mut reply.body).await.is_ok(),
        };
        reply
    }

    async fn chunks(&mut self, reply: &mut Reply) -> bool {
        loop {
            let line = self.line().await;
            let Ok(size) = usize::from_str_radix(&line, 16) else { return false };
            if size == 0 {
                reply.trailers = self.fields().await;
                return true;
            }
            let mut chunk = vec![0; size];
            if self.0.read_exact(&mut chunk).await.is_err() {
                return false;
            }
            reply.body.extend_from_slice(&chunk);
            self.line().await;
        }
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| &value[..])
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The detail of a problem document. Asserts that the response is one with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?} {}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        problem["detail"].as_str().unwrap().to_owned()
    }
}
