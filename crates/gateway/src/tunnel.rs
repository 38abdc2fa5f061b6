//! An upgraded connection: bytes are copied in both directions until both ends are done or silent.

use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::transfer_activity::TransferActivity;
use crate::upstream::{UpstreamLink, UpstreamSlot};

/// The two ends of a tunnel that is about to begin.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) service: UpstreamLink,
    /// The request counts as under way until the tunnel ends.
    pub(crate) slot: UpstreamSlot,
    /// How long both ends can be silent.
    pub(crate) idle: Duration,
}

impl Tunnel {
    pub(crate) async fn run(self) {
        let Self { client, service, slot, idle } = self;
        let Ok(client) = client.await else { return };
        let UpstreamLink { stream, read, .. } = service;
        connect(TokioIo::new(client), stream, read.freeze(), idle).await;
        drop(slot);
    }
}

/// Copies bytes in both directions. `first` was already read from the service.
async fn connect(
    client: impl AsyncRead + AsyncWrite,
    service: impl AsyncRead + AsyncWrite,
    first: Bytes,
    idle: Duration,
) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_service, mut to_service) = tokio::io::split(service);
    // Shared by both directions: an end that only receives is not idle.
    let activity = TransferActivity::new();
    let up = copy(&mut from_client, &mut to_service, Bytes::new(), &activity, idle);
    let down = copy(&mut from_service, &mut to_client, first, &activity, idle);
    // After one end has closed its direction, the other one can still send.
    tokio::join!(up, down);
}

/// Copies until the end, an error, or until both directions have been silent for `idle`.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    first: Bytes,
    activity: &TransferActivity,
    idle: Duration,
) {
    let mut buffer = vec![0; BUFFER];
    let mut bytes = &first[..];
    loop {
        let sent = activity.within(idle, send(to, bytes, activity)).await;
        if !matches!(sent, Some(Ok(()))) {
            break;
        }
        match activity.within(idle, from.read(&mut buffer)).await {
            Some(Ok(count @ 1..)) => bytes = buffer.get(..count).unwrap_or_default(),
            _ => break,
        }
        activity.record();
    }
    // Fails if the receiver is already gone.
    let _ = activity.within(idle, to.shutdown()).await;
}

/// Records every partial write as activity: a slow reader is not a silent one.
async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    activity: &TransferActivity,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes).await? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            count => bytes = bytes.get(count..).unwrap_or_default(),
        }
        activity.record();
    }
    to.flush().await
}

const BUFFER: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    const SECOND: Duration = Duration::from_secs(1);

    /// A tunnel, and its two ends.
    fn tunnel(idle: Duration) -> (DuplexStream, DuplexStream, JoinHandle<()>) {
        let (client, near_client) = duplex(64);
        let (service, near_service) = duplex(64);
        let connected = connect(near_client, near_service, Bytes::new(), idle);
        (client, service, tokio::spawn(connected))
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_only_reads_is_not_cut_off() {
        for is_push in [true, false] {
            let (client, service, task) = tunnel(SECOND * 2);
            let (mut speaker, mut listener) =
                if is_push { (service, client) } else { (client, service) };
            for _ in 0..10 {
                speaker.write_all(b"x").await.unwrap();
                assert_eq!(listener.read_u8().await.unwrap(), b'x');
                sleep(SECOND).await;
            }
            assert!(!task.is_finished());
            listener.write_all(b"at last").await.unwrap();
            assert_eq!(speaker.read_u8().await.unwrap(), b'a');
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_both_sides_ends_a_tunnel() {
        let (mut client, mut service, task) = tunnel(SECOND * 2);
        sleep(SECOND).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(service.read_u8().await.unwrap(), b'x');
        let start = Instant::now();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(service.read(&mut [0]).await.unwrap(), 0);
        task.await.unwrap();
        assert_eq!(start.elapsed(), SECOND * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_not_idle() {
        let (mut client, mut service, task) = tunnel(SECOND * 2);
        service.write_all(&[b'x'; 64]).await.unwrap();
        let writing = tokio::spawn(async move { service.write_all(&[b'x'; 512]).await });
        for _ in 0..576 {
            sleep(SECOND / 8).await;
            client.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn after_one_side_has_closed_the_other_may_still_send() {
        let (mut client, mut service, task) = tunnel(SECOND * 2);
        client.shutdown().await.unwrap();
        assert_eq!(service.read(&mut [0]).await.unwrap(), 0);
        sleep(SECOND).await;
        service.write_all(b"y").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'y');
        drop(service);
        task.await.unwrap();
    }
}
