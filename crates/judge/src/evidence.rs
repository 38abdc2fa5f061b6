//! What a key's calls say for certain, and what they leave open.
//!
//! A call was decided somewhere between the moment it was sent and the moment its answer was there,
//! give or take the error of the clocks. An admitted call is *certainly* charged, at a time within
//! that span. A call without an answer is *possibly* charged, at any time after it was sent.

use crate::cost_curve::{CostCurve, CostPoint, WorkMeter};
use crate::history::{CallVerdict, JudgedCall};

/// A key's calls in the order in which they were sent, and the sums of their costs.
#[derive(Debug)]
pub(crate) struct KeyEvidence<'a> {
    pub(crate) calls: &'a [JudgedCall],
    pub(crate) work: &'a WorkMeter,
    /// What was charged, whatever happened.
    pub(crate) certain: UsageCurves,
    /// What can have been charged at most.
    pub(crate) possible: UsageCurves,
    clock_error: i64,
    suspicion: ChargeSuspicion,
    /// Charges from before the first call, if there can be any.
    earlier: Option<CostPoint>,
}

/// Costs by the earliest and by the latest time at which they can have been charged.
#[derive(Debug)]
pub(crate) struct UsageCurves {
    /// By the earliest time.
    pub(crate) begun: CostCurve,
    /// By the latest; a call without an answer has none.
    pub(crate) ended: CostCurve,
}

/// Whose costs can have been charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeSuspicion {
    /// Those of admitted calls, and of calls without an answer.
    AsPromised,
    /// Those of denied calls too, which no rule here allows.
    DeniedToo,
}

/// How calls are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvidenceOptions {
    /// How much the limiter's clock can differ from ours, in microseconds.
    pub(crate) clock_error: i64,
    /// What can have been charged before the first call.
    pub(crate) charged_before: u64,
    pub(crate) suspicion: ChargeSuspicion,
}

impl<'a> KeyEvidence<'a> {
    pub(crate) fn new(
        calls: &'a [JudgedCall],
        options: EvidenceOptions,
        work: &'a WorkMeter,
    ) -> Self {
        let EvidenceOptions { clock_error, charged_before, suspicion } = options;
        let none = || UsageCurves { begun: CostCurve::default(), ended: CostCurve::default() };
        let first = calls.first().map_or(0, |call| call.sent.saturating_sub(clock_error));
        let before = CostPoint { at: LONG_AGO, cost: charged_before, end: first };
        let mut evidence = Self {
            calls,
            work,
            certain: none(),
            possible: none(),
            clock_error,
            suspicion,
            earlier: (charged_before > 0).then_some(before),
        };
        evidence.certain = evidence.curves(evidence.points(JudgedCall::is_admitted), false);
        let possible = evidence.points(|call| evidence.is_possible(call)).chain(evidence.earlier);
        evidence.possible = evidence.curves(possible, true);
        evidence
    }

    fn curves(&self, points: impl Iterator<Item = CostPoint>, open: bool) -> UsageCurves {
        let begun: Vec<_> = points.collect();
        self.work.add(4 * begun.len() as u64);
        let ended = begun.iter().filter(|point| !open || point.end < NEVER);
        let ended = ended.map(|point| CostPoint { at: point.end, ..*point }).collect();
        UsageCurves { begun: CostCurve::new(begun), ended: CostCurve::new(ended) }
    }

    fn points(&self, counts: impl Fn(&JudgedCall) -> bool) -> impl Iterator<Item = CostPoint> {
        let calls = self.calls.iter().enumerate().filter(move |(_, call)| counts(call));
        calls.map(|(index, call)| {
            let is_open = matches!(call.verdict, CallVerdict::Failed(_));
            let end = if is_open { NEVER } else { self.latest(index) };
            CostPoint { at: self.earliest(index), cost: call.cost, end }
        })
    }

    fn is_possible(&self, call: &JudgedCall) -> bool {
        self.suspicion == ChargeSuspicion::DeniedToo || !call.is_denied()
    }

    /// The admitted calls: their index, and from when until when they can have been decided.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = (usize, CostPoint)> {
        let calls = self.calls.iter().enumerate().filter(|(_, call)| call.is_admitted());
        calls.map(|(index, call)| {
            let (at, end) = (self.earliest(index), self.latest(index));
            (index, CostPoint { at, cost: call.cost, end })
        })
    }

    /// Everything that can have been charged, and has an end.
    pub(crate) fn possible_points(&self) -> Vec<CostPoint> {
        let points = self.points(|call| self.is_possible(call)).chain(self.earlier);
        points.filter(|point| point.end < NEVER).collect()
    }

    /// When the call can have been decided at the earliest.
    pub(crate) fn earliest(&self, index: usize) -> i64 {
        self.calls.get(index).map_or(0, |call| call.sent.saturating_sub(self.clock_error))
    }

    /// When the call can have been decided at the latest.
    pub(crate) fn latest(&self, index: usize) -> i64 {
        self.calls.get(index).map_or(0, |call| call.received.saturating_add(self.clock_error))
    }

    /// The call's own part of what is possible.
    pub(crate) fn own(&self, index: usize) -> u128 {
        let call = self.calls.get(index).filter(|call| self.is_possible(call));
        call.map_or(0, |call| u128::from(call.cost))
    }
}

/// The end of a call that has none.
pub(crate) const NEVER: i64 = i64::MAX / 2;
const LONG_AGO: i64 = i64::MIN / 2;
