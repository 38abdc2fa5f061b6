//! The details of a gRPC status: when to try again, as clients of gRPC read it.

use std::time::Duration;

/// `google.rpc.Status { code: 1, message: 2, details: 3 }` of a denial, encoded. It has one detail, a
/// `google.rpc.RetryInfo`, if there is a wait.
#[doc(hidden)]
pub fn grpc_status_details(message: &str, wait: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    number(&mut status, 1, RESOURCE_EXHAUSTED);
    bytes(&mut status, 2, message.as_bytes());
    if let Some(wait) = wait {
        bytes(&mut status, 3, &retry_info(wait));
    }
    status
}

/// `google.protobuf.Any { type_url: 1, value: 2 }` of `google.rpc.RetryInfo { retry_delay: 1 }`, which
/// is a `google.protobuf.Duration { seconds: 1, nanos: 2 }`.
fn retry_info(wait: Duration) -> Vec<u8> {
    let (mut delay, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut delay, 1, wait.as_secs());
    number(&mut delay, 2, u64::from(wait.subsec_nanos()));
    bytes(&mut info, 1, &delay);
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &info);
    any
}

/// A protobuf field with a number. Zero is the default and is omitted.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A protobuf field with text, bytes or another message.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

const RESOURCE_EXHAUSTED: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_protobuf() {
        let status = grpc_status_details("no", Some(Duration::from_millis(300_500)));
        let url = b"type.googleapis.com/google.rpc.RetryInfo";
        // 300 is 0xac 0x02 in seven bits a byte, 500,000,000 is 0x80 0xca 0xb5 0xee 0x01.
        let delay = [8, 0xac, 2, 16, 0x80, 0xca, 0xb5, 0xee, 1];
        let any = [&[10, 40][..], url, &[18, 11, 10, 9], &delay].concat();
        assert_eq!(status, [&[8, 8, 18, 2][..], b"no", &[26, any.len() as u8], &any].concat());
    }
}
