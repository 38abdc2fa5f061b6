//! The text of a configuration, whose size and encoding are checked before it is parsed.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::files::problem::{FileProblem, FileProblems, SourceSpan};
use crate::files::secrets::SecretRanges;
use crate::section::Sections;

/// A configuration as it was read: a name for messages, and the text.
///
/// ```
/// use tidegate::config::PolicySource;
///
/// let source = PolicySource::new("limits.yaml", "policies: []")?;
/// assert_eq!(source.name(), "limits.yaml");
///
/// let problems = PolicySource::from_bytes("limits.yaml", b"policies: \xff").unwrap_err();
/// assert!(problems.to_string().starts_with("limits.yaml:1:11: byte 0xff is not UTF-8"));
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
#[derive(Clone)]
pub struct PolicySource {
    name: String,
    text: String,
    /// The sections that the program reads.
    sections: Sections,
    /// Where secrets may be. Computed when part of the text is first shown.
    secrets: OnceLock<SecretRanges>,
}

/// Hides the text, which may hold secrets.
impl fmt::Debug for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicySource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PolicySource {
    /// The largest file in bytes. Ten thousand policies take a fifth of it.
    pub const MAX_BYTES: usize = 8 << 20;

    /// Checks text in memory.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Result<Self, FileProblems> {
        let source = Self::of(name.into(), text.into());
        if source.text.len() > Self::MAX_BYTES {
            return Err(source.into_problems(too_large()));
        }
        match source.text.bytes().position(is_forbidden) {
            None => Ok(source),
            Some(at) => {
                let byte = source.text.as_bytes().get(at).copied().unwrap_or_default();
                let problem = FileProblem::new(format!(
                    "byte 0x{byte:02x} is a control character: expected text; is this a YAML file?"
                ));
                let span = source.span_of(&(at..at + 1));
                Err(source.into_problems(problem.with_span(span)))
            }
        }
    }

    const fn of(name: String, text: String) -> Self {
        Self { name, text, sections: &[], secrets: OnceLock::new() }
    }

    /// Checks bytes that may not be text.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Result<Self, FileProblems> {
        let name = name.into();
        if bytes.len() > Self::MAX_BYTES {
            return Err(FileProblems::single(name, too_large()));
        }
        // Some editors write a byte order mark.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::new(name, text),
            Err(error) => {
                let at = error.valid_up_to();
                let valid = bytes.get(..at).map(String::from_utf8_lossy).unwrap_or_default();
                let byte = bytes.get(at).copied().unwrap_or_default();
                let valid = Self::of(name, valid.into_owned());
                let problem = FileProblem::new(format!("byte 0x{byte:02x} is not UTF-8"));
                let span = valid.span_of(&(at..at));
                Err(valid.into_problems(problem.with_span(span)))
            }
        }
    }

    /// Reads a file, but never more than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn read(path: &Path) -> Result<Self, FileProblems> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(name, file),
            Err(error) => Err(FileProblems::unreadable(name, &error)),
        }
    }

    /// Reads to the end, but never more than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn from_reader(name: impl Into<String>, reader: impl Read) -> Result<Self, FileProblems> {
        let (name, mut bytes) = (name.into(), Vec::new());
        match reader.take(Self::MAX_BYTES as u64 + 1).read_to_end(&mut bytes) {
            Ok(_) => Self::from_bytes(name, &bytes),
            Err(error) => Err(FileProblems::unreadable(name, &error)),
        }
    }

    /// Lets the file have these sections; without them, it has only what every program reads.
    #[must_use]
    pub fn with_sections(self, sections: Sections) -> Self {
        Self { sections, ..self }
    }

    /// The sections that the file may have.
    pub const fn sections(&self) -> Sections {
        self.sections
    }

    /// The name that messages use for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The whole text with values masked that may be secret by their names: headers that are set or
    /// added, passwords, tokens and the like.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    ///
    /// let source = PolicySource::new("limits.yaml", "set: { x-key: hunter2 }")?;
    /// assert_eq!(source.redacted_text(), "set: { x-key: *** }");
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn redacted_text(&self) -> String {
        self.secrets().redact(&self.text, 0..self.text.len())
    }

    pub(crate) fn secrets(&self) -> &SecretRanges {
        self.secrets.get_or_init(|| SecretRanges::of(&self.text))
    }

    /// The place of a range of bytes, with line and column counted from one and secrets masked.
    pub(crate) fn span_of(&self, at: &Range<usize>) -> SourceSpan {
        let start = floor_boundary(&self.text, at.start);
        let before = self.text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = self.text.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let line_end = line_start + line.len();
        let end = floor_boundary(&self.text, at.end.clamp(start, line_end.max(start)));
        let secrets = self.secrets();
        let marked = secrets.widen(start..end);
        let marked = marked.start.max(line_start)..marked.end.min(line_end.max(end));
        let length = |at: Range<usize>| secrets.redact(&self.text, at).chars().count();
        SourceSpan {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: chars(before.get(line_start..)) + 1,
            text: secrets.redact(&self.text, line_start..line_end),
            width: length(marked.clone()),
            before: length(line_start..marked.start),
        }
    }

    fn into_problems(self, problem: FileProblem) -> FileProblems {
        FileProblems::single(self.name, problem)
    }
}

fn chars(text: Option<&str>) -> usize {
    text.unwrap_or_default().chars().count()
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn too_large() -> FileProblem {
    FileProblem::new(format!(
        "is too large: expected at most {} MiB",
        PolicySource::MAX_BYTES >> 20
    ))
}

/// Control characters, which no configuration needs and which would garble the terminal.
fn is_forbidden(byte: u8) -> bool {
    (byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t')) || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, at: Range<usize>) -> (usize, usize, String, usize) {
        let place = PolicySource::new("f", text).unwrap().span_of(&at);
        (place.line, place.column, place.text, place.width)
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        assert_eq!(place("ab\ncd", 0..2), (1, 1, "ab".to_owned(), 2));
        assert_eq!(place("ab\r\ncd: x", 4..6), (2, 1, "cd: x".to_owned(), 2));
        assert_eq!(place("é: ü", 4..6), (1, 4, "é: ü".to_owned(), 1));
        // A range over several lines is shown up to the end of the first.
        assert_eq!(place("ab\ncd\nef", 3..8), (2, 1, "cd".to_owned(), 2));
        assert_eq!(place("ab", 99..120), (1, 3, "ab".to_owned(), 0));
        // In the middle of a character.
        assert_eq!(place("é", 1..1), (1, 1, "é".to_owned(), 0));
    }

    #[test]
    fn what_is_no_text_is_refused_where_it_is() {
        let nul = PolicySource::new("f", "a: b\nc: \0").unwrap_err().to_string();
        assert!(nul.starts_with("f:2:4: byte 0x00 is a control character"), "{nul}");
        let large = PolicySource::from_bytes("f", &vec![b' '; 9 << 20]).unwrap_err().to_string();
        assert!(large.starts_with("f: is too large: expected at most 8 MiB"), "{large}");
        assert_eq!(PolicySource::from_bytes("f", b"\xef\xbb\xbfa").unwrap().text(), "a");
        let absent = PolicySource::read(Path::new("/nonexistent/x")).unwrap_err().to_string();
        assert!(absent.starts_with("/nonexistent/x: cannot be read: "), "{absent}");
    }
}
