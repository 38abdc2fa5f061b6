//! Reads a request body, bounded in size and time.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::refusal::HttpRefusal;
use crate::ListenerConfig;

/// Reads the whole body, or refuses it.
pub(crate) async fn read(
    mut body: Incoming,
    config: &ListenerConfig,
) -> Result<Bytes, HttpRefusal> {
    let is_large = body.size_hint().lower() > config.max_body as u64;
    match timeout(config.body_timeout, collect(&mut body, config.max_body)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(HttpBodyError::Incomplete)) if !is_large => Err(HttpRefusal::invalid(None, CUT)),
        Err(_) if !is_large => Err(HttpRefusal::timeout(config.body_timeout)),
        Ok(Err(_)) | Err(_) => Err(HttpRefusal::too_large(config.max_body)),
    }
}

/// Why a body could not be read.
enum HttpBodyError {
    TooLarge,
    /// The body ended early, or its framing is invalid. Part of a body can be valid JSON too, so none
    /// of it is used.
    Incomplete,
}

/// Collects a body of at most `most` bytes. Up to [`DISCARD`] bytes beyond that are read and dropped: a
/// client that is still writing when the connection closes never sees the response.
async fn collect(body: &mut Incoming, most: usize) -> Result<Bytes, HttpBodyError> {
    let (mut first, mut rest, mut size) = (Bytes::new(), BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| HttpBodyError::Incomplete)?.into_data() else { continue };
        size = size.saturating_add(data.len());
        if size > most.saturating_add(DISCARD) {
            return Err(HttpBodyError::TooLarge);
        } else if size > most {
            rest.clear();
        } else if first.is_empty() {
            // Nearly every body arrives in one piece and need not be copied.
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    match size {
        _ if size > most => Err(HttpBodyError::TooLarge),
        _ if rest.is_empty() => Ok(first),
        _ => Ok(rest.freeze()),
    }
}

const CUT: &str = "the body is incomplete: expected all of it, framed as the head says";
const DISCARD: usize = 1 << 20;
