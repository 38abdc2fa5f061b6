//! The problems of a file, each with its location, the text there and what was expected.

use std::fmt;
use std::ops::Range;

use tidegate_core::text;

use crate::PolicySource;
use crate::files::nearest_name::nearest;

/// One problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    span: Option<SourceSpan>,
    message: String,
}

/// A place in a file, and the text there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceSpan {
    /// The line, counted from one.
    pub line: usize,
    /// The column in characters, counted from one.
    pub column: usize,
    /// The text of the line, with possible secrets masked.
    pub text: String,
    /// How many characters of the text to mark.
    pub width: usize,
    /// How many characters of the text come before the mark. Fewer than the column says if some are masked.
    pub(crate) before: usize,
}

impl FileProblem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { span: None, message: message.into() }
    }

    pub(crate) fn with_span(self, span: SourceSpan) -> Self {
        Self { span: Some(span), ..self }
    }

    /// Where the problem is, unless it concerns the file as a whole.
    pub const fn span(&self) -> Option<&SourceSpan> {
        self.span.as_ref()
    }

    /// What was found and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// All problems of one file.
///
/// ```
/// use tidegate::Plan;
/// use tidegate::config::PolicySource;
///
/// let text = "policies:\n- { name: a, key: [user], limit: [5/minute] }\n";
/// let problems = Plan::compile(&PolicySource::new("limits.yaml", text)?).unwrap_err();
/// let shown = problems.to_string();
/// assert!(shown.contains("limits.yaml:2:27: unknown field \"limit\""));
/// assert!(shown.contains("did you mean \"limits\"?"));
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
///
/// `Debug` is the same text, for programs whose `main` returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct FileProblems {
    file: String,
    list: Vec<FileProblem>,
    omitted: usize,
    is_unreadable: bool,
}

impl FileProblems {
    pub(crate) fn single(file: impl Into<String>, problem: FileProblem) -> Self {
        Self { file: file.into(), list: vec![problem], omitted: 0, is_unreadable: false }
    }

    /// A problem that shows only when a file is used: for example, a file that it refers to is missing.
    pub fn of(source: &PolicySource, message: impl Into<String>) -> Self {
        Self::single(source.name(), FileProblem::new(message))
    }

    /// The problem of a file that the system does not let us read.
    pub(crate) fn unreadable(file: impl Into<String>, error: &std::io::Error) -> Self {
        let problem = FileProblem::new(format!("cannot be read: {error}"));
        Self { is_unreadable: true, ..Self::single(file, problem) }
    }

    /// Whether the file's content is unknown, because it could not be read.
    pub const fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// The problems in the order of the file; at most a hundred are kept.
    pub fn iter(&self) -> impl Iterator<Item = &FileProblem> {
        self.list.iter()
    }

    /// The number of problems, including those that are not kept.
    pub const fn count(&self) -> usize {
        self.list.len() + self.omitted
    }
}

/// For each problem `file:line:column: message`, then the line with the place marked.
impl fmt::Display for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match &problem.span {
                None => write!(f, "{}: {}", self.file, problem.message)?,
                Some(span) => {
                    let SourceSpan { line, column, .. } = span;
                    write!(f, "{}:{line}:{column}: {}", self.file, problem.message)?;
                    if !span.text.is_empty() {
                        write!(f, "\n{span}")?;
                    }
                }
            }
        }
        match self.omitted {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more", self.file),
        }
    }
}

impl fmt::Debug for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FileProblems {}

/// The line, with a mark below it.
impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A very long line is cut to the part around the mark.
        let skipped = (self.before + 1).saturating_sub(MAX_BEFORE);
        let text = masked(&self.text);
        let shown: String = text.chars().skip(skipped).take(MAX_SHOWN).map(visible).collect();
        let before = self.before.saturating_sub(skipped);
        let width = self.width.clamp(1, MAX_SHOWN.saturating_sub(before).max(1));
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let mark = "^".repeat(width);
        write!(f, " {number} | {shown}\n {margin} | {:before$}{mark}", "")
    }
}

