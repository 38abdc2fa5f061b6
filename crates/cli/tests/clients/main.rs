//! Clients in other languages, against a real server: the programs of docs/clients.md exactly as they are
//! printed, and clients that are generated from the OpenAPI document.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod generators;
mod middleware;
mod page;
mod peers;
mod programs;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use support::{Server, tidegate};
use tidegate_testkit::Scratch;

/// A server with the policies of the page, and a directory for programs.
struct Tidegate {
    server: Server,
    scratch: Scratch,
}

impl Tidegate {
    fn start() -> Self {
        let scratch = Scratch::new();
        let limits = scratch.write("limits.yaml", page::snippet("limits.yaml"));
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--config"]);
        Self { server: Server::start(command.arg(limits)), scratch }
    }

    /// Writes a snippet of the page, under another name if the language needs it.
    fn write(&self, snippet: &str, file: &str) -> PathBuf {
        self.scratch.write(file, page::snippet(snippet))
    }

    /// A command in its directory, which finds the server where the page says.
    fn prepare<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.scratch.path())
            .env("TIDEGATE_REDIS", format!("redis://{}", self.server.said("listening on redis://")))
            .env("TIDEGATE_SERVER", format!("http://{}", self.server.address()))
            .env("NODE_PATH", peers::node_modules())
            .stdin(Stdio::null())
    }

    fn output(&self, command: &mut Command) -> Output {
        self.prepare(command).output().unwrap()
    }
}

/// What a command said, for messages.
fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}
