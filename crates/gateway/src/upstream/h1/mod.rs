//! HTTP/1.1 to a service, without a separate task: the future that waits for the response also sends and
//! receives the bytes. So a small body arrives together with its head, and it is known whether a single byte
//! of the request was sent.

mod decoder;
mod exchange;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod head;
mod link;
mod request;

pub(crate) use exchange::{Http1Exchange, Http1Outcome, UpstreamHttp1Body};
pub(crate) use head::parse_digits;
pub(crate) use link::UpstreamLink;
pub(crate) use request::{ForwardFraming, Http1Request};
