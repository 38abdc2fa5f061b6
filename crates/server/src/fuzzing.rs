//! Properties of the parsers of untrusted bytes. The targets in `fuzz/` search for inputs that violate
//! them, and ordinary tests check them on the corpora.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a property panics")]

use crate::net::framing;
use crate::transport::{grpc, resp};

/// HTTP/1: requests end where hyper sees them end. HTTP/2: the sizes of reads do not matter.
pub fn framing(bytes: &[u8]) {
    framing::fuzz::http1(bytes);
    framing::fuzz::http2(bytes);
}

/// A Redis connection gets valid replies, and uses little memory.
pub fn resp(bytes: &[u8]) {
    resp::fuzz::connection(bytes);
}

/// A message from Envoy is either read, or refused with a short error.
pub fn envoy(bytes: &[u8]) {
    grpc::fuzz::message(bytes);
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::fuzz;

    #[test]
    fn requests_end_where_hyper_sees_them_end() {
        fuzz("framing", super::framing);
    }

    #[test]
    fn redis_connections_are_answered_in_little_memory() {
        fuzz("resp", super::resp);
    }

    #[test]
    fn messages_of_envoy_are_understood_or_refused() {
        fuzz("envoy", super::envoy);
    }
}
