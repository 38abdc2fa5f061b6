//! Charts as data, before they are drawn.

use super::format::{self, SPLIT_SECONDS, TIME_STEPS, ticks};

/// Series over a common axis.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What to look for in it.
    pub caption: String,
    /// How to read the horizontal axis.
    pub x: AxisScale,
    /// How to read the vertical axis.
    pub y: AxisScale,
    /// Where the horizontal axis begins and ends; in seconds since the epoch for [`AxisScale::Moment`].
    pub range: (f64, f64),
    /// Drawn on top of each other.
    pub series: Vec<ChartSeries>,
    /// Heights to compare with.
    pub marks: Vec<ChartMark>,
    /// The series that a terminal draws largest; it draws no chart without one.
    pub main: Option<usize>,
}

/// What the numbers along an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Numbers.
    Number,
    /// Shares, shown in percent.
    Share,
    /// Multiples of something: `0.5x`.
    Times,
    /// Seconds since the start.
    Span,
    /// Seconds since the epoch.
    Moment,
}

/// Points, from left to right.
#[derive(Clone, Debug)]
pub struct ChartSeries {
    /// Its name in the legend.
    pub name: String,
    /// Which colour it has.
    pub role: SeriesRole,
    /// How it is drawn.
    pub style: SeriesStyle,
    /// Where and how high. A bar begins where its point is.
    pub points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeriesStyle {
    /// A bar of this width at each point.
    Bars(f64),
    /// Steps of this width, with the area below lightly filled.
    Steps(f64),
    /// A line from point to point.
    Line,
}

/// What a series stands for: it has the same colour everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesRole {
    /// Requests that came.
    Offered,
    /// Requests that passed.
    Admitted,
    /// Requests that were denied.
    Denied,
    /// Requests within the window.
    Trailing,
    /// One of several that are compared.
    Compared(usize),
}

/// A height to compare with.
#[derive(Clone, Debug)]
pub struct ChartMark {
    /// How high.
    pub at: f64,
    /// What it is.
    pub label: String,
}

impl Chart {
    /// The highest of all points and marks.
    pub(super) fn top(&self) -> f64 {
        let points = self.series.iter().flat_map(|series| &series.points).map(|(_, y)| *y);
        points.chain(self.marks.iter().map(|mark| mark.at)).fold(0.0, f64::max)
    }

    /// The highest point of the series that a terminal draws, and of the marks.
    pub(super) fn main_top(&self) -> f64 {
        let main = self.main.and_then(|main| self.series.get(main));
        let points = main.into_iter().flat_map(|series| &series.points).map(|(_, y)| *y);
        points.chain(self.marks.iter().map(|mark| mark.at)).fold(0.0, f64::max)
    }

    /// Heights to label, for charts that reach up to `top`.
    pub(super) fn y_ticks(&self, top: f64) -> Vec<f64> {
        let wanted = if top <= 4.0 && self.y == AxisScale::Number { top.max(1.0) } else { 4.0 };
        ticks(top, wanted, &[])
    }

    /// Places to label along the horizontal axis, about this many.
    pub(super) fn x_ticks(&self, wanted: f64) -> Vec<f64> {
        let (start, end) = self.range;
        let steps = match self.x {
            AxisScale::Span => TIME_STEPS,
            // Labels cannot distinguish anything shorter than a second.
            AxisScale::Moment => TIME_STEPS.strip_prefix(&SPLIT_SECONDS).unwrap_or(TIME_STEPS),
            _ => &[],
        };
        let offsets = ticks(end - start, wanted, steps);
        let step = offsets.get(1).copied().unwrap_or(1.0);
        // Ticks are at round times of the clock, wherever the log begins.
        let first = (start / step).ceil() * step;
        let places = offsets.iter().map(|offset| first + offset);
        places.filter(|place| *place <= end + step * 1e-6).collect()
    }

    /// A number along the vertical axis.
    pub(super) fn y_label(&self, value: f64) -> String {
        label(self.y, value, 0.0)
    }

    /// A number along the horizontal axis.
    pub(super) fn x_label(&self, value: f64) -> String {
        label(self.x, value, self.range.1 - self.range.0)
    }
}

fn label(scale: AxisScale, value: f64, range: f64) -> String {
    match scale {
        AxisScale::Number if value.fract() == 0.0 => format::count(value as u64),
        AxisScale::Number => format!("{value:.1}"),
        AxisScale::Share => format::share(value),
        AxisScale::Times => format!("{value:.2}x"),
        AxisScale::Span => format::short_span(value),
        AxisScale::Moment => {
            let at = tidegate::Timestamp::from_secs(value.max(0.0) as u64);
            let text = format::moment(at);
            // The part that distinguishes the ticks.
            let part = if range > 400.0 * 86_400.0 {
                text.get(..7)
            } else if range > 3.0 * 86_400.0 {
                text.get(5..10)
            } else if range > 600.0 {
                text.get(11..16)
            } else {
                text.get(11..)
            };
            part.unwrap_or(&text).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(x: AxisScale, range: (f64, f64)) -> Vec<String> {
        let chart = Chart {
            title: String::new(),
            caption: String::new(),
            x,
            y: AxisScale::Number,
            range,
            series: Vec::new(),
            marks: Vec::new(),
            main: None,
        };
        chart.x_ticks(6.0).into_iter().map(|tick| chart.x_label(tick)).collect()
    }

    #[test]
    fn labels_of_an_axis_are_round_and_tell_its_places_apart() {
        let hour = 3_600.0;
        let moments = |start: f64, length: f64| labels(AxisScale::Moment, (start, start + length));
        assert_eq!(moments(50.0, 1.0), ["00:00:50", "00:00:51"]);
        assert_eq!(moments(50.0, 2.0 * hour), ["00:30", "01:00", "01:30", "02:00"]);
        assert_eq!(moments(0.0, 5.0 * 24.0 * hour)[..2], ["01-01", "01-02"]);
        assert_eq!(moments(0.0, 9e8)[..2], ["1970-01", "1976-05"]);
        assert_eq!(labels(AxisScale::Number, (12.0, 56.0)), ["20", "30", "40", "50"]);
        assert_eq!(labels(AxisScale::Span, (0.0, 180.0))[..3], ["0s", "30s", "60s"]);
    }
}
