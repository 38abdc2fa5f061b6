//! Medians over several rounds.

/// The median.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The ratio of two contestants that took turns: the median of the ratios of all rounds. A machine is
/// slower for a while, and a round is short enough to be affected as a whole.
pub(crate) fn median_ratio(
    one: impl IntoIterator<Item = f64>,
    other: impl IntoIterator<Item = f64>,
) -> Option<f64> {
    median(one.into_iter().zip(other).map(|(one, other)| one / other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_most_rounds() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
        // The last two rounds were on a slower machine.
        assert_eq!(median_ratio([9.0, 9.0, 4.5], [10.0, 5.0, 5.0]), Some(0.9));
    }
}
