//! The state of a counter of any algorithm, as stores outside this process rebuild it.

use crate::algorithm::{self, Algorithm};
use crate::{Cost, Limit, Timestamp, Verdict};

macro_rules! states {
    ($($Name:ident $file:ident $name:literal,)*) => {
        /// The state of a key whose algorithm is known only at run time.
        ///
        /// ```
        /// use tidegate_core::algorithm::FixedWindow;
        /// use tidegate_core::{Cost, Limit, CounterState, Timestamp};
        ///
        /// let limit: Limit = "5/minute".parse()?;
        /// let now = Timestamp::from_secs(1);
        /// let mut state = CounterState::fresh(&limit);
        /// assert_eq!(state.commit(&limit, Cost::ONE, now).remaining, 4);
        /// // A state of another algorithm counts as a fresh one.
        /// let other = CounterState::FixedWindow(FixedWindow::state(Timestamp::from_secs(9), 5));
        /// assert_eq!(other.probe(&limit, Cost::ONE, now).remaining, 5);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the variants are the algorithms")]
        pub enum CounterState {
            $($Name(<algorithm::$Name as Algorithm>::State),)*
        }

        impl CounterState {
            /// The state of a new key.
            pub fn fresh(limit: &Limit) -> Self {
                match limit { $(Limit::$Name(_) => Self::$Name(Default::default()),)* }
            }

            /// See [`Algorithm::probe`].
            pub fn probe(&self, limit: &Limit, cost: Cost, now: Timestamp) -> Verdict {
                match (self, limit) {
                    $((Self::$Name(state), Limit::$Name(by)) => by.probe(state, cost, now),)*
                    _ => limit.probe_fresh(cost, now),
                }
            }

            /// See [`Algorithm::commit`].
            pub fn commit(&mut self, limit: &Limit, cost: Cost, now: Timestamp) -> Verdict {
                match (self.under(limit), limit) {
                    $((Self::$Name(state), Limit::$Name(by)) => by.commit(state, cost, now),)*
                    _ => limit.probe_fresh(cost, now),
                }
            }

            /// See [`Algorithm::deny`].
            pub fn deny(&mut self, limit: &Limit, cost: Cost, now: Timestamp) {
                match (self.under(limit), limit) {
                    $((Self::$Name(state), Limit::$Name(by)) => by.deny(state, cost, now),)*
                    _ => {}
                }
            }

            /// See [`Algorithm::refund`].
            pub fn refund(&mut self, limit: &Limit, amount: Cost, now: Timestamp) {
                match (self.under(limit), limit) {
                    $((Self::$Name(state), Limit::$Name(by)) => by.refund(state, amount, now),)*
                    _ => {}
                }
            }

            /// See [`Algorithm::forget_at`].
            pub fn forget_at(&self) -> Timestamp {
                match self {
                    $(Self::$Name(state) => <algorithm::$Name as Algorithm>::forget_at(state),)*
                }
            }

            /// See [`Algorithm::coarsen`].
            pub fn coarsen(&mut self, limit: &Limit) {
                match (self, limit) {
                    $((Self::$Name(state), Limit::$Name(by)) => by.coarsen(state),)*
                    _ => {}
                }
            }

            /// The state as bytes; see [`Algorithm::encode`].
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::new();
                match self {
                    $(Self::$Name(state) => <algorithm::$Name as Algorithm>::encode(state, &mut out),)*
                }
                out
            }

            /// The state in these bytes; see [`Algorithm::decode`].
            pub fn decode(limit: &Limit, raw: &[u8]) -> Option<Self> {
                match limit { $(Limit::$Name(by) => by.decode(raw).map(Self::$Name),)* }
            }

            /// The state in a number; see [`Algorithm::decode_number`].
            pub fn decode_number(limit: &Limit, number: u64) -> Option<Self> {
                match limit { $(Limit::$Name(by) => by.decode_number(number).map(Self::$Name),)* }
            }

            /// Replaces a state of another algorithm by a fresh one.
            fn under(&mut self, limit: &Limit) -> &mut Self {
                match (&*self, limit) {
                    $((Self::$Name(_), Limit::$Name(_)) => {})*
                    _ => *self = Self::fresh(limit),
                }
                self
            }
        }
    };
}

crate::for_each_algorithm!(states);
