//! Deserializes whole numbers, also those that are written as floats.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a whole number or null. JSON does not distinguish `3.0` from `3`, and some languages write the
/// former.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(CountVisitor)
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
        Ok(Some(count))
    }

    fn visit_f64<E: Error>(self, count: f64) -> Result<Self::Value, E> {
        let is_whole = count.fract() == 0.0 && (0.0..=EXACT).contains(&count);
        // Whole, not negative and exact: the cast loses nothing.
        is_whole.then_some(Some(count as u64)).ok_or_else(|| E::custom("not a whole number"))
    }
}

/// Up to here, a float holds every whole number exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;
