//! Properties that hold for any bytes sent as an Envoy message.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use bytes::{Bytes, BytesMut};
use tidegate::MemoryStore;
use tidegate::config::PolicySource;
use tidegate_wire::envoy::{RateLimitRequest, RateLimitResponse};
use tokio::runtime::Runtime;

use super::refusal::GrpcRefusal;
use super::{GrpcOptions, message, should_rate_limit};
use crate::App;

const FILE: &str = "
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: path, value: /api*, rate_limit: { unit: day, requests_per_unit: 7 } }
";

/// Reads the bytes as a frame, and also as a message within a valid frame. Either is decided, with a status
/// for each descriptor, or refused with a short text.
pub(crate) fn message(bytes: &[u8]) {
    read(Bytes::copy_from_slice(bytes));
    let mut framed = BytesMut::from(&[0][..]);
    framed.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
    framed.extend_from_slice(bytes);
    read(framed.freeze());
}

fn read(frame: Bytes) {
    let request = match message::decode::<RateLimitRequest>(frame, MOST) {
        Ok(request) => request,
        Err(refusal) => return check(&refusal),
    };
    let again = message::decode(message::encode(&request), usize::MAX);
    assert_eq!(again.as_ref(), Ok(&request), "a decoded message can be encoded");
    thread_local! {
        static SERVER: (Runtime, App<MemoryStore>) = server();
    }
    SERVER.with(|(runtime, app)| {
        match runtime.block_on(should_rate_limit::answer(app, GrpcOptions::default(), &request)) {
            Err(refusal) => check(&refusal),
            Ok(response) => {
                assert_eq!(response.statuses.len(), request.descriptors.len());
                let written = message::encode(&response);
                let read = message::decode::<RateLimitResponse>(written, usize::MAX);
                assert_eq!(read, Ok(response));
            }
        }
    });
}

/// A refusal stays short, however long the client's input was.
fn check(refusal: &GrpcRefusal) {
    let shown = format!("{refusal:?}");
    assert!(shown.len() < 1_000, "a refusal of {} bytes: {shown}", shown.len());
}

fn server() -> (Runtime, App<MemoryStore>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let app = App::load(
        &PolicySource::new("fuzz", FILE).unwrap(),
        MemoryStore::builder().max_keys(10_000).build(),
    )
    .unwrap();
    (runtime, app)
}

const MOST: usize = 64 << 10;
