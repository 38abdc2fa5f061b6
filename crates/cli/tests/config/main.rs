//! The commands that deal with configurations, and a server that follows one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod explain;
mod import;
mod serving;
mod validate;

use std::path::Path;
use std::process::{Command, Output};

fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_remove("TIDEGATE_HTTP").env_remove("TIDEGATE_CONFIG").env("TIDEGATE_ADMIN", "off");
    command.env("TIDEGATE_RESP", "off").env("TIDEGATE_GRPC", "off");
    command
}

fn run(command: &str, file: &Path, rest: &[&str]) -> Output {
    tidegate().arg(command).arg(file).args(rest).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).unwrap()
}
