//! What a configuration would have done to the requests in a log.
//!
//! Time is the log's, and everything else is what ships: plans, limits, blocks and the embedded
//! store.

mod compare;
mod court;
mod report;
mod side;

pub use compare::Changes;
pub use court::{Court, MemoryCourt};
pub(crate) use report::notes_on;
pub use side::{PolicyTally, Side};

use tidegate::Plan;
use tidegate::config::{Problems, Source};
use tidegate_policy::KeyHasher;

use crate::Progress;
use crate::log::{Input, LogError, LogReader, Reading};

/// A configuration, and optionally the current one to compare it with.
///
/// ```
/// use tidegate::config::Source;
/// use tidegate_sim::log::Input;
/// use tidegate_sim::{Progress, Replay};
///
/// let text = "policies: [{ name: per-ip, key: [ip], limits: [1/minute] }]";
/// let replay = Replay::load(&Source::new("new.yaml", text)?, None)?;
/// let line = r#"9.9.9.9 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5"#;
/// let log = Input::bytes("access.log", format!("{line}\n{line}\n"));
/// let replayed = replay.run(vec![log], |reader| reader, &Progress::default())?;
/// assert_eq!(replayed.new.denied(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    new: Side<MemoryCourt>,
    old: Option<Side<MemoryCourt>>,
}

/// What would have happened.
#[derive(Debug)]
pub struct Replayed {
    /// About the log itself.
    pub reading: Reading,
    /// Under the configuration.
    pub new: Side<MemoryCourt>,
    /// Under the one it is compared with, and what differs.
    pub old: Option<(Side<MemoryCourt>, Changes)>,
}

/// Why a configuration cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
    /// Its limits are not on attributes of requests.
    #[error(
        "{0}: its limits are on Envoy's descriptors, which no access log has; \
         `tidegate import` makes policies of them"
    )]
    Descriptors(String),
}

impl Replay {
    /// Loads what users wrote.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load(new: &Source, old: Option<&Source>) -> Result<Self, ReplayError> {
        Ok(Self { new: side(new)?, old: old.map(side).transpose()? })
    }

    /// Reads the log. `set_up` may choose how.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or has no request.
    pub fn run(
        mut self,
        inputs: Vec<Input>,
        set_up: impl FnOnce(LogReader) -> LogReader,
        progress: &Progress,
    ) -> Result<Replayed, LogError> {
        let old = self.old.iter().flat_map(|old| old.plan().attributes());
        let wanted: Vec<String> =
            self.new.plan().attributes().chain(old).map(str::to_owned).collect();
        let reader = set_up(LogReader::new(wanted.iter().map(String::as_str)));
        let mut changes = Changes::default();
        let reading = reader.read(inputs, progress, |request| {
            let new = self.new.decide(request);
            if let Some(old) = &mut self.old {
                let was = old.decide(request);
                changes.note(&self.new, &new, old, &was, request);
            }
        })?;
        let reading = reading.of_some()?;
        Ok(Replayed { reading, new: self.new, old: self.old.map(|old| (old, changes)) })
    }
}

/// Under a fixed secret: the findings must not depend on the process that makes them.
pub(crate) fn compile(source: &Source) -> Result<Plan, Problems> {
    Plan::compile_with(KeyHasher::shared(*b"tidegate replays"), source)
}

fn side(source: &Source) -> Result<Side<MemoryCourt>, ReplayError> {
    let plan = compile(source)?;
    if !plan.domains().is_empty() {
        return Err(ReplayError::Descriptors(source.name().to_owned()));
    }
    Ok(Side::new(source.name(), MemoryCourt::new(plan)))
}
