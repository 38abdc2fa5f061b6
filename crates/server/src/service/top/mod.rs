//! Counts which keys were used most often and denied most often in the last two minutes.

mod key_marks;
mod sketch;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use tidegate::Fingerprint;
use tidegate_wire::admin::{TopKey, TopStatus};

use crate::service::metrics::SLOTS;
pub(crate) use key_marks::KeyMarks;
use sketch::{COUNTERS, TopSketch};

/// Sketches of the busiest keys and of the most denied ones, for this minute and the previous one.
///
/// In each minute, each thread counts its first thousand decisions; after that it samples one in
/// sixteen, which counts for sixteen, and after a million one in 128. So a count is too high by at most
/// a 256th of the total. Beyond the first thousands it also has a sampling error: for a count of
/// 10,000, about 4 percent, or 11 percent if all of it came after the first million.
#[derive(Debug)]
pub(crate) struct TopKeys {
    shards: [CachePadded<TopShard>; SLOTS],
    marks: KeyMarks,
}

#[derive(Debug, Default)]
struct TopShard {
    busiest: MinuteSketches,
    denied: MinuteSketches,
}

#[derive(Debug, Default)]
struct MinuteSketches {
    /// Decisions of this minute that were counted or sampled.
    counted: AtomicU32,
    sketches: Mutex<SketchPair>,
}

#[derive(Debug, Default)]
struct SketchPair {
    current: TopSketch<KeyLabel>,
    previous: TopSketch<KeyLabel>,
}

/// What identifies a key in the list. It is formatted only when the list is read: with many keys, most
/// labels are soon replaced by others.
#[derive(Clone, Debug)]
struct KeyLabel {
    policy: Arc<str>,
    subject: Fingerprint,
    /// The key in clear, if it may be shown.
    key: Option<Box<str>>,
}

/// The key of a decision, as observed by the sketches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedKey<'a> {
    /// The subject, as a key of this policy.
    pub(crate) who: Fingerprint,
    pub(crate) policy: &'a Arc<str>,
    pub(crate) subject: Fingerprint,
    /// The key in clear, if it may be shown.
    pub(crate) entity: Option<&'a str>,
}

impl TopKeys {
    pub(crate) fn new(marks: KeyMarks) -> Self {
        Self { shards: Default::default(), marks }
    }

    /// The marks of keys that are not shown in clear.
    pub(crate) const fn marks(&self) -> &KeyMarks {
        &self.marks
    }

    /// Records a decision.
    pub(crate) fn observe(&self, slot: usize, seen: ObservedKey<'_>, is_denied: bool) {
        let Some(shard) = self.shards.get(slot) else { return };
        shard.busiest.observe(seen);
        if is_denied {
            shard.denied.observe(seen);
        }
    }

    /// Ends the minute: the current sketches become the previous ones.
    pub(crate) fn turn(&self) {
        let minutes = self.shards.iter().flat_map(|shard| [&shard.busiest, &shard.denied]);
        minutes.for_each(MinuteSketches::turn);
    }

    /// The most frequent keys of this minute and the previous one.
    pub(crate) fn list(&self, most: usize) -> TopStatus {
        let busiest: Vec<_> = self.shards.iter().map(|shard| &shard.busiest).collect();
        let denied: Vec<_> = self.shards.iter().map(|shard| &shard.denied).collect();
        let denied_keys = merge(&denied, &self.marks);
        let mut busiest_keys = merge(&busiest, &self.marks);
        // The two are sampled separately, but a key was decided on at least as often as it was denied.
        for (who, key) in &mut busiest_keys {
            if let Some(denied) = denied_keys.get(who).filter(|denied| denied.count > key.count) {
                (key.count, key.error) = (denied.count, denied.error);
            }
        }
        TopStatus {
            counters: COUNTERS as u64,
            busiest_total: total(&busiest),
            denied_total: total(&denied),
            busiest: most_frequent(busiest_keys, most),
            denied: most_frequent(denied_keys, most),
        }
    }
}

impl MinuteSketches {
    fn observe(&self, seen: ObservedKey<'_>) {
        let weight = match self.counted.load(Ordering::Relaxed) {
            0..COUNTED_ALL => 1,
            COUNTED_ALL..COUNTED_OFTEN => OFTEN,
            _ => SELDOM,
        };
        if fastrand::u8(..) > u8::MAX / weight {
            return;
        }
        self.counted.fetch_add(1, Ordering::Relaxed);
        let label = || KeyLabel {
            policy: Arc::clone(seen.policy),
            subject: seen.subject,
            key: seen.entity.map(presentable),
        };
        self.sketches.lock().current.add(seen.who, weight.into(), label);
    }

    fn turn(&self) {
        let mut sketches = self.sketches.lock();
        sketches.previous = std::mem::take(&mut sketches.current);
        self.counted.store(0, Ordering::Relaxed);
    }
}

fn presentable(key: &str) -> Box<str> {
    key.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

fn total(minutes: &[&MinuteSketches]) -> u64 {
    let sum = |minutes: &&MinuteSketches| {
        let sketches = minutes.sketches.lock();
        sketches.current.total().saturating_add(sketches.previous.total())
    };
    minutes.iter().map(sum).sum()
}

/// Adds up the sketches of all threads and their errors: a key that is missing from a sketch may have
/// occurred there as often as the least frequent key that is present.
fn merge(minutes: &[&MinuteSketches], marks: &KeyMarks) -> HashMap<Fingerprint, TopKey> {
    let mut merged: HashMap<Fingerprint, (TopKey, u64)> = HashMap::new();
    let mut unseen_in_all = 0_u64;
    for minute in minutes {
        let sketches = minute.sketches.lock();
        for sketch in [&sketches.current, &sketches.previous] {
            let unseen = sketch.most_unseen();
            unseen_in_all = unseen_in_all.saturating_add(unseen);
            for entry in sketch.entries() {
                let blank = || {
                    let KeyLabel { policy, subject, key } = &entry.label;
                    let policy = policy.as_ref().to_owned();
                    let key = key.as_deref().map_or_else(|| marks.of(*subject), str::to_owned);
                    (TopKey { policy, key, count: 0, error: 0 }, 0)
                };
                let (key, seen_in) = merged.entry(entry.who).or_insert_with(blank);
                key.count = key.count.saturating_add(entry.count);
                key.error = key.error.saturating_add(entry.error);
                *seen_in = seen_in.saturating_add(unseen);
            }
        }
    }
    let whole = |(who, (mut key, seen_in)): (Fingerprint, (TopKey, u64))| {
        let missed = unseen_in_all.saturating_sub(seen_in);
        key.count = key.count.saturating_add(missed);
        key.error = key.error.saturating_add(missed);
        (who, key)
    };
    merged.into_iter().map(whole).collect()
}

fn most_frequent(keys: HashMap<Fingerprint, TopKey>, most: usize) -> Vec<TopKey> {
    let mut keys: Vec<TopKey> = keys.into_values().collect();
    keys.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
    keys.truncate(most);
    keys
}

/// Up to this many, every decision is counted.
const COUNTED_ALL: u32 = 1_000;
/// Up to this many, which is after about a million decisions, one in [`OFTEN`] is sampled.
const COUNTED_OFTEN: u32 = COUNTED_ALL + 1_000_000 / 16;
/// Samples one decision in this many.
const OFTEN: u8 = 16;
/// Samples one decision in this many, when there are so many that the error does not matter.
const SELDOM: u8 = 128;
/// Characters of a key that are shown.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests;
