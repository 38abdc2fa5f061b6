//! Reads and writes gRPC messages, which are framed by a flag and a length.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prost::Message;

use super::GrpcResponse;
use super::body::GrpcBody;
use super::budget::{BudgetPermit, MessageBudget};
use super::refusal::{GRPC, GrpcRefusal};
use crate::RefusalReason;

/// How large a message can be.
#[derive(Clone, Debug)]
pub(super) struct GrpcMessageBounds {
    /// A message up to this size is always read.
    pub(super) small: usize,
    /// A message up to this size is read if the budget has room for it.
    pub(super) large: usize,
    pub(super) budget: MessageBudget,
}

/// Reads the only message of a call. Hold the permit as long as the message: the decoded values still
/// refer to the message's bytes.
pub(super) async fn read<M: Message + Default>(
    body: &mut Incoming,
    bounds: &GrpcMessageBounds,
) -> Result<(M, Option<BudgetPermit>), GrpcRefusal> {
    let mut received = GrpcMessageBuffer::default();
    let mut refusal = None;
    while let Some(frame) = body.frame().await {
        // The client may be gone and never receive this refusal, but an abandoned call must not be charged.
        let frame = frame.map_err(|_| GrpcRefusal::malformed(CUT))?;
        let Ok(data) = frame.into_data() else { continue };
        // Receive and drop the rest of a refused message: some clients lose a response that arrives
        // before they have sent everything.
        if refusal.is_none()
            && let Err(problem) = received.add(data, bounds)
        {
            (received, refusal) = (GrpcMessageBuffer::default(), Some(problem));
        }
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok((decode(received.bytes(), bounds.large)?, received.permit)),
    }
}

/// The part of a body that has arrived so far.
#[derive(Default)]
struct GrpcMessageBuffer {
    first: Bytes,
    /// The whole body, including `first`, once a second part has arrived.
    all: BytesMut,
    permit: Option<BudgetPermit>,
    /// The length of the whole frame, once memory is reserved for it.
    most: usize,
}

impl GrpcMessageBuffer {
    fn add(&mut self, data: Bytes, bounds: &GrpcMessageBounds) -> Result<(), GrpcRefusal> {
        let length = self.first.len().max(self.all.len()).saturating_add(data.len());
        if self.first.is_empty() {
            // Nearly every message arrives in one piece and need not be copied.
            self.first = data;
        } else {
            if self.all.is_empty() {
                self.all.extend_from_slice(&self.first);
            }
            self.all.extend_from_slice(&data);
        }
        if length > bounds.small.saturating_add(PREFIX) {
            self.reserve(bounds)?;
            if length > self.most {
                let most = self.most;
                return Err(GrpcRefusal::malformed(format!("{length} bytes: expected {most}")));
            }
        }
        Ok(())
    }

    /// Reserves memory for the length that the message's prefix announces.
    fn reserve(&mut self, bounds: &GrpcMessageBounds) -> Result<(), GrpcRefusal> {
        if self.permit.is_some() {
            return Ok(());
        }
        let begun = if self.all.is_empty() { &self.first[..] } else { &self.all[..] };
        let length = match begun {
            [_, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]) as usize,
            _ => 0,
        };
        if length > bounds.large {
            return Err(too_large(bounds.large));
        }
        self.most = length.saturating_add(PREFIX);
        self.permit = bounds.budget.try_reserve(self.most);
        match self.permit {
            Some(_) => Ok(()),
            None => Err(GrpcRefusal::over_limit(RefusalReason::Overload, NO_ROOM)),
        }
    }

    fn bytes(&mut self) -> Bytes {
        let (first, all) = (std::mem::take(&mut self.first), std::mem::take(&mut self.all));
        if all.is_empty() { first } else { all.freeze() }
    }
}

/// Decodes a message that has arrived as a whole.
pub(crate) fn decode<M: Message + Default>(
    mut bytes: Bytes,
    most: usize,
) -> Result<M, GrpcRefusal> {
    let &[flag, a, b, c, d, ..] = &bytes[..] else {
        let length = bytes.len();
        return Err(GrpcRefusal::malformed(format!(
            "{length} bytes: expected one message, after a prefix of {PREFIX} bytes"
        )));
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    bytes.advance(PREFIX);
    match flag {
        0 => {}
        1 => return Err(GrpcRefusal::unimplemented(COMPRESSED)),
        flag => {
            return Err(GrpcRefusal::malformed(format!("the message has flag {flag}: expected 0")));
        }
    }
    if length > most {
        return Err(too_large(most));
    }
    if length != bytes.len() {
        let found = bytes.len();
        let message = format!("{found} bytes: expected one message, of {length} bytes");
        return Err(GrpcRefusal::malformed(message));
    }
    M::decode(bytes).map_err(|error| GrpcRefusal::malformed(error.to_string()))
}

/// Encodes a message with its frame.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX.saturating_add(length));
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // The buffer has room for the message, so this does not fail.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

/// The response to a call that succeeds.
pub(super) fn respond(message: &impl Message) -> GrpcResponse {
    let mut response = GrpcResponse::new(GrpcBody::Message(encode(message)));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

fn too_large(most: usize) -> GrpcRefusal {
    let message = format!("the message is too large: expected at most {most} bytes");
    GrpcRefusal::over_limit(RefusalReason::TooLarge, message)
}

/// One byte of flags and four bytes of length.
pub(super) const PREFIX: usize = 5;
const CUT: &str = "the message is incomplete: expected all of it";
const COMPRESSED: &str = "the message is compressed: expected identity";
const NO_ROOM: &str = "too many large messages at the same time: expected smaller ones";

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest};

    fn refused(bytes: impl Into<Vec<u8>>) -> String {
        format!("{:?}", decode::<RateLimitRequest>(Bytes::from(bytes.into()), 100).unwrap_err())
    }

    #[test]
    fn what_is_encoded_can_be_read() {
        let descriptors = vec![RateLimitDescriptor::new([("user", b"\xff\0".to_vec())])];
        let request = RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend: 3 };
        assert_eq!(decode::<RateLimitRequest>(encode(&request), 100).unwrap(), request);
        assert!(decode::<RateLimitRequest>(Bytes::from_static(&[0; 5]), 0).is_ok());
    }

    #[test]
    fn broken_frames_are_told_from_each_other() {
        for (bytes, expected) in [
            (&b""[..], "Malformed"),
            (b"\0\0\0\0", "4 bytes"),
            (b"\0\0\0\0\x09x", "of 9 bytes"),
            (b"\0\0\0\0\0x", "of 0 bytes"),
            (b"\x01\0\0\0\0", "Unimplemented"),
            (b"\x02\0\0\0\0", "flag 2"),
            (b"\0\xff\xff\xff\xff", "TooLarge"),
            (b"\0\0\0\0\x02\x0a\x09", "Malformed"),
            (b"\0\0\0\0\x03\x0a\x01\xff", "RateLimitRequest.domain"),
        ] {
            let refusal = refused(bytes);
            assert!(refusal.contains(expected), "{bytes:?}: {refusal}");
        }
    }
}
