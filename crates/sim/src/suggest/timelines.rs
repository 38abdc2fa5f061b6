//! The request times of each key: of all keys, or of a sample if there are too many requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use foldhash::fast::FixedState;
use tidegate::{Limit, Span, Timestamp};
use tidegate_core::Fingerprint;

use crate::RollingCount;
use crate::decide::decide_all;

/// Collects requests by key, and samples keys if there are too many.
///
/// Whenever more than sixteen million requests are held, half of the keys are dropped with all of
/// their requests. Only a key's fingerprint decides, so the rest is a fair sample of keys.
#[derive(Debug)]
pub(super) struct KeySampler {
    numbers: HashMap<Fingerprint, u32, FixedState>,
    keys: Vec<u32>,
    times: Vec<Timestamp>,
    most: usize,
    /// One key in two to the power of this is kept.
    halved: u32,
    /// All requests that came, kept or not.
    seen: u64,
}

impl KeySampler {
    pub(super) fn new() -> Self {
        Self::with_room_for(1 << 24)
    }

    fn with_room_for(most: usize) -> Self {
        Self {
            numbers: HashMap::default(),
            keys: Vec::new(),
            times: Vec::new(),
            most,
            halved: 0,
            seen: 0,
        }
    }

    pub(super) fn add(&mut self, key: Fingerprint, at: Timestamp) {
        self.seen += 1;
        if !self.is_sampled(key) {
            return;
        }
        let next = self.numbers.len() as u32;
        self.keys.push(*self.numbers.entry(key).or_insert(next));
        self.times.push(at);
        while self.times.len() > self.most && self.halved < 32 {
            self.halve();
        }
    }

    fn is_sampled(&self, key: Fingerprint) -> bool {
        key.low() & ((1 << self.halved) - 1) == 0
    }

    fn halve(&mut self) {
        self.halved += 1;
        let mut renumbered = vec![u32::MAX; self.numbers.len()];
        let old = std::mem::take(&mut self.numbers);
        for (key, number) in old {
            if self.is_sampled(key) {
                let new = self.numbers.len() as u32;
                self.numbers.insert(key, new);
                if let Some(place) = renumbered.get_mut(number as usize) {
                    *place = new;
                }
            }
        }
        let renumber = |key: &u32| renumbered.get(*key as usize).copied().unwrap_or(u32::MAX);
        let mut kept = self.keys.iter().map(|key| renumber(key) != u32::MAX);
        self.times.retain(|_| kept.next().unwrap_or(false));
        self.keys = self.keys.iter().map(renumber).filter(|key| *key != u32::MAX).collect();
    }

    /// Sorts the requests by key.
    pub(super) fn into_timelines(self) -> KeyTimelines {
        let mut ends = vec![0_usize; self.numbers.len() + 1];
        for key in &self.keys {
            ends[*key as usize + 1] += 1;
        }
        for index in 1..ends.len() {
            ends[index] += ends[index - 1];
        }
        let (mut places, mut times) = (ends.clone(), vec![Timestamp::ZERO; self.times.len()]);
        for (key, at) in self.keys.iter().zip(&self.times) {
            let place = &mut places[*key as usize];
            times[*place] = *at;
            *place += 1;
        }
        KeyTimelines { ends, times, halved: self.halved, seen: self.seen }
    }
}

/// Requests by key, each key's in order.
#[derive(Debug)]
pub(super) struct KeyTimelines {
    ends: Vec<usize>,
    times: Vec<Timestamp>,
    pub(super) halved: u32,
    /// Requests of all keys, including those that were dropped.
    pub(super) seen: u64,
}

/// How many requests and keys a limit would deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitDenials {
    pub(super) requests: u64,
    pub(super) keys: u64,
}

impl KeyTimelines {
    pub(super) fn requests(&self) -> u64 {
        self.times.len() as u64
    }

    pub(super) fn keys(&self) -> u64 {
        self.ends.len().saturating_sub(1) as u64
    }

