//! Benchmarks: Tidegate, its peers and the physical limit, side by side in one run.
//!
//! Read the ratios, not the figures: a shared machine is noisy, but all contestants of a run are
//! affected alike. Rounds are interleaved and medians reported for that reason; where servers are compared, a
//! ratio is the median of the ratios of all rounds.

#![allow(clippy::float_arithmetic, reason = "statistics are not decisions")]

mod contestant;
mod far;
mod figures;
mod gateway;
mod grpc;
mod http;
mod idle_memory;
mod load;
mod median;
mod memory;
mod policy;
mod redis;
mod resp;
mod running;
mod server_memory;
mod speed;
mod stopwatch;
mod table;
mod tower;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::figures::{FOLDER, Figures};

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
    /// Writes the figures that documents cite, to docs/figures or to another folder. Afterwards,
    /// `cargo run -p xtask -- figures` puts them into the documents.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = FOLDER
    )]
    record: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Decisions in this process: speed, allocations and memory, beside governor, throttlecrab
    /// and a bare table.
    InProcess {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Decisions per thread in a round.
        #[arg(long, default_value_t = 1_000_000)]
        decisions: usize,
        /// Only the speed of workloads whose name contains this, such as "1k keys".
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// From a request to its charges, with plans of 10, 1,000 and 10,000 policies.
    Policy {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Requests in a round.
        #[arg(long, default_value_t = 200_000)]
        requests: usize,
    },
    /// Decisions in Redis, beside the usual scripts. Starts its own servers.
    Redis {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Decisions in a round.
        #[arg(long, default_value_t = 500_000)]
        decisions: u64,
        /// Only workloads whose name contains this, such as "fixed-window, one key".
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// A Redis that is far away: how many decisions miss their deadline. Starts its own servers.
    Far {
        /// Round trips in milliseconds.
        #[arg(long, value_delimiter = ',', default_values_t = [3, 4, 5, 6, 8])]
        round_trips: Vec<u64>,
        /// How long a decision may take, in milliseconds.
        #[arg(long, default_value_t = 10)]
        deadline: u64,
        /// Decisions a second.
        #[arg(long, default_value_t = 5_000)]
        rate: u32,
        /// Seconds at each distance.
        #[arg(long, default_value_t = 10)]
        seconds: u32,
    },
    /// The Redis protocol, beside a server that only answers PING, and beside throttlecrab's if it
    /// is installed. Starts its own servers.
    Resp {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
        /// How long each kind of traffic lasts in a round.
        #[arg(long, default_value_t = 0.4)]
        seconds: f64,
        /// Only this many commands in flight for each client: 1, 16 or 64.
        #[arg(long, value_name = "COMMANDS")]
        depth: Option<usize>,
        /// Only traffic whose name contains this, such as "RL.CHECK".
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Checks over HTTP, beside a hyper server that decides nothing, and beside throttlecrab's if
    /// it is installed; then with Redis. One core for the server, another for the load.
    Http {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 9)]
        rounds: usize,
        /// How long each kind of traffic lasts in a round.
        #[arg(long, default_value_t = 0.4)]
        seconds: f64,
    },
    /// Envoy's rate limit service, beside a bare tonic server that decides nothing. One core for
    /// the server, another for the load.
    Grpc {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Calls in a round.
        #[arg(long, default_value_t = 500_000)]
        calls: u64,
    },
    /// What a layer adds to a request, beside tower_governor.
    Tower {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 301)]
        rounds: usize,
        /// Requests in a round.
        #[arg(long, default_value_t = 10_000)]
        requests: usize,
        /// Only workloads whose name contains this, such as "denied".
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Requests through the gateway, beside nginx and HAProxy in front of the same service. Pins
    /// programs to the first two cores.
    Gateway {
        /// The number of rounds; the median is reported.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds of each measurement.
        #[arg(long, default_value_t = 4)]
        seconds: u64,
    },
    /// Resident memory of one contestant, in its own process. Called by `in-process`.
    #[command(hide = true)]
    MemoryOf { contestant: String, keys: usize },
    /// Resident memory of the whole server, per key and per idle connection. Needs the server's binary
    /// beside this one: `scripts/bench memory` builds both.
    Memory {
        /// The server, if it is elsewhere.
        #[arg(long, value_name = "FILE")]
        server: Option<PathBuf>,
        /// How many keys.
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
        /// How many connections.
        #[arg(long, default_value_t = 6_000)]
        connections: usize,
    },
}

