//! The access log: a JSON object for each request, written by a thread of its own. A request never
//! waits for it; what does not fit into its queue is counted and dropped.

mod record;
mod writer;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::config::gateway;
use tidegate::{Clock as _, SystemClock, Timestamp};

pub(crate) use record::{About, Record};
pub(crate) use writer::LogError;
use writer::Writer;

/// Where requests are written down.
#[derive(Debug)]
pub(crate) struct AccessLog {
    about: gateway::AccessLog,
    writer: Writer,
    clock: SystemClock,
    dropped: AtomicU64,
    /// Other in every process: what is hashed cannot be looked up in a table.
    secret: RandomState,
}

impl AccessLog {
    pub(crate) fn open(about: &gateway::AccessLog) -> Result<Self, LogError> {
        Ok(Self {
            writer: Writer::start(about.file.as_deref())?,
            about: about.clone(),
            clock: SystemClock::new(),
            dropped: AtomicU64::new(0),
            secret: RandomState::new(),
        })
    }

    /// Whether it was opened by this.
    pub(crate) fn is_of(&self, about: &gateway::AccessLog) -> bool {
        self.about == *about
    }

    /// A record of a request that begins now, if it is one of the sample.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Box<Record>> {
        let is_meant = self.about.sample_permille >= 1_000
            || fastrand::u16(..1_000) < self.about.sample_permille;
        is_meant.then(|| Box::new(Record::new(Arc::clone(self))))
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A caller as it is shown.
    fn shown(&self, key: &str) -> String {
        match self.about.shows_keys {
            true => key.to_owned(),
            false => format!("#{:016x}", self.secret.hash_one(key)),
        }
    }

    fn write(&self, line: Vec<u8>) {
        if !self.writer.send(line) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many records found no room in the queue.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
