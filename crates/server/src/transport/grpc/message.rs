//! Messages as gRPC frames them: a flag, a length, and then the bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prost::Message;

use super::refusal::{Code, Refusal};

/// The only message of a call.
pub(super) async fn read<M: Message + Default>(
    body: &mut Incoming,
    most: usize,
) -> Result<M, Refusal> {
    decode(collect(body, most).await?, most)
}

/// A body that is neither too large nor cut. If it is cut, the stream may be gone, and with it anyone
/// to tell; but nobody is charged for a call that was given up.
async fn collect(body: &mut Incoming, most: usize) -> Result<Bytes, Refusal> {
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::new(Code::Internal, CUT))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = first.len().max(rest.len()).saturating_add(data.len());
        if length > most.saturating_add(PREFIX) {
            return Err(too_large(most));
        } else if first.is_empty() {
            // Nearly every message arrives in one piece, and is not copied.
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Decodes a message that has arrived as a whole.
pub(crate) fn decode<M: Message + Default>(mut bytes: Bytes, most: usize) -> Result<M, Refusal> {
    let internal = |problem: String| Refusal::new(Code::Internal, problem);
    let &[flag, a, b, c, d, ..] = &bytes[..] else {
        let length = bytes.len();
        return Err(internal(format!(
            "{length} bytes: expected one message, after {PREFIX} bytes"
        )));
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    bytes.advance(PREFIX);
    match flag {
        0 => {}
        1 => return Err(Refusal::new(Code::Unimplemented, COMPRESSED)),
        flag => return Err(internal(format!("a message with flag {flag}: expected 0"))),
    }
    if length > most {
        return Err(too_large(most));
    }
    if length != bytes.len() {
        let found = bytes.len();
        return Err(internal(format!("{found} bytes: expected one message, of {length} bytes")));
    }
    M::decode(bytes).map_err(|error| Refusal::new(Code::InvalidArgument, error.to_string()))
}

/// A message, ready to be sent.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX.saturating_add(length));
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // There is room, so this does not fail.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

fn too_large(most: usize) -> Refusal {
    let message = format!("the message is too large: expected at most {most} bytes");
    Refusal::new(Code::ResourceExhausted, message)
}

const PREFIX: usize = 5;
const CUT: &str = "the message is not complete: expected all of it";
const COMPRESSED: &str = "the message is compressed: expected identity";

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
            (&b""[..], "Internal"),
            (b"\0\0\0\0", "4 bytes"),
            (b"\0\0\0\0\x09x", "of 9 bytes"),
            (b"\0\0\0\0\0x", "of 0 bytes"),
            (b"\x01\0\0\0\0", "Unimplemented"),
            (b"\x02\0\0\0\0", "flag 2"),
            (b"\0\xff\xff\xff\xff", "ResourceExhausted"),
            (b"\0\0\0\0\x02\x0a\x09", "InvalidArgument"),
            (b"\0\0\0\0\x03\x0a\x01\xff", "RateLimitRequest.domain"),
        ] {
            let refusal = refused(bytes);
            assert!(refusal.contains(expected), "{bytes:?}: {refusal}");
        }
    }
}
