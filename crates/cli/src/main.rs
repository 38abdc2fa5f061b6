//! The command line: `tidegate`. One file a command.

mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A rate limiter that is exact, fast and bounded.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server, until SIGTERM or SIGINT
    #[command(after_help = EXIT_CODES)]
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}

/// The same as clap's for a command line that makes no sense.
const ERROR: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for a server: stopped by a signal, after the requests in flight were answered
  2  error: a command line that makes no sense, or an address that cannot be listened on";
