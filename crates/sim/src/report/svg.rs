//! Draws charts as SVG. Colours come from style sheets, so that they follow the reader's theme.

use std::fmt::Write as _;

use super::chart::{Chart, ChartSeries, SeriesRole, SeriesStyle};
use super::{FindingsReport, ReportItem};

/// What all charts look like, here and in pages.
pub(super) const STYLE: &str = include_str!("chart.css");

impl FindingsReport {
    /// The first charts of the report, as a file of their own; `None` if it has none.
    pub fn svg(&self) -> Option<String> {
        let mut items = self.sections.iter().flat_map(|section| &section.items);
        let charts = items.find_map(|item| match item {
            ReportItem::Charts(charts) if !charts.is_empty() => Some(charts),
            _ => None,
        })?;
        let columns = charts.len().min(2);
        let panel = if columns == 1 { WIDE } else { SMALL };
        let rows = charts.len().div_ceil(columns);
        let width = panel.width * columns as f64 + GAP * (columns as f64 + 1.0);
        let height = HEAD + (panel.height + GAP) * rows as f64;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"var(--card)\"/>\n\
             <text class=\"head\" x=\"{GAP}\" y=\"34\">{title}</text>\n",
            title = escape(&self.title),
        );
        legend(charts, &mut out);
        let top = common_top(charts);
        for (index, chart) in charts.iter().enumerate() {
            let (column, row) = ((index % columns) as f64, (index / columns) as f64);
            let x = GAP + (panel.width + GAP) * column;
            let y = HEAD + (panel.height + GAP) * row;
            let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
            let drawing = SvgChart::new(chart, top, panel, TITLED);
            drawing.title(&mut out);
            drawing.draw(&mut out);
            out.push_str("</g>\n");
        }
        out.push_str("</svg>\n");
        Some(out)
    }
}

/// One chart without a title, for a page that shows the title above it.
pub(super) fn inline(chart: &Chart, top: f64, size: ChartSize, class: &str) -> String {
    let size = ChartSize { height: size.height - (TITLED - UNTITLED), ..size };
    let ChartSize { width, height } = size;
    let label = escape(&format!("{}. {}", chart.title, chart.caption));
    let mut out = format!(
        "<svg class=\"chart {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n"
    );
    SvgChart::new(chart, top, size, UNTITLED).draw(&mut out);
    out.push_str("</svg>\n");
    out
}

/// Charts that belong together are drawn to one height.
pub(super) fn common_top(charts: &[Chart]) -> f64 {
    charts.iter().map(Chart::top).fold(0.0, f64::max)
}

/// The size of a chart, in SVG units.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChartSize {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Alone in its row.
pub(super) const WIDE: ChartSize = ChartSize { width: 880.0, height: 320.0 };
/// One of two in a row.
pub(super) const SMALL: ChartSize = ChartSize { width: 460.0, height: 250.0 };
/// On a phone: as wide as the screen, since text in a drawing shrinks with it.
pub(super) const NARROW: ChartSize = ChartSize { width: 340.0, height: 250.0 };

fn legend(charts: &[Chart], out: &mut String) {
    let mut x = GAP;
    for series in charts.first().map(|chart| &chart.series[..]).unwrap_or_default() {
        let class = class(series.role);
        let name = escape(&series.name);
        let _ = match series.style {
            SeriesStyle::Bars(_) => writeln!(
                out,
                "<rect class=\"bar {class}\" x=\"{x}\" y=\"49\" width=\"14\" height=\"10\" rx=\"2\"/>"
            ),
            _ => writeln!(
                out,
                "<line class=\"stroke {class}\" x1=\"{x}\" y1=\"54\" x2=\"{}\" y2=\"54\"/>",
                x + 22.0
            ),
        };
        let _ = writeln!(out, "<text x=\"{}\" y=\"58\">{name}</text>", x + 28.0);
        x += 44.0 + 6.6 * series.name.chars().count() as f64;
    }
}

/// A chart while it is being drawn.
struct SvgChart<'a> {
    chart: &'a Chart,
    ticks: Vec<f64>,
    top: f64,
    size: ChartSize,
    left: f64,
    /// The space kept free above the highest line.
    above: f64,
}

impl<'a> SvgChart<'a> {
    fn new(chart: &'a Chart, top: f64, size: ChartSize, above: f64) -> Self {
        let ticks = chart.y_ticks(top);
        let top = ticks.last().copied().unwrap_or(1.0);
        // Charts below each other begin at the same place, unless their numbers are long.
        let lengths = ticks.iter().map(|tick| chart.y_label(*tick).chars().count());
        let left = 14.0 + 6.8 * lengths.fold(5, usize::max) as f64;
        Self { chart, ticks, top, size, left, above }
    }

    fn title(&self, out: &mut String) {
        let Chart { title, caption, .. } = self.chart;
        let _ = writeln!(out, "<text class=\"title\" x=\"0\" y=\"15\">{}</text>", escape(title));
        let _ = writeln!(out, "<text x=\"0\" y=\"33\">{}</text>", escape(caption));
    }

    fn draw(&self, out: &mut String) {
        self.grid(out);
        for series in &self.chart.series {
            self.series(series, out);
        }
        self.marks(out);
    }

