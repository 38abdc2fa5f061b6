//! The report of a simulation.

use super::{Simulation, SimulationOutcome};
use crate::report::{
    AxisScale, Chart, ChartMark, ChartSeries, FindingsReport, ReportCell, ReportFact, ReportItem,
    ReportSection, ReportTable, SeriesRole, SeriesStyle, count, short_span, times,
};
use crate::traffic::seconds;

impl Simulation {
    /// The results under each algorithm, side by side.
    pub fn report(&self, outcomes: &[SimulationOutcome]) -> FindingsReport {
        let (quota, model) = (self.quota, self.model);
        let span = short_span(seconds(self.settings.span));
        let beside = self.others.iter().map(|quota| format!(" and {quota}")).collect::<String>();
        let offered = outcomes.first().map_or(0, |outcome| outcome.offered);
        let mut sections = vec![self.charts(outcomes)];
        sections.extend(burst_by_burst(outcomes));
        sections.push(self.summary(outcomes));
        FindingsReport {
            title: format!("{quota}{beside} under {model} traffic"),
            about: format!(
                "{model}: {}. Limit {quota}{beside}, {span} of virtual time, seed {}.",
                model.about(),
                self.settings.seed
            ),
            facts: self.facts(outcomes, offered),
            sections,
            command: String::new(),
        }
    }

    fn facts(&self, outcomes: &[SimulationOutcome], offered: u64) -> Vec<ReportFact> {
        let mut facts = vec![ReportFact::new("offered", ReportCell::count(offered), "requests")];
        for outcome in outcomes {
            let worst = self.multiple_of_limit(outcome.worst.count);
            let note = format!(
                "{} in one {}",
                count(outcome.worst.count),
                self.quota.window().as_period()
            );
            facts.push(ReportFact::new(outcome.algorithm.name(), ReportCell::times(worst), note));
        }
        facts
    }

    fn summary(&self, outcomes: &[SimulationOutcome]) -> ReportSection {
        let mut table = ReportTable::new([
            "algorithm",
            "offered",
            "admitted",
            "denied",
            "worst window",
            "of limit",
            "ends at",
        ]);
        for outcome in outcomes {
            table.row([
                ReportCell::text(outcome.algorithm.name()),
                ReportCell::count(outcome.offered),
                ReportCell::count(outcome.admitted),
                ReportCell::share(outcome.offered - outcome.admitted, outcome.offered),
                ReportCell::count(outcome.worst.count),
                ReportCell::times(self.multiple_of_limit(outcome.worst.count)),
                ReportCell::span(outcome.worst.at),
            ]);
        }
        let window = self.quota.window().as_period();
        ReportSection::new("What passed")
            .about(format!(
                "The worst window is the fullest {window} that could be found, wherever it begins, \
                 counted request by request{}.",
                if self.settings.sources > 1 && self.has_limit_per_source() {
                    ", of the source that got most"
                } else {
                    ""
                }
            ))
            .with(ReportItem::Table(table))
    }

    fn charts(&self, outcomes: &[SimulationOutcome]) -> ReportSection {
        let window = self.quota.window().as_period();
        ReportSection::new("Over time")
            .about(format!(
                "What came, what passed, and how many had passed within the {window} before each \
                 moment: that is what a limit promises to bound."
            ))
            .with(ReportItem::Charts(outcomes.iter().map(|outcome| self.chart(outcome)).collect()))
    }

    fn chart(&self, outcome: &SimulationOutcome) -> Chart {
        let end = seconds(self.settings.span);
        let width = end / outcome.bins.len().max(1) as f64;
        let points = |value: fn(&super::SimulationBin) -> u64| {
            let bins = outcome.bins.iter().enumerate();
            bins.map(|(index, bin)| (index as f64 * width, value(bin) as f64)).collect()
        };
        let series = |name: &str, role, style, points| ChartSeries {
            name: name.to_owned(),
            role,
            style,
            points,
        };
        let window = self.quota.window().as_period();
        let limit = self.quota.limit();
        Chart {
            title: outcome.algorithm.name().to_owned(),
            caption: format!(
                "at most {} in any {window}: {} the limit",
                count(outcome.worst.count),
                times(self.multiple_of_limit(outcome.worst.count))
            ),
            x: AxisScale::Span,
            y: AxisScale::Number,
            range: (0.0, end),
            series: vec![
                series(
                    "offered",
                    SeriesRole::Offered,
                    SeriesStyle::Bars(width),
                    points(|bin| bin.offered),
                ),
                series(
                    "admitted",
                    SeriesRole::Admitted,
                    SeriesStyle::Bars(width),
                    points(|bin| bin.admitted),
                ),
                series(
                    &format!("admitted within the last {window}"),
                    SeriesRole::Trailing,
                    SeriesStyle::Steps(width),
                    points(|bin| bin.trailing),
                ),
            ],
            marks: vec![ChartMark { at: limit as f64, label: format!("limit {}", count(limit)) }],
            main: Some(2),
        }
    }

    fn has_limit_per_source(&self) -> bool {
        self.model == crate::traffic::TrafficModel::Zipf
    }

    fn multiple_of_limit(&self, count: u64) -> f64 {
        count as f64 / self.quota.limit().max(1) as f64
    }
}

/// What each algorithm admitted of each burst, if there are few bursts.
fn burst_by_burst(outcomes: &[SimulationOutcome]) -> Option<ReportSection> {
    let first = outcomes.first().filter(|outcome| !outcome.bursts.is_empty())?;
    let alike = outcomes.iter().all(|outcome| outcome.bursts.len() == first.bursts.len());
    if !alike {
        return None;
    }
    let names = outcomes.iter().map(|outcome| outcome.algorithm.name());
    let mut table = ReportTable::new(["time", "offered"].into_iter().chain(names));
    for (index, burst) in first.bursts.iter().enumerate() {
        let admitted = outcomes.iter().filter_map(|outcome| outcome.bursts.get(index));
        let admitted = admitted.map(|burst| ReportCell::count(burst.admitted));
        table.row(
            [ReportCell::span(burst.at), ReportCell::count(burst.offered)]
                .into_iter()
                .chain(admitted),
        );
    }
    let totals = outcomes.iter().map(|outcome| ReportCell::count(outcome.admitted));
    table.row(
        [ReportCell::text("total"), ReportCell::count(first.offered)].into_iter().chain(totals),
    );
    let section = ReportSection::new("Burst by burst")
        .about("How many of each burst each algorithm admitted.");
    Some(section.with(ReportItem::Table(table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::TrafficModel;
    use tidegate::AlgorithmKind;

    #[test]
    fn reports_fit_a_terminal_of_eighty_columns() {
        for model in TrafficModel::ALL {
            let simulation = Simulation::new("100/minute".parse().unwrap(), *model);
            let outcomes: Vec<_> =
                AlgorithmKind::ALL.iter().map(|kind| simulation.run(*kind).unwrap()).collect();
            let text = simulation.report(&outcomes).text();
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{model}: {line:?}");
            }
        }
    }
}
