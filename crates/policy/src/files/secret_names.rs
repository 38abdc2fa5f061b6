//! The names whose values may be secret.

/// Where the value of a secret name begins in a line.
pub(crate) fn secret_in(line: &str) -> Option<usize> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    line.match_indices([':', '=']).find_map(|(at, _)| {
        let before = line.get(..at)?.trim_end_matches(['"', '\'', ' ']);
        let start = before.rfind(|c: char| !is_name_char(c)).map_or(0, |end| end + 1);
        let name = before.get(start..)?;
        let value = line.get(at + 1..)?;
        let begins = at + 1 + (value.len() - value.trim_start().len());
        (is_secret_name(name) || is_headers(name)).then_some(begins)
    })
}

/// Whether a value of this name may be secret: headers that are set, passwords, tokens and the like.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(is_name_char) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let is_secret_word = |word: &str| WORDS.contains(&word);
    matches!(name.as_str(), "set" | "add")
        || ["pass", "pasw", "pwd", "secret"].iter().any(|part| name.contains(part))
        || name.split(['_', '-']).any(is_secret_word)
}

/// Whether this is the name of rules for headers.
pub(crate) fn is_headers(name: &str) -> bool {
    name.contains("headers") && name != "legacy_headers"
}

const WORDS: &[&str] =
    &["apikey", "auth", "authorization", "bearer", "credential", "credentials", "private", "token"];
