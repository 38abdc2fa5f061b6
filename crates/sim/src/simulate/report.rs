//! What a simulation found.

use super::{Outcome, Simulation};
use crate::report::{
    Cell, Chart, Fact, Item, Look, Mark, Report, Role, Scale, Section, Series, Table, count,
    short_span, times,
};
use crate::traffic::seconds;

impl Simulation {
    /// The results under each algorithm, side by side.
    pub fn report(&self, outcomes: &[Outcome]) -> Report {
        let (quota, model) = (self.quota, self.model);
        let span = short_span(seconds(self.setting.span));
        let beside = self.others.iter().map(|quota| format!(" and {quota}")).collect::<String>();
        let offered = outcomes.first().map_or(0, |outcome| outcome.offered);
        let mut sections = vec![self.charts(outcomes)];
        sections.extend(burst_by_burst(outcomes));
        sections.push(self.summary(outcomes));
        Report {
            title: format!("{quota}{beside} under {model} traffic"),
            about: format!(
                "{model}: {}. Limit {quota}{beside}, {span} of virtual time, seed {}.",
                model.about(),
                self.setting.seed
            ),
            facts: self.facts(outcomes, offered),
            sections,
            command: String::new(),
        }
    }

    fn facts(&self, outcomes: &[Outcome], offered: u64) -> Vec<Fact> {
        let mut facts = vec![Fact::new("offered", Cell::count(offered), "requests")];
        for outcome in outcomes {
            let worst = self.multiple(outcome.worst.count);
            let note = format!("{} in one {}", count(outcome.worst.count), self.quota.window());
            facts.push(Fact::new(outcome.algorithm.name(), Cell::times(worst), note));
        }
        facts
    }

    fn summary(&self, outcomes: &[Outcome]) -> Section {
        let mut table = Table::new([
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
                Cell::text(outcome.algorithm.name()),
                Cell::count(outcome.offered),
                Cell::count(outcome.admitted),
                Cell::share(outcome.offered - outcome.admitted, outcome.offered),
                Cell::count(outcome.worst.count),
                Cell::times(self.multiple(outcome.worst.count)),
                Cell::span(outcome.worst.at),
            ]);
        }
        let window = self.quota.window();
        Section::new("What passed")
            .about(format!(
                "The worst window is the fullest {window} that could be found, wherever it begins, \
                 counted request by request{}.",
                if self.setting.sources > 1 && self.keeps_sources_apart() {
                    ", of the source that got most"
                } else {
                    ""
                }
            ))
            .with(Item::Table(table))
    }

    fn charts(&self, outcomes: &[Outcome]) -> Section {
        let window = self.quota.window();
        Section::new("Over time")
            .about(format!(
                "What came, what passed, and how many had passed within the {window} before each \
                 moment: that is what a limit promises to bound."
            ))
            .with(Item::Charts(outcomes.iter().map(|outcome| self.chart(outcome)).collect()))
    }

    fn chart(&self, outcome: &Outcome) -> Chart {
        let end = seconds(self.setting.span);
        let width = end / outcome.bins.len().max(1) as f64;
        let points = |value: fn(&super::Bin) -> u64| {
            let bins = outcome.bins.iter().enumerate();
            bins.map(|(index, bin)| (index as f64 * width, value(bin) as f64)).collect()
        };
        let series =
            |name: &str, role, look, points| Series { name: name.to_owned(), role, look, points };
        let window = self.quota.window();
        let limit = self.quota.limit();
        Chart {
            title: outcome.algorithm.name().to_owned(),
            caption: format!(
                "at most {} in any {window}: {} the limit",
                count(outcome.worst.count),
                times(self.multiple(outcome.worst.count))
            ),
            x: Scale::Span,
            y: Scale::Number,
            range: (0.0, end),
            series: vec![
                series("offered", Role::Offered, Look::Bars(width), points(|bin| bin.offered)),
                series("admitted", Role::Admitted, Look::Bars(width), points(|bin| bin.admitted)),
                series(
                    &format!("admitted within the last {window}"),
                    Role::Trailing,
                    Look::Steps(width),
                    points(|bin| bin.trailing),
                ),
            ],
            marks: vec![Mark { at: limit as f64, label: format!("limit {}", count(limit)) }],
            main: Some(2),
        }
    }

    fn keeps_sources_apart(&self) -> bool {
        self.model == crate::traffic::Model::Zipf
    }

    fn multiple(&self, count: u64) -> f64 {
        count as f64 / self.quota.limit().max(1) as f64
    }
}

/// What each algorithm let through of each burst, if there are few.
fn burst_by_burst(outcomes: &[Outcome]) -> Option<Section> {
    let first = outcomes.first().filter(|outcome| !outcome.bursts.is_empty())?;
    let alike = outcomes.iter().all(|outcome| outcome.bursts.len() == first.bursts.len());
    if !alike {
        return None;
    }
    let names = outcomes.iter().map(|outcome| outcome.algorithm.name());
    let mut table = Table::new(["time", "offered"].into_iter().chain(names));
    for (index, burst) in first.bursts.iter().enumerate() {
        let admitted = outcomes.iter().filter_map(|outcome| outcome.bursts.get(index));
        let admitted = admitted.map(|burst| Cell::count(burst.admitted));
        table.row([Cell::span(burst.at), Cell::count(burst.offered)].into_iter().chain(admitted));
    }
    let totals = outcomes.iter().map(|outcome| Cell::count(outcome.admitted));
    table.row([Cell::text("total"), Cell::count(first.offered)].into_iter().chain(totals));
    let section =
        Section::new("Burst by burst").about("How many of each burst each algorithm admitted.");
    Some(section.with(Item::Table(table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Model;
    use tidegate::AlgorithmKind;

    #[test]
    fn reports_fit_a_terminal_of_eighty_columns() {
        for model in Model::ALL {
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
