//! A connection that has become something else: bytes both ways, until one side ends.

use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::upstream::{Lease, Link};

/// The two ends of a tunnel that is about to begin.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) service: Link,
    /// The request is under way until the tunnel ends.
    pub(crate) lease: Lease,
    /// How long both may be silent.
    pub(crate) idle: Duration,
}

impl Tunnel {
    pub(crate) async fn run(self) {
        let Self { client, service, lease, idle } = self;
        let Ok(client) = client.await else { return };
        let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
        let Link { wire, read, .. } = service;
        let (mut from_service, mut to_service) = tokio::io::split(wire);
        let up = copy(&mut from_client, &mut to_service, Bytes::new(), idle);
        let down = copy(&mut from_service, &mut to_client, read.freeze(), idle);
        // When one side has said all it had to say, the other one may still answer.
        tokio::join!(up, down);
        drop(lease);
    }
}

/// Copies until the end, an error, or a silence that lasts too long.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    first: Bytes,
    idle: Duration,
) {
    let mut buffer = vec![0; BUFFER];
    let mut bytes = &first[..];
    loop {
        let sent = async {
            to.write_all(bytes).await?;
            to.flush().await
        };
        if !bytes.is_empty() && !matches!(timeout(idle, sent).await, Ok(Ok(()))) {
            break;
        }
        match timeout(idle, from.read(&mut buffer)).await {
            Ok(Ok(count @ 1..)) => bytes = buffer.get(..count).unwrap_or_default(),
            _ => break,
        }
    }
    let _ = to.shutdown().await;
}

const BUFFER: usize = 16 << 10;
