//! What a configuration would have done to the requests in a log.
//!
//! Time is the log's, and everything else is what ships: plans, limits, blocks and the embedded
//! store.

mod changes;
mod limiter;
mod report;
mod run;

pub use changes::ReplayChanges;
pub use limiter::{MemoryReplayLimiter, ReplayLimiter};
pub(crate) use report::log_notes;
pub use run::{PolicyTally, ReplayRun};

use tidegate::Plan;
use tidegate::config::{FileProblems, PolicySource};
use tidegate_policy::KeyHasher;

use crate::WorkProgress;
use crate::log::{LogInput, LogReadError, LogReader, LogSummary};

/// A replay of a configuration, and optionally of the current one to compare it with.
///
/// ```
/// use tidegate::config::PolicySource;
/// use tidegate_sim::log::LogInput;
/// use tidegate_sim::{WorkProgress, LogReplay};
///
/// let text = "policies: [{ name: per-ip, key: [ip], limits: [1/minute] }]";
/// let replay = LogReplay::load(&PolicySource::new("new.yaml", text)?, None)?;
/// let line = r#"9.9.9.9 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5"#;
/// let log = LogInput::bytes("access.log", format!("{line}\n{line}\n"));
/// let replayed = replay.run(vec![log], |reader| reader, &WorkProgress::default())?;
/// assert_eq!(replayed.new.denied(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogReplay {
    new: ReplayRun<MemoryReplayLimiter>,
    old: Option<ReplayRun<MemoryReplayLimiter>>,
}

/// The results of a replay.
#[derive(Debug)]
pub struct ReplayFindings {
    /// About the log itself.
    pub log_summary: LogSummary,
    /// The results of the configuration.
    pub new: ReplayRun<MemoryReplayLimiter>,
    /// The results of the current configuration, and the differences.
    pub old: Option<(ReplayRun<MemoryReplayLimiter>, ReplayChanges)>,
}

/// Why a configuration cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is invalid.
    #[error(transparent)]
    InvalidConfig(#[from] FileProblems),
    /// Its limits are not on attributes of requests.
    #[error(
        "{0}: its limits are on Envoy's descriptors, which no access log has; \
         `tidegate import` makes policies of them"
    )]
    Descriptors(String),
}

impl LogReplay {
    /// Loads the configuration, and the current one if it is given.
    ///
    /// # Errors
    ///
    /// All problems of a configuration.
    pub fn load(new: &PolicySource, old: Option<&PolicySource>) -> Result<Self, ReplayError> {
        Ok(Self { new: load_run(new)?, old: old.map(load_run).transpose()? })
    }

    /// Reads the log and decides its requests. `set_up` configures the reader.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or has no request.
    pub fn run(
        mut self,
        inputs: Vec<LogInput>,
        set_up: impl FnOnce(LogReader) -> LogReader,
        progress: &WorkProgress,
    ) -> Result<ReplayFindings, LogReadError> {
        let old = self.old.iter().flat_map(|old| old.plan().attributes());
        let wanted: Vec<String> =
            self.new.plan().attributes().chain(old).map(str::to_owned).collect();
        let reader = set_up(LogReader::new(wanted.iter().map(String::as_str)));
        let mut changes = ReplayChanges::default();
        let summary = reader.read(inputs, progress, |request| {
            let new = self.new.decide(request);
            if let Some(old) = &mut self.old {
                let was = old.decide(request);
                changes.record(&self.new, &new, old, &was, request);
            }
        })?;
        let summary = summary.require_requests()?;
        Ok(ReplayFindings {
            log_summary: summary,
            new: self.new,
            old: self.old.map(|old| (old, changes)),
        })
    }
}

/// Compiles a plan under a fixed secret, so that findings do not depend on the process.
pub(crate) fn compile(source: &PolicySource) -> Result<Plan, FileProblems> {
    Plan::compile_with(KeyHasher::shared(*b"tidegate replays"), source)
}

fn load_run(source: &PolicySource) -> Result<ReplayRun<MemoryReplayLimiter>, ReplayError> {
    let plan = compile(source)?;
    if !plan.domains().is_empty() {
        return Err(ReplayError::Descriptors(source.name().to_owned()));
    }
    Ok(ReplayRun::new(source.name(), MemoryReplayLimiter::new(plan)))
}
