//! The command line: `tidegate`. One file per command.

mod accuracy;
mod admin;
mod check;
mod client;
mod client_error;
mod completions;
mod explain;
mod gateway;
mod health;
mod import;
mod init;
mod judge;
mod man;
mod number;
mod operator;
mod output;
mod progress;
mod replay;
mod schema;
mod serve;
mod shared_keys;
mod simulate;
mod source;
mod suggest;
mod top;
mod validate;
mod version;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The server sends many small answers from many threads: measured, this allocator is faster than
/// the system's and returns memory sooner.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A rate limiter that is exact and fast, in bounded memory.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true, after_help = ALL_EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the server until SIGTERM or SIGINT
    #[command(after_help = serve::EXIT_CODES)]
    Serve(Box<serve::ServeCommand>),
    /// Request a decision from a running server
    #[command(after_help = check::EXIT_CODES)]
    Check(check::CheckCommand),
    /// Show live what a running server is doing
    #[command(after_help = DONE_OR_ERROR)]
    Top(top::TopCommand),
    /// Look at callers and policies of a running server, and change them for a while
    #[command(after_help = DONE_OR_ERROR, disable_help_subcommand = true)]
    Admin(admin::AdminCommand),
    /// Print a configuration to start from
    #[command(after_help = DONE_OR_ERROR)]
    Init(init::InitCommand),
    /// Report everything that is wrong with a configuration
    #[command(after_help = validate::EXIT_CODES)]
    Validate(validate::ValidateCommand),
    /// Show which policies apply to a request and what they admit, and why the others do not apply
    #[command(after_help = EXIT_CODES)]
    Explain(explain::ExplainCommand),
    /// Translate another limiter's configuration into a Tidegate one
    #[command(after_help = EXIT_CODES)]
    Import(import::ImportCommand),
    /// Show how limits handle synthetic traffic, and how full their fullest window gets
    #[command(after_help = DONE_OR_ERROR)]
    Simulate(simulate::SimulateCommand),
    /// Measure how often each algorithm decides wrongly over millions of requests, and what it costs
    #[command(after_help = DONE_OR_ERROR)]
    Accuracy(accuracy::AccuracyCommand),
    /// Show which requests in an access log a configuration would have denied
    #[command(after_help = EXIT_CODES)]
    Replay(replay::ReplayCommand),
    /// Find the smallest limit that denies no more of an access log than you tolerate
    #[command(after_help = EXIT_CODES)]
    Suggest(suggest::SuggestCommand),
    /// Call a rate limiter, ours or not, and find answers that its rule does not explain
    #[command(after_help = judge::EXIT_CODES)]
    Judge(Box<judge::JudgeCommand>),
    /// Ask a running server whether it is well
    #[command(after_help = health::EXIT_CODES)]
    Health(health::HealthCommand),
    /// Print the JSON Schema of a configuration, for editors
    #[command(after_help = DONE_OR_ERROR)]
    Schema(schema::SchemaCommand),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = DONE_OR_ERROR)]
    Completions(completions::CompletionsCommand),
    /// Write the manual pages
    #[command(hide = true, after_help = DONE_OR_ERROR)]
    Man(man::ManCommand),
    /// Print the version, and what this binary was built from
    #[command(after_help = DONE_OR_ERROR)]
    Version(version::VersionCommand),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        CliCommand::Serve(serve) => serve.run(),
        CliCommand::Check(check) => check.run(),
        CliCommand::Top(top) => top.run(),
        CliCommand::Admin(admin) => admin.run(),
        CliCommand::Init(init) => init.run(),
        CliCommand::Validate(validate) => validate.run(),
        CliCommand::Explain(explain) => explain.run(),
        CliCommand::Import(import) => import.run(),
        CliCommand::Simulate(simulate) => simulate.run(),
        CliCommand::Accuracy(accuracy) => accuracy.run(),
        CliCommand::Replay(replay) => replay.run(),
        CliCommand::Suggest(suggest) => suggest.run(),
        CliCommand::Judge(judge) => judge.run(),
        CliCommand::Health(health) => health.run(),
        CliCommand::Schema(schema) => schema.run(),
        CliCommand::Completions(completions) => completions.run(),
        CliCommand::Man(man) => man.run(),
        CliCommand::Version(version) => version.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}

/// The exit code for an invalid configuration.
const WRONG: u8 = 1;

/// The exit code for every other error. clap uses the same one for an invalid command line.
const ERROR: u8 = 2;

/// For commands that read a configuration.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  invalid configuration: every problem is listed on standard error
  2  any other error";

/// For commands that read none.
const DONE_OR_ERROR: &str = "\
Exit codes:
  0  done
  2  error";

const ALL_EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  invalid configuration: every problem is listed on standard error
  2  any other error
  3  `check`: the request was denied; `judge`: the limiter broke its rule";
