//! Finds the name that a misspelt one was probably meant to be, for "did you mean" hints.

/// The name nearest to `text`, if one is near enough to have been meant.
pub(crate) fn nearest<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let begins = |name: &str| text.len() >= 3 && (name.starts_with(text) || text.starts_with(name));
    let is_other_number = |name: &str| is_plural_of(name, text) || is_plural_of(text, name);
    let near = |name: &str| match distance(text, name) {
        near if near <= 1 + text.chars().count() / 4 => Some(near),
        _ if is_other_number(name) => Some(1),
        _ if begins(name) => Some(MAX_TEXT),
        _ => None,
    };
    let names = names.filter(|name| name.len() <= MAX_TEXT);
    let ranked = names.filter_map(|name| Some((near(name)?, name)));
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Whether one word is the other with `ies` in place of `y`, which is a distance of three.
fn is_plural_of(plural: &str, word: &str) -> bool {
    let stems = word.strip_suffix('y').zip(plural.strip_suffix("ies"));
    stems.is_some_and(|(one, many)| one == many)
}

/// The number of insertions, deletions, replacements and swaps of neighbours, regardless of case.
fn distance(a: &str, b: &str) -> usize {
    let fold = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (a, b) = (fold(a), fold(b));
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(x != y);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

/// In bytes. No name is longer, so a longer text is not a misspelt name.
const MAX_TEXT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let names = ["limits", "algorithm", "match", "mode", "policies", "token-bucket"];
        for (text, expected) in [
            ("limit", Some("limits")),
            ("Limits", Some("limits")),
            ("algorihtm", Some("algorithm")),
            ("token_bucket", Some("token-bucket")),
            ("mathc", Some("match")),
            ("algo", Some("algorithm")),
            ("policy", Some("policies")),
            ("window", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, names.into_iter()), expected, "{text}");
        }
        assert_eq!(nearest(&"limit".repeat(1_000), names.into_iter()), None);
    }
}
