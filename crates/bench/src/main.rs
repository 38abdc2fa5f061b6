//! Benchmarks: we, our peers and the physical limit, side by side in one run.
//!
//! Read the ratios, not the figures: a shared machine is noisy, but everyone in a run suffers
//! alike. Rounds are interleaved and medians reported for that reason.

#![allow(clippy::float_arithmetic, reason = "statistics are not decisions")]

mod contestant;
mod gateway;
mod memory;
mod policy;
mod redis;
mod speed;
mod stopwatch;
mod table;
mod workload;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Decisions in this process: speed, allocations and memory, beside governor, throttlecrab
    /// and a bare table.
    InProcess {
        /// Rounds of which the median is taken.
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Decisions of each thread in a round.
        #[arg(long, default_value_t = 1_000_000)]
        decisions: usize,
        /// Only the speed of workloads whose name contains this, such as "1k keys".
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// From a request to its charges, by plans of 10, 1,000 and 10,000 policies.
    Policy {
        /// Rounds of which the median is taken.
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Requests in a round.
        #[arg(long, default_value_t = 200_000)]
        requests: usize,
    },
    /// Decisions in Redis, beside the scripts that everyone writes first. Starts its own servers.
    Redis {
        /// Rounds of which the median is taken.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Decisions in a round.
        #[arg(long, default_value_t = 500_000)]
        decisions: u64,
    },
    /// Requests through the gateway, beside nginx and HAProxy before the same service. Pins
    /// programs to the first two cores.
    Gateway {
        /// Rounds of which the median is taken.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds of each measurement.
        #[arg(long, default_value_t = 4)]
        seconds: u64,
    },
    /// A gateway of its own. Called by `gateway`.
    #[command(hide = true)]
    GatewayServer {
        #[arg(long)]
        listen: String,
        #[arg(long)]
        upstream: String,
        #[arg(long)]
        store: String,
        #[arg(long)]
        limit: String,
    },
    /// Resident memory of one contestant, in a process of its own. Called by `in-process`.
    #[command(hide = true)]
    Memory { contestant: String, keys: usize },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().benchmark {
        Benchmark::InProcess { rounds, decisions, only } => {
            let workloads = only.as_deref().unwrap_or_default();
            speed::allowed(rounds, decisions, workloads);
            speed::denied(rounds, decisions, workloads);
            if only.is_some() {
                return Ok(());
            }
            speed::allocations();
            memory::compare()
        }
        Benchmark::Policy { rounds, requests } => policy::compare(rounds, requests),
        Benchmark::Redis { rounds, decisions } => redis::compare(rounds, decisions),
        Benchmark::Gateway { rounds, seconds } => gateway::compare(rounds, seconds),
        Benchmark::GatewayServer { listen, upstream, store, limit } => {
            gateway::serve(&listen, &upstream, &store, &limit)
        }
        Benchmark::Memory { contestant, keys } => memory::measure(&contestant, keys),
    }
}
