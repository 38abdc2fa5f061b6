//! Envoy's rate limit service, as clients see it: over a socket, byte by byte where that matters.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod decisions;
mod envoy;
mod failures;
mod fuzz;
mod hostile;
mod python;
mod refusals;
mod services;
mod settlement;
mod support;