/// Masks users and passwords in addresses, which can appear in any faulty field.
fn masked(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (address, after) = after.split_at(end);
        let (user, host) = address.rsplit_once('@').map_or(("", address), |(user, _)| {
            (user, address.get(user.len()..).unwrap_or_default())
        });
        shown.extend([before, "://"]);
        shown.extend(user.chars().map(|_| '*'));
        shown.push_str(host);
        rest = after;
    }
    shown + rest
}

/// Replaces control characters: a tab would shift the mark.
fn visible(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// Collects problems while a file is read and compiled.
#[derive(Debug)]
pub struct ProblemReport<'s> {
    source: &'s PolicySource,
    found: Vec<(usize, FileProblem)>,
    omitted: usize,
}

impl<'s> ProblemReport<'s> {
    pub(crate) const fn new(source: &'s PolicySource) -> Self {
        Self { source, found: Vec::new(), omitted: 0 }
    }

    pub(crate) const fn source(&self) -> &'s PolicySource {
        self.source
    }

    /// Adds a problem at a place.
    pub fn add(&mut self, at: &Range<usize>, message: impl Into<String>) {
        if self.found.len() >= MAX_PROBLEMS {
            self.omitted += 1;
            return;
        }
        let message = self.source.secrets().redact_message(message.into());
        let problem = FileProblem::new(message).with_span(self.source.span_of(at));
        self.found.push((at.start, problem));
    }

    /// Adds a problem without showing its line, which may hold a secret.
    pub fn add_without_line(&mut self, at: &Range<usize>, message: impl Into<String>) {
        self.add(at, message);
        if let Some(span) = self.found.last_mut().and_then(|(_, problem)| problem.span.as_mut()) {
            span.text.clear();
        }
    }

    /// Reports a name that is not among the known ones.
    pub fn add_unknown(&mut self, at: &Range<usize>, what: &str, name: &str, known: &[&str]) {
        let list = known.join(", ");
        let hint = nearest(name, known.iter().copied())
            .map(|near| format!(" (did you mean {near:?}?)"))
            .unwrap_or_default();
        let name = brief(name);
        // The list can be long, so the hint comes first.
        self.add(at, format!("unknown {what} {name:?}{hint}: expected {list}"));
    }

    /// Whether there is no problem so far.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn into_problems(mut self) -> FileProblems {
        self.found.sort_by_key(|(start, _)| *start);
        let list = self.found.into_iter().map(|(_, problem)| problem).collect();
        FileProblems {
            file: self.source.name().to_owned(),
            list,
            omitted: self.omitted,
            is_unreadable: false,
        }
    }
}

/// The beginning of a text, enough to recognise it.
pub fn brief(text: &str) -> String {
    text::brief(text, MAX_BRIEF)
}

const MAX_PROBLEMS: usize = 100;
const MAX_BRIEF: usize = 60;
const MAX_SHOWN: usize = 120;
const MAX_BEFORE: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_the_line_and_marks_the_place() {
        let source = PolicySource::new("f.yaml", "a: 1\nlimit: x\n").unwrap();
        let mut report = ProblemReport::new(&source);
        report.add_unknown(&(5..10), "field", "limit", &["limits", "name"]);
        let expected = "\
f.yaml:2:1: unknown field \"limit\" (did you mean \"limits\"?): expected limits, name
 2 | limit: x
   | ^^^^^";
        assert_eq!(report.into_problems().to_string(), expected);
    }

    #[test]
    fn problems_come_in_the_order_of_the_file_and_stay_readable() {
        let text = format!("{}: x", "k".repeat(1_000));
        let source = PolicySource::new("f.yaml", text).unwrap();
        let mut report = ProblemReport::new(&source);
        for index in (0..150).rev() {
            report.add(&(index..1_000), format!("problem {index}"));
        }
        let problems = report.into_problems();
        assert_eq!(problems.count(), 150);
        assert_eq!(problems.iter().next().map(FileProblem::message), Some("problem 50"));
        let shown = problems.to_string();
        assert!(shown.ends_with("f.yaml: and 50 more"));
        assert!(shown.lines().all(|line| line.chars().count() < 140));
    }
}
