//! HTTP/1.1 to a service, without a task of its own: whoever waits for the response moves the
//! bytes. A request is written as it is encoded, a response's small body comes with its head, and
//! it is known whether a single byte has left.

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