    fn key(&self, number: usize) -> &[Timestamp] {
        match (self.ends.get(number), self.ends.get(number + 1)) {
            (Some(start), Some(end)) => self.times.get(*start..*end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// What a limit would deny. A key with no more requests than the limit's capacity is never denied,
    /// by any algorithm.
    pub(super) fn denied_by(&self, limit: &Limit) -> LimitDenials {
        let capacity = limit.capacity();
        let parts = self.each_key(LimitDenials::default, |times, sum: &mut LimitDenials| {
            if times.len() as u64 > capacity {
                let mut denied = 0;
                decide_all(limit, times, |allowed| denied += u64::from(!allowed));
                sum.requests += denied;
                sum.keys += u64::from(denied > 0);
            }
        });
        parts.iter().fold(LimitDenials::default(), |sum, part| LimitDenials {
            requests: sum.requests + part.requests,
            keys: sum.keys + part.keys,
        })
    }

    /// The fullest window of each key, in ascending order.
    pub(super) fn peaks(&self, window: Span) -> Vec<u64> {
        let start = || (RollingCount::new(window), Vec::new());
        let parts = self.each_key(start, |times, (trailing, peaks)| {
            trailing.clear();
            let mut peak = 0;
            for at in times {
                trailing.add(*at);
                peak = peak.max(trailing.count(*at));
            }
            peaks.push(peak);
        });
        let mut peaks: Vec<u64> = parts.into_iter().flat_map(|(_, peaks)| peaks).collect();
        peaks.sort_unstable();
        peaks
    }

    /// Folds over all keys, on all cores.
    fn each_key<T: Send>(
        &self,
        start: impl Fn() -> T + Sync,
        fold: impl Fn(&[Timestamp], &mut T) + Sync,
    ) -> Vec<T> {
        let (next, all) = (AtomicUsize::new(0), self.keys() as usize);
        let work = || {
            let mut sum = start();
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= all {
                    return sum;
                }
                let last = (first + BATCH).min(all);
                (first..last).for_each(|number| fold(self.key(number), &mut sum));
            }
        };
        thread::scope(|scope| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, T>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        })
    }
}

/// Keys that a thread takes at a time.
const BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    #[test]
    fn a_sample_keeps_whole_keys() {
        let mut sampler = KeySampler::with_room_for(10_000);
        let mut random = SeededRandom::new(2);
        let keys: Vec<_> =
            (0..1_000).map(|_| Fingerprint::new(random.bits(), random.bits())).collect();
        for round in 0..50 {
            keys.iter().for_each(|key| sampler.add(*key, Timestamp::from_secs(round)));
        }
        let sampled = sampler.into_timelines();
        assert!(sampled.halved >= 3 && sampled.requests() <= 10_000);
        assert!(sampled.keys() > 50, "{}", sampled.keys());
        for number in 0..sampled.keys() as usize {
            let times = sampled.key(number);
            assert!(times.len() == 50 && times.is_sorted());
        }
        assert_eq!(sampled.seen, 50_000);
    }

    #[test]
    fn a_key_that_does_not_fit_is_dropped_and_still_seen() {
        let mut sampler = KeySampler::with_room_for(100);
        let (busy, calm) = (Fingerprint::new(1, 0b10), Fingerprint::new(2, 0b100));
        (0..2_000).for_each(|round| sampler.add(busy, Timestamp::from_secs(round)));
        sampler.add(calm, Timestamp::from_secs(5));
        let sampled = sampler.into_timelines();
        assert_eq!((sampled.requests(), sampled.seen, sampled.halved), (1, 2_001, 2));
    }

    #[test]
    fn where_no_key_fits_the_error_does_not_say_that_there_is_none() {
        let mut sampler = KeySampler::with_room_for(100);
        let only = Fingerprint::new(1, 0b10);
        (0..2_000).for_each(|round| sampler.add(only, Timestamp::from_secs(round)));
        let sampled = sampler.into_timelines();
        assert_eq!((sampled.requests(), sampled.seen), (0, 2_000));
        let search = crate::LimitSearch::new(vec!["ip".to_owned()], Span::from_secs(60));
        let error = search.no_requests_error(sampled.seen, 3_000, Vec::new()).to_string();
        assert!(error.starts_with("each key ip has more requests than can be examined"), "{error}");
        let error = search.no_requests_error(0, 3_000, Vec::new()).to_string();
        assert!(error.starts_with("no request of 3000 has the key ip"), "{error}");
    }
}
