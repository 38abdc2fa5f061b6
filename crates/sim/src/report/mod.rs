//! Findings, for people as text, as one HTML file or as SVG, and for scripts as JSON.
//!
//! A command describes its findings once, as a [`FindingsReport`]; this module decides how they look.

mod chart;
mod format;
mod html;
mod json;
mod plot;
mod svg;
mod table;
mod text;

pub use chart::{AxisScale, Chart, ChartMark, ChartSeries, SeriesRole, SeriesStyle};
pub use format::{clip, count, counted, moment, share, short_span, times};
pub use table::{ReportCell, ReportTable};

/// The findings of a command.
///
/// ```
/// use tidegate_sim::report::{ReportCell, ReportItem, FindingsReport, ReportSection, ReportTable};
///
/// let mut table = ReportTable::new(["algorithm", "admitted"]);
/// table.row([ReportCell::text("fixed-window"), ReportCell::count(1_000)]);
/// let report = FindingsReport {
///     title: "A burst".to_owned(),
///     sections: vec![ReportSection::new("What passed").with(ReportItem::Table(table))],
///     ..FindingsReport::default()
/// };
/// assert!(report.text().contains("fixed-window     1,000"));
/// assert!(report.html().starts_with("<!doctype html>"));
/// assert_eq!(report.json()["sections"][0]["tables"][0][0]["admitted"], 1_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FindingsReport {
    /// What it is about.
    pub title: String,
    /// The same in a sentence or two.
    pub about: String,
    /// The figures that matter most.
    pub facts: Vec<ReportFact>,
    /// The rest.
    pub sections: Vec<ReportSection>,
    /// The command that reproduces it.
    pub command: String,
}

/// A figure that matters.
#[derive(Clone, Debug)]
pub struct ReportFact {
    /// What it is.
    pub label: String,
    /// The figure.
    pub value: ReportCell,
    /// What else to know about it.
    pub note: String,
}

impl ReportFact {
    /// A figure and what it is.
    pub fn new(label: impl Into<String>, value: ReportCell, note: impl Into<String>) -> Self {
        Self { label: label.into(), value, note: note.into() }
    }
}

/// A part of a report.
#[derive(Clone, Debug, Default)]
pub struct ReportSection {
    /// Its heading.
    pub heading: String,
    /// What to look for in it.
    pub text: String,
    /// What is in it.
    pub items: Vec<ReportItem>,
}

impl ReportSection {
    /// An empty one.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Adds an explanation.
    #[must_use]
    pub fn about(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// Adds one more item.
    #[must_use]
    pub fn with(mut self, item: ReportItem) -> Self {
        self.items.push(item);
        self
    }
}

/// An item of a section.
#[derive(Clone, Debug)]
pub enum ReportItem {
    /// Rows and columns.
    Table(ReportTable),
    /// Charts that belong together, drawn to one scale.
    Charts(Vec<Chart>),
    /// Text to copy as it is.
    Code(String),
    /// A remark.
    Note(String),
}
