//! The Redis protocol over real sockets: commands, pipelines, third-party clients, and hostile clients.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod clients;
mod commands;
mod connection;
#[path = "../support/elsewhere.rs"]
mod elsewhere;
mod farewell;
mod hostile;
mod inline;
mod logins;
mod pipelines;
mod support;
