//! Draws charts in a terminal.

use std::fmt::Write as _;

use super::chart::{Chart, ChartSeries};
use super::format::clip;

/// The chart, no wider than 80 columns: the main series large, the others as one line each.
pub(super) fn plot(chart: &Chart, top: f64, out: &mut String) {
    let Some(main) = chart.main.and_then(|main| chart.series.get(main)) else { return };
    let _ = writeln!(out, "{}", chart.title);
    if !chart.caption.is_empty() {
        let _ = writeln!(out, "{}", chart.caption);
    }
    if chart.series.iter().flat_map(|series| &series.points).all(|(_, height)| *height <= 0.0) {
        out.push_str("none\n");
        return;
    }
    let heights = columns(chart, main);
    let label = |value: f64| format!("{:>MARGIN$} ", chart.y_label(value));
    let step = top / ROWS as f64;
    for row in (0..ROWS).rev() {
        let (floor, ceiling) = (row as f64 * step, (row + 1) as f64 * step);
        let mark = chart.marks.iter().find(|mark| mark.at > floor && mark.at <= ceiling);
        let text = match mark {
            Some(mark) => label(mark.at),
            None if row + 1 == ROWS => label(top),
            None => " ".repeat(MARGIN + 1),
        };
        let cells: String =
            heights.iter().map(|height| cell(*height, floor, step, mark.is_some())).collect();
        let name = mark.map_or_else(String::new, |mark| clip(&mark.label, LABEL));
        let line = format!("{text}│{cells} {name}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    axis(chart, out);
    for series in chart.series.iter().filter(|series| !std::ptr::eq(*series, main)) {
        sparkline(chart, series, out);
    }
}

/// A part of a column: how much of the row is filled.
fn cell(height: f64, floor: f64, step: f64, is_marked: bool) -> char {
    let eighths = ((height - floor) / step * 8.0).round().clamp(0.0, 8.0) as usize;
    match (eighths, is_marked) {
        (0, true) => '┄',
        (eighths, _) => EIGHTHS.get(eighths).copied().unwrap_or(' '),
    }
}

/// The highest point within each column.
fn columns(chart: &Chart, series: &ChartSeries) -> Vec<f64> {
    let (start, end) = chart.range;
    let mut heights = vec![0.0_f64; COLUMNS];
    for (x, y) in &series.points {
        let at = (x - start) / (end - start) * COLUMNS as f64;
        if let Some(height) = heights.get_mut((at.max(0.0) as usize).min(COLUMNS - 1)) {
            *height = height.max(*y);
        }
    }
    heights
}

fn axis(chart: &Chart, out: &mut String) {
    let (start, end) = chart.range;
    let mut line: Vec<char> = vec!['─'; COLUMNS + 1];
    let mut labels: Vec<char> = Vec::new();
    for tick in chart.x_ticks(6.0) {
        let at = ((tick - start) / (end - start) * COLUMNS as f64).round() as usize;
        let text = chart.x_label(tick);
        let begins = at.saturating_sub(text.chars().count() / 2);
        // Anything that would run into the previous label, or over the edge, is left out.
        if begins > labels.len() || labels.is_empty() {
            if begins + text.chars().count() > COLUMNS + 6 {
                continue;
            }
            labels.resize(begins, ' ');
            labels.extend(text.chars());
            if let Some(place) = line.get_mut(at) {
                *place = '┬';
            }
        }
    }
    let (line, labels): (String, String) = (line.iter().collect(), labels.iter().collect());
    let _ = writeln!(out, "{:>MARGIN$} └{line}\n{:MARGIN$}  {labels}", chart.y_label(0.0), "");
}

fn sparkline(chart: &Chart, series: &ChartSeries, out: &mut String) {
    let heights = columns(chart, series);
    let most = heights.iter().copied().fold(0.0, f64::max);
    let cells: String = heights
        .iter()
        .map(|height| {
            // Anything above zero is visible, however small.
            let eighths = if most > 0.0 { (height / most * 8.0).ceil() } else { 0.0 };
            EIGHTHS.get(eighths as usize).copied().unwrap_or(' ')
        })
        .collect();
    let name = clip(&series.name, MARGIN);
    let _ = writeln!(out, "{name:>MARGIN$}  {}", cells.trim_end());
}

const COLUMNS: usize = 53;
const ROWS: usize = 6;
/// For numbers, and for the names of series.
const MARGIN: usize = 12;
/// What is left of 80 columns for the name of a mark.
const LABEL: usize = 80 - COLUMNS - MARGIN - 3;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{AxisScale, SeriesRole, SeriesStyle};

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let series = |name: &str| ChartSeries {
            name: name.to_owned(),
            role: SeriesRole::Denied,
            style: SeriesStyle::Bars(1.0),
            points: points.clone(),
        };
        Chart {
            title: "title".to_owned(),
            caption: String::new(),
            x: AxisScale::Span,
            y: AxisScale::Number,
            range: (0.0, 4.0),
            series: vec![series("denied"), series("denied today")],
            marks: Vec::new(),
            main: Some(0),
        }
    }

    #[test]
    fn simultaneous_requests_share_a_column() {
        let mut out = String::new();
        plot(&chart(vec![(2.0, 7.0)]), 7.0, &mut out);
        let column = |line: &&str| line.chars().position(|char| char == '█');
        let columns: Vec<_> = out.lines().filter_map(|line| column(&line)).collect();
        assert_eq!(columns.len(), 7, "{out}");
        assert!(columns.iter().all(|column| *column == columns[0]), "{out}");
    }

    #[test]
    fn without_data_no_plot_is_drawn() {
        let mut out = String::new();
        plot(&chart(vec![(2.0, 0.0)]), 0.0, &mut out);
        assert_eq!(out, "title\nnone\n");
    }
}
