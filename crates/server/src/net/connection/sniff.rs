//! Detects the version of HTTP from the first bytes of a connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Version;
use tokio::io::{AsyncRead, ReadBuf};

/// The version of HTTP that a client uses; `None` if the client leaves before that is clear. `unread` are
/// the bytes that were read so far.
pub(super) fn poll_version(
    io: &mut (impl AsyncRead + Unpin),
    unread: &mut Vec<u8>,
    cx: &mut Context<'_>,
) -> Poll<Option<Version>> {
    loop {
        if unread.starts_with(PREFACE) {
            return Poll::Ready(Some(Version::HTTP_2));
        }
        if !PREFACE.starts_with(unread) {
            return Poll::Ready(Some(Version::HTTP_11));
        }
        let mut chunk = [0; PREFACE.len()];
        let missing = PREFACE.len().saturating_sub(unread.len());
        let mut chunk = ReadBuf::new(chunk.get_mut(..missing).unwrap_or_default());
        match ready!(Pin::new(&mut *io).poll_read(cx, &mut chunk)) {
            Ok(()) if !chunk.filled().is_empty() => unread.extend(chunk.filled()),
            _ => return Poll::Ready(None),
        }
    }
}

/// The first bytes of every HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn the_protocol_is_detected_from_any_portions_without_losing_bytes() {
        for (sent, version) in [
            (PREFACE, Some(Version::HTTP_2)),
            (&b"PRI * HTTP/1.1\r\n\r\n"[..], Some(Version::HTTP_11)),
            (b"GET / HTTP/1.1\r\n\r\n", Some(Version::HTTP_11)),
            (b"\x16\x03\x01", Some(Version::HTTP_11)),
            (b"PRI * HTTP/2.0\r\n\r\nSM", None),
        ] {
            let (mut client, mut server) = duplex(1);
            let talk = async {
                client.write_all(sent).await.unwrap();
                drop(client);
            };
            let listen = async {
                let mut unread = Vec::new();
                let seen = poll_fn(|cx| poll_version(&mut server, &mut unread, cx)).await;
                tokio::io::AsyncReadExt::read_to_end(&mut server, &mut unread).await.unwrap();
                (seen, unread)
            };
            let ((), seen) = tokio::join!(talk, listen);
            assert_eq!(seen, (version, sent.to_vec()));
        }
    }
}
