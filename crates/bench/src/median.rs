//! What remains of several rounds.

/// The middle one.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// How one compares with another that took turns with it: the middle of what each round says. Machines
/// are slower for a while, and a round is too short to be half in such a while.
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