    fn grid(&self, out: &mut String) {
        let (left, right, bottom) = (self.left, self.right(), self.bottom());
        for tick in &self.ticks {
            let y = self.y(*tick);
            let class = if *tick == 0.0 { "base" } else { "grid" };
            let _ = writeln!(
                out,
                "<line class=\"{class}\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                self.chart.y_label(*tick)
            );
        }
        let mut free = f64::NEG_INFINITY;
        for tick in self.chart.x_ticks(if self.size.width > 600.0 { 10.0 } else { 6.0 }) {
            let (x, label) = (self.x(tick), self.chart.x_label(tick));
            let half = 4.0 * label.chars().count() as f64;
            if x - half < free || x > right + 1.0 {
                continue;
            }
            // The last one stays within the picture.
            let shown = x.min(self.size.width - half - 1.0);
            free = shown + half + 8.0;
            let _ = writeln!(
                out,
                "<line class=\"base\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\"/>\
                 <text x=\"{shown:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 4.0,
                bottom + 18.0
            );
        }
    }

    fn series(&self, series: &ChartSeries, out: &mut String) {
        let class = class(series.role);
        match series.style {
            SeriesStyle::Bars(width) => self.bars(series, width, class, out),
            SeriesStyle::Steps(width) => self.steps(series, width, class, out),
            SeriesStyle::Line => {
                let points = series.points.iter();
                let path: Vec<String> =
                    points.map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
                let path = path.join(" ");
                let _ = writeln!(out, "<polyline class=\"stroke {class}\" points=\"{path}\"/>");
            }
        }
    }

    fn bars(&self, series: &ChartSeries, width: f64, class: &str, out: &mut String) {
        let mut path = String::new();
        for (x, y) in series.points.iter().filter(|(_, y)| *y > 0.0) {
            let (x0, x1) = (self.x(*x), self.x(x + width));
            // Anything above zero is visible.
            let y0 = self.y(*y).min(self.bottom() - 1.0);
            let (w, bottom) = ((x1 - x0).max(1.5), self.bottom());
            let _ = write!(path, "M{x0:.1} {bottom:.1}V{y0:.1}h{w:.1}V{bottom:.1}z");
        }
        let _ = writeln!(out, "<path class=\"bar {class}\" d=\"{path}\"/>");
    }

    fn steps(&self, series: &ChartSeries, width: f64, class: &str, out: &mut String) {
        let (mut line, mut over) = (String::new(), String::new());
        let limit = self.chart.marks.first().map_or(f64::INFINITY, |mark| mark.at);
        for (x, y) in &series.points {
            let (x0, x1) = (self.x(*x), self.x(x + width));
            let verb = if line.is_empty() { 'M' } else { 'L' };
            let _ = write!(line, "{verb}{x0:.1} {0:.1}H{x1:.1}", self.y(*y));
            if *y > limit {
                let (y0, y1) = (self.y(*y), self.y(limit));
                let _ = write!(over, "M{x0:.1} {y1:.1}V{y0:.1}H{x1:.1}V{y1:.1}z");
            }
        }
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
            return;
        };
        let (x0, x1, bottom) = (self.x(first.0), self.x(last.0 + width), self.bottom());
        let _ = writeln!(
            out,
            "<path class=\"fill {class}\" d=\"{line}L{x1:.1} {bottom:.1}L{x0:.1} {bottom:.1}z\"/>\n\
             <path class=\"over\" d=\"{over}\"/>\n<path class=\"stroke {class}\" d=\"{line}\"/>"
        );
    }

    fn marks(&self, out: &mut String) {
        for mark in &self.chart.marks {
            let (y, left, right) = (self.y(mark.at), self.left, self.right());
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"marked\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                y - 5.0,
                escape(&mark.label)
            );
        }
    }

    fn x(&self, value: f64) -> f64 {
        let (start, end) = self.chart.range;
        let share = if end > start { (value - start) / (end - start) } else { 0.0 };
        self.left + share.clamp(0.0, 1.0) * (self.right() - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom() - (value / self.top).clamp(0.0, 1.0) * (self.bottom() - self.above)
    }

    fn right(&self) -> f64 {
        self.size.width - 8.0
    }

    fn bottom(&self) -> f64 {
        self.size.height - 24.0
    }
}

pub(super) const fn class(role: SeriesRole) -> &'static str {
    match role {
        SeriesRole::Offered => "offered",
        SeriesRole::Admitted => "admitted",
        SeriesRole::Denied => "denied",
        SeriesRole::Trailing => "trailing",
        SeriesRole::Compared(0) => "c0",
        SeriesRole::Compared(1) => "c1",
        SeriesRole::Compared(2) => "c2",
        SeriesRole::Compared(3) => "c3",
        SeriesRole::Compared(_) => "c4",
    }
}

/// Escapes text for SVG and HTML, also within attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() && char != '\n' => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

const GAP: f64 = 24.0;
/// The space for the title and the legend.
const HEAD: f64 = 84.0;
/// The space for the title and the caption of a chart.
const TITLED: f64 = 56.0;
/// The space for half of the highest label.
const UNTITLED: f64 = 14.0;
