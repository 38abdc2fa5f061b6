//! Tables of reports, and their cells.

use tidegate::Span;

use super::format;

/// Rows under named columns.
#[derive(Clone, Debug, Default)]
pub struct ReportTable {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<ReportCell>>,
}

impl ReportTable {
    /// A table without rows.
    pub fn new<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = ReportCell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether a column has numbers, which are right-aligned. The first one names its row.
    pub(super) fn is_numeric(&self, column: usize) -> bool {
        if column == 0 {
            return false;
        }
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.any(|cell| cell.value.is_some())
    }
}

/// A value, and how it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportCell {
    pub(super) text: String,
    /// For scripts; `None` where the text is the value.
    pub(super) value: Option<CellNumber>,
}

/// A number as a script wants it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CellNumber {
    Whole(u64),
    Fraction(f64),
}

impl ReportCell {
    /// Text. User-supplied text is always shown escaped.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None }
    }

    /// `1,234`.
    pub fn count(count: u64) -> Self {
        Self { text: format::count(count), value: Some(CellNumber::Whole(count)) }
    }

    /// `~70,000`, if it is not exact.
    pub fn estimate(count: u64, is_exact: bool) -> Self {
        let cell = Self::count(count);
        if is_exact { cell } else { Self { text: format!("~{}", cell.text), ..cell } }
    }

    /// A part of a whole, as `0.3 %`; 0 if there is no whole.
    pub fn share(part: u64, whole: u64) -> Self {
        Self::fraction(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
    }

    /// The same for a fraction.
    pub fn fraction(share: f64) -> Self {
        Self { text: format::share(share), value: Some(CellNumber::Fraction(share)) }
    }

    /// A multiple: `1.99x`.
    pub fn times(factor: f64) -> Self {
        Self { text: format::times(factor), value: Some(CellNumber::Fraction(factor)) }
    }

    /// With this many digits after the point.
    pub fn number(number: f64, digits: usize) -> Self {
        Self { text: format!("{number:.digits$}"), value: Some(CellNumber::Fraction(number)) }
    }

    /// A length of time, in seconds for scripts.
    pub fn span(span: Span) -> Self {
        let seconds = span.as_micros() as f64 / 1e6;
        Self { text: format::short_span(seconds), value: Some(CellNumber::Fraction(seconds)) }
    }

    /// How it is shown.
    pub fn shown(&self) -> &str {
        &self.text
    }
}
