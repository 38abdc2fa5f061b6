//! Reports as one self-contained HTML file: no network, no script.

use std::fmt::Write as _;

use super::chart::{Chart, SeriesStyle};
use super::svg::{NARROW, SMALL, STYLE, WIDE, class, common_top, escape, inline};
use super::table::ReportTable;
use super::{FindingsReport, ReportFact, ReportItem, ReportSection};

const PAGE: &str = include_str!("page.css");

impl FindingsReport {
    /// The report for a browser: for any screen width, light or dark.
    pub fn html(&self) -> String {
        let (title, about) = (escape(&self.title), prose(&self.about));
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} · Tidegate</title>\n<style>\n{STYLE}{PAGE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<p class=\"brand\">Tidegate</p>\n<h1>{title}</h1>\n<p class=\"lead\">{about}</p>\n</header>\n"
        );
        if !self.facts.is_empty() {
            out.push_str("<dl class=\"facts\">\n");
            self.facts.iter().for_each(|fact| write_fact(fact, &mut out));
            out.push_str("</dl>\n");
        }
        self.sections.iter().for_each(|section| write_section(section, &mut out));
        if !self.command.is_empty() {
            let command = escape(&self.command);
            let _ = writeln!(out, "<footer>Made by <code>{command}</code></footer>");
        }
        out.push_str("</main>\n</body>\n</html>\n");
        out
    }
}

fn write_fact(fact: &ReportFact, out: &mut String) {
    let (label, value) = (escape(&fact.label), escape(fact.value.shown()));
    let _ = write!(out, "<div class=\"fact\"><dt>{label}</dt><dd>{value}</dd>");
    if !fact.note.is_empty() {
        let _ = write!(out, "<p>{}</p>", prose(&fact.note));
    }
    out.push_str("</div>\n");
}

fn write_section(section: &ReportSection, out: &mut String) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.heading));
    if !section.text.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", prose(&section.text));
    }
    for item in &section.items {
        match item {
            ReportItem::Table(table) => write_table(table, out),
            ReportItem::Charts(charts) => write_charts(charts, out),
            ReportItem::Code(code) => {
                let _ = writeln!(out, "<pre>{}</pre>", escape(code));
            }
            ReportItem::Note(note) => {
                let _ = writeln!(out, "<p class=\"note\">{}</p>", prose(note));
            }
        }
    }
    out.push_str("</section>\n");
}

fn write_table(table: &ReportTable, out: &mut String) {
    let class = |column| if table.is_numeric(column) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
    for (column, name) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column), escape(name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escape(cell.shown()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn write_charts(charts: &[Chart], out: &mut String) {
    let Some(first) = charts.first() else { return };
    if first.series.len() > 1 {
        write_legend(first, out);
    }
    let (class, size) = if charts.len() == 1 { ("charts one", WIDE) } else { ("charts", SMALL) };
    let top = common_top(charts);
    let _ = writeln!(out, "<div class=\"{class}\">");
    for chart in charts {
        let (title, caption) = (prose(&chart.title), prose(&chart.caption));
        let _ = writeln!(
            out,
            "<figure>\n<figcaption><strong>{title}</strong><span>{caption}</span></figcaption>"
        );
        out.push_str(&inline(chart, top, size, "wide"));
        out.push_str(&inline(chart, top, NARROW, "narrow"));
        out.push_str("</figure>\n");
    }
    out.push_str("</div>\n");
}

/// Text that may be wrapped, but not between a number and its percent sign.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

fn write_legend(chart: &Chart, out: &mut String) {
    out.push_str("<ul class=\"legend\">");
    for series in &chart.series {
        let class = class(series.role);
        let sample = match series.style {
            SeriesStyle::Bars(_) => {
                format!("<rect class=\"bar {class}\" x=\"4\" width=\"16\" height=\"12\" rx=\"2\"/>")
            }
            _ => format!("<line class=\"stroke {class}\" x1=\"1\" y1=\"6\" x2=\"23\" y2=\"6\"/>"),
        };
        let name = escape(&series.name);
        let _ = write!(
            out,
            "<li><svg viewBox=\"0 0 24 12\" aria-hidden=\"true\">{sample}</svg>{name}</li>"
        );
    }
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{AxisScale, ChartMark, ChartSeries, ReportCell, SeriesRole};

    const NASTY: &str = "<script>alert(1)</script>\"'&\u{1b}[31m";

    fn report() -> FindingsReport {
        let mut table = ReportTable::new(["key", NASTY]);
        table.row([ReportCell::text(NASTY), ReportCell::count(5)]);
        let series = ChartSeries {
            name: NASTY.to_owned(),
            role: SeriesRole::Denied,
            style: SeriesStyle::Bars(1.0),
            points: vec![(0.0, 1.0), (1.0, 5.0)],
        };
        let chart = Chart {
            title: NASTY.to_owned(),
            caption: NASTY.to_owned(),
            x: AxisScale::Span,
            y: AxisScale::Number,
            range: (0.0, 2.0),
            series: vec![series],
            marks: vec![ChartMark { at: 3.0, label: NASTY.to_owned() }],
            main: Some(0),
        };
        let section = ReportSection::new(NASTY)
            .about(NASTY)
            .with(ReportItem::Charts(vec![chart]))
            .with(ReportItem::Table(table))
            .with(ReportItem::Code(NASTY.to_owned()))
            .with(ReportItem::Note(NASTY.to_owned()));
        FindingsReport {
            title: NASTY.to_owned(),
            about: NASTY.to_owned(),
            facts: vec![ReportFact::new(NASTY, ReportCell::text(NASTY), NASTY)],
            sections: vec![section],
            command: NASTY.to_owned(),
        }
    }

    #[test]
    fn nothing_that_users_sent_becomes_markup() {
        let report = report();
        for text in [report.html(), report.svg().unwrap()] {
            assert!(!text.contains("<script"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            assert!(text.contains("&lt;script&gt;"));
        }
    }

    #[test]
    fn a_page_asks_for_nothing_from_elsewhere() {
        let html = report().html();
        for outside in ["src=", "href=", "@import", "url(", "<script"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_phone_has_a_drawing_that_is_as_wide_as_it_is() {
        let html = report().html();
        let drawing = |class: &str| {
            let start = html.find(&format!("<svg class=\"chart {class}\"")).unwrap();
            let rest = &html[start..];
            rest[..rest.find("</svg>").unwrap()].to_owned()
        };
        assert!(drawing("narrow").contains("viewBox=\"0 0 340 "));
        // Captions can be of any length: a page wraps them, while a drawing would cut them off.
        for class in ["wide", "narrow"] {
            assert!(!drawing(class).contains("class=\"title\""));
        }
        assert!(html.contains("<figcaption><strong>&lt;script"));
    }

    #[test]
    fn a_percent_sign_stays_with_its_number() {
        assert_eq!(prose("0.1 % & more"), "0.1\u{a0}% &amp; more");
    }

    #[test]
    fn every_tag_that_opens_closes() {
        let html = report().html();
        let tags =
            ["main", "section", "table", "svg", "ul", "dl", "div", "figure", "header", "footer"];
        for tag in tags {
            let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
            let opened = html
                .match_indices(&open)
                .filter(|(at, _)| html[at + open.len()..].starts_with([' ', '>']));
            assert_eq!(opened.count(), html.matches(&close).count(), "{tag}");
        }
    }
}