/// A server under measurement, in its own process, until it is killed.
#[derive(Parser)]
enum Server {
    Http { contestant: String },
    Resp { contestant: String },
    Grpc { contestant: String, limit: String },
    Gateway { listen: String, upstream: String, store: String, limit: String },
}

/// Counts the allocations of a closure.
type Allocations = fn(&mut dyn FnMut()) -> u64;

/// Runs the benchmark of the command line, and records its figures if that was asked for.
pub fn run(allocations: Allocations) -> anyhow::Result<()> {
    let matches = Arguments::command().get_matches();
    let Arguments { benchmark, record } = Arguments::from_arg_matches(&matches)?;
    let is_debug_build = cfg!(debug_assertions);
    let is_for_documents = record.as_deref() == Some(FOLDER.as_ref());
    ensure!(!(is_debug_build && is_for_documents), "a debug build has no figures to record");
    let mut figures = Figures::default();
    measure(benchmark, allocations, &mut figures)?;
    match (record, matches.subcommand_name()) {
        (Some(folder), Some(name)) => figures.write(name, &folder),
        _ => Ok(()),
    }
}

fn measure(
    benchmark: Benchmark,
    allocations: Allocations,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    match benchmark {
        Benchmark::InProcess { rounds, decisions, only } => {
            let workloads = only.as_deref().unwrap_or_default();
            speed::allowed(rounds, decisions, workloads, figures);
            speed::denied(rounds, decisions, workloads, figures);
            if only.is_some() {
                return Ok(());
            }
            speed::allocations(allocations);
            memory::compare(figures)
        }
        Benchmark::Policy { rounds, requests } => {
            policy::compare(rounds, requests, allocations, figures)
        }
        Benchmark::Redis { rounds, decisions, only } => {
            redis::compare(rounds, decisions, &only, figures)
        }
        Benchmark::Far { round_trips, deadline, rate, seconds } => {
            let round_trips: Vec<_> = round_trips.into_iter().map(Duration::from_millis).collect();
            let deadline = Duration::from_millis(deadline);
            let setting = far::Setting { deadline, rate: rate.max(1), seconds };
            far::measure(&round_trips, &setting, figures)
        }
        Benchmark::Resp { rounds, seconds, depth, only } => {
            resp::compare(rounds, seconds, depth, &only, figures)
        }
        Benchmark::Http { rounds, seconds } => http::compare(rounds, seconds, figures),
        Benchmark::MemoryOf { contestant, keys } => memory::measure(&contestant, keys),
        Benchmark::Memory { server, keys, connections } => {
            let program = server_memory::program(server)?;
            server_memory::measure(&program, keys, figures)?;
            idle_memory::measure(&program, connections, figures)
        }
        Benchmark::Grpc { rounds, calls } => grpc::compare(rounds, calls, figures),
        Benchmark::Tower { rounds, requests, only } => {
            tower::compare(rounds, requests, &only, figures)
        }
        Benchmark::Gateway { rounds, seconds } => gateway::compare(rounds, seconds, figures),
    }
}

/// Runs the server of the command line.
pub fn serve() -> anyhow::Result<()> {
    match Server::parse() {
        Server::Http { contestant } => http::serve(&contestant),
        Server::Resp { contestant } => resp::serve(&contestant),
        Server::Grpc { contestant, limit } => grpc::serve(&contestant, &limit),
        Server::Gateway { listen, upstream, store, limit } => {
            gateway::serve(&listen, &upstream, &store, &limit)
        }
    }
}
