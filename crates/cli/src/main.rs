//! The command line: `tidegate`. One file a command.

mod explain;
mod gateway;
mod import;
mod init;
mod serve;
mod validate;

use std::io::Write as _;
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
    /// Prints a configuration to begin with
    Init(init::Init),
    /// Says everything that is wrong with a configuration
    #[command(after_help = EXIT_CODES)]
    Validate(validate::Validate),
    /// Says which policies apply to a request, why the others do not, and what they admit
    #[command(after_help = EXIT_CODES)]
    Explain(explain::Explain),
    /// Translates another limiter's configuration into ours
    #[command(after_help = EXIT_CODES)]
    Import(import::Import),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Init(init) => init.run(),
        Command::Validate(validate) => validate.run(),
        Command::Explain(explain) => explain.run(),
        Command::Import(import) => import.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}

/// Nobody may be there to read it, as after `| head`; that is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// A configuration that is wrong.
const WRONG: u8 = 1;

/// The same as clap's for a command line that makes no sense.
const ERROR: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for a server: stopped by a signal, after the requests in flight were answered
  1  a configuration that is wrong: everything wrong with it is on standard error
  2  error: a command line that makes no sense, or an address that cannot be listened on";
