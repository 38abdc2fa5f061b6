//! Reports as text for a terminal, at most 80 columns wide.

use std::fmt::Write as _;

use super::table::{ReportCell, ReportTable};
use super::{Chart, FindingsReport, ReportItem, ReportSection, plot};

impl FindingsReport {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        wrap(&self.about, &mut out);
        for section in self.sections.iter().filter(|section| is_shown(section)) {
            let _ = writeln!(out, "\n{}", section.heading);
            wrap(&section.text, &mut out);
            for item in &section.items {
                out.push('\n');
                match item {
                    ReportItem::Table(table) => table.write(&mut out),
                    ReportItem::Charts(charts) => plots(charts, &mut out),
                    ReportItem::Code(code) => out.push_str(code),
                    ReportItem::Note(note) => wrap(note, &mut out),
                }
            }
        }
        // A chart that a terminal does not draw leaves only its spacing.
        while out.contains("\n\n\n") {
            out = out.replace("\n\n\n", "\n\n");
        }
        out
    }
}

/// Whether a section has more than charts that a terminal does not draw.
fn is_shown(section: &ReportSection) -> bool {
    section.items.iter().any(|item| match item {
        ReportItem::Charts(charts) => charts.iter().any(|chart| chart.main.is_some()),
        _ => true,
    })
}

fn plots(charts: &[Chart], out: &mut String) {
    let top = charts.iter().map(Chart::main_top).fold(0.0, f64::max);
    let drawn = charts.iter().filter(|chart| chart.main.is_some());
    for (index, chart) in drawn.enumerate() {
        if index > 0 {
            out.push('\n');
        }
        plot::plot(chart, top, out);
    }
}

impl ReportTable {
    /// Leaves `-window` out of the names of algorithms if the table would be too wide otherwise.
    fn write(&self, out: &mut String) {
        let full: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let total = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>();
        if total(&self.widths(&full)) <= WIDTH + 2 {
            return self.write_with(&full, out);
        }
        let short = full.iter().map(|name| name.strip_suffix("-window").unwrap_or(name));
        self.write_with(&short.collect::<Vec<_>>(), out);
    }

    fn widths(&self, names: &[&str]) -> Vec<usize> {
        let width = |(column, name): (usize, &&str)| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(ReportCell::shown);
            cells.chain([*name]).map(|text| text.chars().count()).max().unwrap_or(0)
        };
        names.iter().enumerate().map(width).collect()
    }

    fn write_with(&self, names: &[&str], out: &mut String) {
        let widths = self.widths(names);
        let mut line = |texts: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (column, (text, width)) in texts.zip(&widths).enumerate() {
                let gap = if column > 0 { "  " } else { "" };
                let _ = match self.is_numeric(column) {
                    true => write!(line, "{gap}{text:>width$}"),
                    false => write!(line, "{gap}{text:<width$}"),
                };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        };
        line(&mut names.iter().copied());
        let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        line(&mut rules.iter().map(String::as_str));
        for row in &self.rows {
            line(&mut row.iter().map(ReportCell::shown));
        }
    }
}

fn wrap(text: &str, out: &mut String) {
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    if column > 0 {
        out.push('\n');
    }
}

const WIDTH: usize = 80;
