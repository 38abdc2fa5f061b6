//! HTTP/1.1 to a service, without a task of its own: whoever waits for the response moves the
//! bytes. A request is written as it is encoded, a response's small body comes with its head, and
//! it is known whether a single byte has left.

mod decoder;
mod exchange;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod head;
mod link;
mod outgoing;

pub(crate) use exchange::{Exchange, Outcome, StreamedBody};
pub(crate) use head::digits;
pub(crate) use link::Link;
pub(crate) use outgoing::{Framing, Outgoing};
