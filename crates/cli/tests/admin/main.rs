//! The admin listener of real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod access;
mod commands;
mod server;
mod shared_changes;
mod store;
mod top;
