//! Denials that only a plan's limiter makes: a block, or others ahead in the queue.

use tidegate_core::{Span, Verdict};
use tidegate_store::Verdicts;

use super::{Decision, bit};

impl Decision {
    /// The same decision as a denial with other verdicts.
    pub(crate) fn denied(self, verdicts: Verdicts) -> Self {
        Self { allowed: false, verdicts, ..self }
    }

    /// Denied at `index` as a penalty for an earlier denial: nothing remains until the penalty ends,
    /// whatever the limit has left. A cost that never fits keeps no wait.
    pub(crate) fn blocked(mut self, index: usize, wait: Span) -> Self {
        let is_hopeless = self.verdicts.get(index).is_some_and(Verdict::is_hopeless);
        self = self.with_wait(index, wait);
        self.blocked |= bit(index);
        self.enforced |= bit(index);
        if let Some(verdict) = self.verdicts.get_mut(index) {
            verdict.remaining = 0;
            verdict.retry_after = verdict.retry_after.filter(|_| !is_hopeless);
        }
        self
    }

    /// Denied at `index` because other callers are ahead in the queue, without a look at the counter.
    /// A cost that never fits keeps no wait.
    pub(crate) fn turned_away(mut self, index: usize, wait: Span) -> Self {
        if !self.verdicts.get(index).is_some_and(Verdict::is_hopeless) {
            self = self.with_wait(index, wait);
        }
        if let Some(verdict) = self.verdicts.get_mut(index) {
            verdict.remaining = 0;
        }
        self
    }

    /// The decision about a peek as one about the smallest cost: denied where nothing remains.
    pub(crate) fn denied_if_used_up(mut self) -> Self {
        for index in 0..self.verdicts.len() {
            let verdict = self.verdicts.get(index).filter(|_| self.counts(index));
            if let Some(used_up) = verdict.copied().filter(|it| it.allowed && it.remaining == 0) {
                self = self.with_wait(index, used_up.reset_after);
            }
        }
        self
    }

    /// Denied, and the charge at `index` has to wait at least `wait`.
    pub(crate) fn with_wait(mut self, index: usize, wait: Span) -> Self {
        self.allowed = false;
        if let Some(verdict) = self.verdicts.get_mut(index) {
            verdict.allowed = false;
            verdict.retry_after = verdict.retry_after.max(Some(wait));
            verdict.reset_after = verdict.reset_after.max(wait);
        } else {
            self.retry_after = self.retry_after.max(Some(wait));
        }
        self
    }
}
