//! The Redis protocol over real sockets: commands, pipelines, third-party clients, and hostile clients.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod all_policies;
mod clients;
mod commands;
mod connection;
mod hostile;
mod inline;
mod logins;
mod pipelines;
#[path = "../support/remote_store.rs"]
mod remote_store;
mod shutdown;
mod support;
