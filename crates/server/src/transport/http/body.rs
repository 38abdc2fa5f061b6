//! Reading a body within bounds.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::refusal::HttpRefusal;
use crate::ListenerConfig;

/// The whole body, or why not.
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

/// Why there is no body.
enum HttpBodyError {
    TooLarge,
    /// It ended before it was complete, or nobody can tell where it ends. Part of a body may read
    /// like a whole one, so none of it counts.
    Incomplete,
}

/// Of a body that is too large, the rest is read and dropped, within reason: a client that is still
/// writing when the connection closes never sees the answer.
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
            // Nearly every body arrives in one piece, and is not copied.
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

const CUT: &str = "the body is not complete: expected all of it, framed as the head says";
const DISCARD: usize = 1 << 20;
