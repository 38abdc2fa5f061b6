//! Reading a body within bounds.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::problem::Refusal;
use crate::Config;

/// The whole body, or why not.
pub(crate) async fn read(mut body: Incoming, config: &Config) -> Result<Bytes, Refusal> {
    let is_large = body.size_hint().lower() > config.max_body as u64;
    match timeout(config.body_timeout, collect(&mut body, config.max_body)).await {
        Ok(Some(bytes)) => Ok(bytes),
        Err(_) if !is_large => Err(Refusal::timeout(config.body_timeout)),
        Ok(None) | Err(_) => Err(Refusal::too_large(config.max_body)),
    }
}

/// `None` when it is too large. The rest is then read and dropped, within reason: a client that
/// is still writing when the connection closes never sees the answer.
async fn collect(body: &mut Incoming, most: usize) -> Option<Bytes> {
    let (mut first, mut rest, mut size) = (Bytes::new(), BytesMut::new(), 0_usize);
    // A body that breaks off ends here; the connection is gone, and so is who would be told.
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        size = size.saturating_add(data.len());
        if size > most.saturating_add(DISCARD) {
            return None;
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
        _ if size > most => None,
        _ if rest.is_empty() => Some(first),
        _ => Some(rest.freeze()),
    }
}

const DISCARD: usize = 1 << 20;
