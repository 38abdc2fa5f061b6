//! `tidegate judge`: finds answers of a limiter, ours or not, that its rule does not explain.

mod report;
mod target;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate::{AlgorithmKind, Quota, Span};
use tidegate_judge::{CallHistory, HistoryRecorder, Judge, JudgedRule, LimiterRun, WorkloadPlan};

use self::target::JudgeTargetArgs;
use crate::number;
use crate::output::OutputArgs;

/// The options of `judge`.
#[derive(Debug, clap::Args)]
pub(crate) struct JudgeCommand {
    #[command(flatten)]
    rule: JudgeRuleArgs,
    #[command(flatten)]
    target: JudgeTargetArgs,
    #[command(flatten)]
    load: JudgeLoadArgs,
    /// Judge a recorded history instead, one call per line of JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["http", "grpc", "resp", "command"])]
    history: Option<PathBuf>,
    /// Record the calls and their answers, for --history
    #[arg(long, value_name = "FILE", conflicts_with = "history", help_heading = "Output")]
    record: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What the limiter promises.
#[derive(Debug, clap::Args)]
pub(crate) struct JudgeRuleArgs {
    /// The limit of each key, such as 100/minute or 20/second burst 5
    #[arg(long, value_name = "QUOTA", help_heading = "Rule")]
    limits: Quota,
    /// fixed-window, sliding-window, sliding-log, token-bucket or stepped-window. By default a
    /// token-bucket if the limit has a burst, otherwise sliding-window
    #[arg(long, value_name = "NAME", help_heading = "Rule")]
    algorithm: Option<AlgorithmKind>,
    /// Judge only this: at-most (no more than the limit in any window)
    #[arg(long, value_name = "NAME", conflicts_with = "algorithm", help_heading = "Rule",
        value_parser = ["at-most"])]
    promise: Option<String>,
    /// When windows of a fixed-window begin: at multiples of their length since the epoch, or at any
    /// time, such as with a key's first request
    #[arg(long, value_name = "WHEN", help_heading = "Rule", default_value = "epoch",
        value_parser = ["epoch", "any"])]
    windows: String,
    /// The steps of a stepped-window
    #[arg(long, value_name = "N", help_heading = "Rule")]
    steps: Option<u64>,
    /// How much the limiter's clock can differ from ours, or how coarse it is
    #[arg(long, value_name = "SPAN", default_value = "1ms", help_heading = "Rule")]
    clock_error: Span,
    /// The keys can have been used before
    #[arg(long, help_heading = "Rule")]
    warm: bool,
}

/// How the limiter is called.
#[derive(Debug, clap::Args)]
pub(crate) struct JudgeLoadArgs {
    /// How long to call it; by default four windows, but 5 s to 5 min
    #[arg(long = "for", value_name = "SPAN", help_heading = "Load")]
    span: Option<Span>,
    /// The same seed asks for the same
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,
    /// How many keys
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Load",
        value_parser = |text: &str| number::whole::<u32>(text, 1..=100_000))]
    keys: u32,
    /// How many calls can be in flight
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Load",
        value_parser = |text: &str| number::whole::<u32>(text, 1..=1_024))]
    callers: u32,
    /// The largest cost; by default 3 where a template has {cost}
    #[arg(long, value_name = "N", help_heading = "Load",
        value_parser = |text: &str| number::whole::<u64>(text, 1..=1_000_000_000_000_000))]
    max_cost: Option<u64>,
    /// The most calls of a burst
    #[arg(long, value_name = "N", default_value_t = 300, help_heading = "Load",
        value_parser = |text: &str| number::whole::<u64>(text, 1..=100_000))]
    max_burst: u64,
    /// How long to wait for an answer
    #[arg(long, value_name = "SPAN", default_value = "5s", help_heading = "Load")]
    timeout: Span,
}

impl JudgeRuleArgs {
    fn rule(&self) -> anyhow::Result<JudgedRule> {
        if self.promise.is_some() {
            return Ok(JudgedRule::at_most(&self.limits)?);
        }
        let kind = self.algorithm.unwrap_or_else(|| AlgorithmKind::for_quota(&self.limits));
        let mut rule = JudgedRule::new(kind, &self.limits)?;
        if self.windows == "any" {
            rule = rule.with_loose_windows()?;
        }
        if let Some(steps) = self.steps {
            rule = rule.with_steps(steps)?;
        }
        Ok(rule)
    }
}

impl JudgeCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let rule = self.rule.rule()?;
        self.output.check()?;
        let mut history = match &self.history {
            Some(path) => {
                let shown = path.display();
                let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
                CallHistory::read(BufReader::new(file)).with_context(|| shown.to_string())?
            }
            None => self.call(&rule)?,
        };
        if let Some(path) = &self.record {
            let file = File::create(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            HistoryRecorder::new(BufWriter::new(file)).record(&history)?;
        }
        let (clock_error, warm) = (self.rule.clock_error, self.rule.warm);
        let judgement = Judge { rule, clock_error, warm }.judge(&mut history);
        if judgement.admitted + judgement.denied == 0 {
            match &judgement.first_error {
                Some(error) => bail!("no call was answered: {error}"),
                None => bail!("there are no calls to judge"),
            }
        }
        self.output.show(report::report(&judgement))?;
        let is_clean = judgement.is_clean();
        Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
    }

    fn call(&self, rule: &JudgedRule) -> anyhow::Result<CallHistory> {
        let targets = self.target.targets()?;
        if targets.is_empty() {
            bail!("nothing to judge: expected --http, --grpc, --resp, --command or --history");
        }
        let load = &self.load;
        let usual_cost = if self.target.takes_a_cost() { 3 } else { 1 };
        let window = self.rule.limits.window().as_micros();
        let usual_span = Span::from_micros(window.saturating_mul(4).clamp(SHORTEST, LONGEST));
        let plan = WorkloadPlan {
            seed: load.seed,
            keys: load.keys,
            instances: 1,
            most_cost: load.max_cost.unwrap_or(usual_cost).min(rule.capacity()),
            most_burst: load.max_burst,
            span: load.span.unwrap_or(usual_span),
            start: 0,
        };
        let run = LimiterRun {
            plan,
            callers: load.callers,
            patience: Duration::from_micros(load.timeout.as_micros()),
            key_prefix: format!("judge-{:x}-", std::process::id()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(run.record(&targets, rule))?)
    }
}

const SHORTEST: u64 = 5_000_000;
const LONGEST: u64 = 300_000_000;

/// The exit code if the limiter broke its rule.
const FOUND: u8 = 3;

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  every answer can be explained by the rule
  2  error
  3  some answers cannot";
