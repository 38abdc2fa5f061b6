//! Reports as one HTML file that needs nothing else: no network, no script.

use std::fmt::Write as _;

use super::chart::{Chart, Look};
use super::svg::{SMALL, STYLE, WIDE, class, common_top, escape, inline};
use super::table::Table;
use super::{Fact, Item, Report, Section};

const PAGE: &str = include_str!("page.css");

impl Report {
    /// For a browser, on a screen of any width, in light and in dark.
    pub fn html(&self) -> String {
        let (title, about) = (escape(&self.title), escape(&self.about));
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

fn write_fact(fact: &Fact, out: &mut String) {
    let (label, value) = (escape(&fact.label), escape(fact.value.shown()));
    let _ = write!(out, "<div class=\"fact\"><dt>{label}</dt><dd>{value}</dd>");
    if !fact.note.is_empty() {
        let _ = write!(out, "<p>{}</p>", escape(&fact.note));
    }
    out.push_str("</div>\n");
}

fn write_section(section: &Section, out: &mut String) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.heading));
    if !section.text.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escape(&section.text));
    }
    for item in &section.items {
        match item {
            Item::Table(table) => write_table(table, out),
            Item::Charts(charts) => write_charts(charts, out),
            Item::Code(code) => {
                let _ = writeln!(out, "<pre>{}</pre>", escape(code));
            }
            Item::Note(note) => {
                let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
            }
        }
    }
    out.push_str("</section>\n");
}

fn write_table(table: &Table, out: &mut String) {
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
    write_legend(first, out);
    let top = common_top(charts);
    match charts {
        // Text in a drawing shrinks with it: a phone gets a drawing of its own.
        [chart] => {
            out.push_str("<div class=\"charts one\">\n");
            out.push_str(&inline(chart, top, WIDE, "wide"));
            out.push_str(&inline(chart, top, SMALL, "narrow"));
        }
        _ => {
            out.push_str("<div class=\"charts\">\n");
            charts.iter().for_each(|chart| out.push_str(&inline(chart, top, SMALL, "")));
        }
    }
    out.push_str("</div>\n");
}

fn write_legend(chart: &Chart, out: &mut String) {
    out.push_str("<ul class=\"legend\">");
    for series in &chart.series {
        let class = class(series.role);
        let sample = match series.look {
            Look::Bars(_) => {
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
    use crate::report::{Cell, Mark, Role, Scale, Series};

    const NASTY: &str = "<script>alert(1)</script>\"'&\u{1b}[31m";

    fn report() -> Report {
        let mut table = Table::new(["key", NASTY]);
        table.row([Cell::text(NASTY), Cell::count(5)]);
        let series = Series {
            name: NASTY.to_owned(),
            role: Role::Denied,
            look: Look::Bars(1.0),
            points: vec![(0.0, 1.0), (1.0, 5.0)],
        };
        let chart = Chart {
            title: NASTY.to_owned(),
            caption: NASTY.to_owned(),
            x: Scale::Span,
            y: Scale::Number,
            range: (0.0, 2.0),
            series: vec![series],
            marks: vec![Mark { at: 3.0, label: NASTY.to_owned() }],
            main: Some(0),
        };
        let section = Section::new(NASTY)
            .about(NASTY)
            .with(Item::Charts(vec![chart]))
            .with(Item::Table(table))
            .with(Item::Code(NASTY.to_owned()))
            .with(Item::Note(NASTY.to_owned()));
        Report {
            title: NASTY.to_owned(),
            about: NASTY.to_owned(),
            facts: vec![Fact::new(NASTY, Cell::text(NASTY), NASTY)],
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
    fn every_tag_that_opens_closes() {
        let html = report().html();
        for tag in ["main", "section", "table", "svg", "ul", "dl", "div", "header", "footer"] {
            let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
            let opened = html
                .match_indices(&open)
                .filter(|(at, _)| html[at + open.len()..].starts_with([' ', '>']));
            assert_eq!(opened.count(), html.matches(&close).count(), "{tag}");
        }
    }
}
