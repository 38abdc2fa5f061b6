//! Commands that people type, into netcat or telnet: a line instead of a list.

use super::decode::{Command, Malformed, Words};

/// The command in a line. Quotes hold together what contains spaces; a backslash is an escape only
/// inside them.
pub(super) fn read(line: &[u8]) -> Result<Command<'_>, Malformed> {
    match split(line)? {
        Some(words) => Ok(Command::Plain(words)),
        None => unescaped(line).map(Command::Escaped),
    }
}

/// The words, if each lies in the line as it is: `None` if there is an escape.
fn split(line: &[u8]) -> Result<Option<Words<'_>>, Malformed> {
    let mut words = Words::new();
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        let (word, after) = match first {
            b'"' | b'\'' => {
                let text = rest.get(1..).unwrap_or_default();
                let Some(found) = quoted(*first, text)? else { return Ok(None) };
                found
            }
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(Some(words))
}

/// What lies before the closing quote, and what comes after it; `None` if there is an escape.
fn quoted(quote: u8, text: &[u8]) -> Result<Option<Parts<'_>>, Malformed> {
    let end = text.iter().position(|byte| *byte == quote).ok_or(Malformed::Quotes)?;
    let (word, after) = (text.get(..end), text.get(end + 1..));
    let (word, after) = (word.unwrap_or_default(), after.unwrap_or_default());
    if word.contains(&b'\\') {
        return Ok(None);
    }
    match after.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(Malformed::Quotes),
        _ => Ok(Some((word, after))),
    }
}

type Parts<'a> = (&'a [u8], &'a [u8]);

/// The same with escapes, as Redis reads them: `\\xff`, `\\n`, `\\r`, `\\t`, `\\b`, `\\a` and any other
/// character as it is in double quotes; in single quotes only `\\'`.
#[cold]
fn unescaped(line: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        let (word, after) = match first {
            b'"' | b'\'' => unquoted(*first, rest.get(1..).unwrap_or_default())?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                (word.to_vec(), after)
            }
        };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

/// What stands for the text before the closing quote, and what comes after it.
fn unquoted(quote: u8, text: &[u8]) -> Result<(Vec<u8>, &[u8]), Malformed> {
    let (mut word, mut rest) = (Vec::new(), text);
    loop {
        rest = match rest {
            [] => return Err(Malformed::Quotes),
            [b'\\', b'x', high, low, after @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(digit(*high) << 4 | digit(*low));
                after
            }
            [b'\\', byte, after @ ..] if quote == b'"' || *byte == quote => {
                word.push(if quote == b'"' { escape(*byte) } else { *byte });
                after
            }
            [byte, after @ ..] if *byte == quote => {
                return match after.first() {
                    Some(next) if !next.is_ascii_whitespace() => Err(Malformed::Quotes),
                    _ => Ok((word, after)),
                };
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

fn digit(byte: u8) -> u8 {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or_default()
}

const fn escape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let command = read(line.as_bytes()).unwrap();
        command.words().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
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
        let whole = [r#"ECHO "x"#, r#"ECHO "x"y"#, "ECHO '"];
        let escaped = [r#"ECHO "x\"#, r#"ECHO "x\""#, r#"ECHO "\n"y"#, r"ECHO 'it\'"];
        for line in whole.iter().chain(&escaped) {
            assert_eq!(read(line.as_bytes()).err(), Some(Malformed::Quotes), "{line}");
        }
    }

    #[test]
    fn escapes_are_those_of_redis() {
        let words = |line: &str| match read(line.as_bytes()) {
            Ok(Command::Escaped(words)) => words,
            _ => Vec::new(),
        };
        let line = r#"ECHO "\xff\x4A\n\r\t\b\a" "say \"hi\" \\ \q" a\b"#;
        let double: [&[u8]; 4] = [b"ECHO", b"\xffJ\n\r\t\x08\x07", br#"say "hi" \ q"#, br"a\b"];
        assert_eq!(words(line), double);
        assert_eq!(words(r"'it\'s' '\n\x41'"), [&b"it's"[..], br"\n\x41"]);
        assert_eq!(words(r#""\xzz" "\x4""#), [b"xzz", &b"x4"[..]]);
    }
}
