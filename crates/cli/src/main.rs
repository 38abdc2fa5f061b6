//! The command line: `tidegate`. One file per command.

mod accuracy;
mod check;
mod client;
mod client_error;
mod explain;
mod gateway;
mod import;
mod init;
mod operate;
mod output;
mod progress;
mod replay;
mod serve;
mod shared_keys;
mod simulate;
mod suggest;
mod top;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The server sends many small answers from many threads: measured, this allocator is faster than
/// the system's and returns memory sooner.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A rate limiter that is exact, fast and bounded.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server, until SIGTERM or SIGINT
    #[command(after_help = EXIT_CODES)]
    Serve(Box<serve::Serve>),
    /// Ask a running server whether something may happen
    #[command(after_help = check::EXIT_CODES)]
    Check(check::Check),
    /// Show what a running server does, live
    #[command(after_help = EXIT_CODES)]
    Top(top::Top),
    /// Print a configuration to start from
    #[command(after_help = EXIT_CODES)]
    Init(init::Init),
    /// Report everything that is wrong with a configuration
    #[command(after_help = EXIT_CODES)]
    Validate(validate::Validate),
    /// Show which policies apply to a request, why the others do not, and what they admit
    #[command(after_help = EXIT_CODES)]
    Explain(explain::Explain),
    /// Translate another limiter's configuration into ours
    #[command(after_help = EXIT_CODES)]
    Import(import::Import),
    /// Show how limits handle synthetic traffic, and how full their fullest window gets
    #[command(after_help = EXIT_CODES)]
    Simulate(simulate::Simulate),
    /// Measure how often each algorithm is wrong, over millions of requests, and what it costs
    #[command(after_help = EXIT_CODES)]
    Accuracy(accuracy::Accuracy),
    /// Show what a configuration would have denied of the requests in an access log
    #[command(after_help = EXIT_CODES)]
    Replay(replay::Replay),
    /// Find the smallest limit that denies no more of an access log than you tolerate
    #[command(after_help = EXIT_CODES)]
    Suggest(suggest::Suggest),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Check(check) => check.run(),
        Command::Top(top) => top.run(),
        Command::Init(init) => init.run(),
        Command::Validate(validate) => validate.run(),
        Command::Explain(explain) => explain.run(),
        Command::Import(import) => import.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Accuracy(accuracy) => accuracy.run(),
        Command::Replay(replay) => replay.run(),
        Command::Suggest(suggest) => suggest.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}

/// The configuration is wrong.
const WRONG: u8 = 1;

/// The same as clap's for a command line that makes no sense.
const ERROR: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for a server: stopped by a signal, after the requests in flight were answered
  1  a configuration that is wrong: everything wrong with it is on standard error
  2  error: a command line that makes no sense, an address that cannot be listened on,
     a file or an output that cannot be read or written, or certificates that cannot be used;
     for a server also: stopped at once, by a second signal
  3  denied, by `check`";
