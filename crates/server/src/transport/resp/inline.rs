//! Inline commands: lines of text, as people type them into netcat or telnet.

use memchr::memchr2;
use tidegate::text::hex_value;

use super::decoder::{RespCommand, RespProtocolError, RespWords};

/// Reads the command in a line, as Redis does (`sdssplitargs`). A quoted part can contain spaces and can
/// begin within a word. A backslash is an escape only inside quotes.
pub(super) fn read(line: &[u8]) -> Result<RespCommand<'_>, RespProtocolError> {
    match memchr2(b'"', b'\'', line) {
        None => Ok(RespCommand::Plain(split(line))),
        Some(_) => unquoted(line).map(RespCommand::Escaped),
    }
}

/// Splits a line without quotes into words, without copying them.
fn split(line: &[u8]) -> RespWords<'_> {
    let mut words = RespWords::new();
    let mut rest = past_spaces(line);
    while !rest.is_empty() {
        let (word, after) = rest.split_at(length(rest));
        words.push(word);
        rest = past_spaces(after);
    }
    words
}

#[cold]
fn unquoted(line: &[u8]) -> Result<Vec<Vec<u8>>, RespProtocolError> {
    let mut words = Vec::new();
    let mut rest = past_spaces(line);
    while !rest.is_empty() {
        let quote = memchr2(b'"', b'\'', rest).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(length(rest).min(quote));
        let mut word = plain.to_vec();
        rest = match after {
            // A closing quote ends the word.
            [quote @ (b'"' | b'\''), text @ ..] => add_quoted(*quote, text, &mut word)?,
            _ => after,
        };
        words.push(word);
        rest = past_spaces(rest);
    }
    Ok(words)
}

/// Adds the unescaped text before the closing quote to `word`, and returns what follows the quote. The
/// escapes are those of Redis: in double quotes `\\xff`, `\\n`, `\\r`, `\\t`, `\\b`, `\\a`, and a backslash
/// before any other character stands for that character; in single quotes only `\\'`.
fn add_quoted<'t>(
    quote: u8,
    text: &'t [u8],
    word: &mut Vec<u8>,
) -> Result<&'t [u8], RespProtocolError> {
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Err(RespProtocolError::Quotes),
            [b'\\', b'x', high, low, after @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let value = |digit: &u8| hex_value(*digit).unwrap_or_default();
                word.push(value(high) << 4 | value(low));
                after
            }
            [b'\\', byte, after @ ..] if quote == b'"' || *byte == quote => {
                word.push(if quote == b'"' { escape(*byte) } else { *byte });
                after
            }
            [byte, after @ ..] if *byte == quote => {
                return match after.first() {
                    Some(next) if !is_space(*next) => Err(RespProtocolError::Quotes),
                    _ => Ok(after),
                };
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

fn past_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// Whether C's `isspace` is true.
const fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b'
}

/// The length of the word that begins here. As in Redis, a vertical tab or a form feed does not end a
/// word, although a word cannot begin with one.
fn length(text: &[u8]) -> usize {
    let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    text.iter().position(ends).unwrap_or(text.len())
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
        assert_eq!(words(r"a\b"), [r"a\b"]);
        assert_eq!(words("\x0b\x0cPING \x0ba\x0bb\x0cc \x0b"), ["PING", "a\x0bb\x0cc"]);
    }

    #[test]
    fn quotes_hold_together() {
        assert_eq!(
            words(r#"ECHO "two words" 'and "more"' """#),
            ["ECHO", "two words", r#"and "more""#, ""]
        );
    }

    #[test]
    fn quotes_open_within_a_word_and_end_it() {
        assert_eq!(words(r#"a key="al ice" ax4"" x'y z'"#), ["a", "key=al ice", "ax4", "xy z"]);
        assert_eq!(words("\"a\"\x0b'b'"), ["a", "b"]);
    }

    #[test]
    fn quotes_that_make_no_sense_are_refused() {
        let whole = [r#"ECHO "x"#, r#"ECHO "x"y"#, "ECHO '", "ECHO it's", r#"ECHO "a"'b'"#];
        let escaped = [r#"ECHO "x\"#, r#"ECHO "x\""#, r#"ECHO "\n"y"#, r"ECHO 'it\'"];
        for line in whole.iter().chain(&escaped) {
            assert_eq!(read(line.as_bytes()).err(), Some(RespProtocolError::Quotes), "{line}");
        }
    }

    #[test]
    fn escapes_are_those_of_redis() {
        let words = |line: &str| match read(line.as_bytes()) {
            Ok(RespCommand::Escaped(words)) => words,
            _ => Vec::new(),
        };
        let line = r#"ECHO "\xff\x4A\n\r\t\b\a" "say \"hi\" \\ \q" a\b"#;
        let double: [&[u8]; 4] = [b"ECHO", b"\xffJ\n\r\t\x08\x07", br#"say "hi" \ q"#, br"a\b"];
        assert_eq!(words(line), double);
        assert_eq!(words(r"'it\'s' '\n\x41'"), [&b"it's"[..], br"\n\x41"]);
        assert_eq!(words(r#""\xzz" "\x4""#), [b"xzz", &b"x4"[..]]);
    }
}
