//! Commands that people type, into netcat or telnet: a line instead of a list.

use super::decode::{Malformed, Words};

/// The words of a line. Quotes hold together what has spaces in it; a backslash is not an escape
/// outside of them and is refused inside, so that every word lies in the line as it is.
pub(super) fn split(line: &[u8]) -> Result<Words<'_>, Malformed> {
    let mut words = Words::new();
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        let (word, after) = match first {
            b'"' | b'\'' => quoted(*first, rest.get(1..).unwrap_or_default())?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

/// What lies before the closing quote, and what comes after it.
fn quoted(quote: u8, text: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = text.iter().position(|byte| *byte == quote).ok_or(Malformed::Quotes)?;
    let (word, after) = (text.get(..end), text.get(end + 1..));
    let (word, after) = (word.unwrap_or_default(), after.unwrap_or_default());
    if word.contains(&b'\\') {
        return Err(Malformed::Escape);
    }
    match after.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(Malformed::Quotes),
        _ => Ok((word, after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = split(line.as_bytes()).unwrap();
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn words_are_apart_by_any_space() {
        assert_eq!(words("  PING \t hello\r"), ["PING", "hello"]);
        assert_eq!(words(" \t\r"), [""; 0]);
        assert_eq!(words(r"a\b it's"), [r"a\b", "it's"]);
    }

    #[test]
    fn quotes_hold_together() {
        assert_eq!(
            words(r#"ECHO "two words" 'and "more"' """#),
            ["ECHO", "two words", r#"and "more""#, ""]
        );
    }

    #[test]
    fn quotes_that_make_no_sense_are_refused() {
        for line in [r#"ECHO "x"#, r#"ECHO "x"y"#, "ECHO '"] {
            assert_eq!(split(line.as_bytes()), Err(Malformed::Quotes), "{line}");
        }
        assert_eq!(split(br#"ECHO "a\n""#), Err(Malformed::Escape));
    }
}
