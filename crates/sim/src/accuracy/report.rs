//! The report of an accuracy study, beside the figures that Cloudflare published.

use tidegate::AlgorithmKind;

use super::{AccuracyFindings, AccuracyTally, Population};
use crate::Simulation;
use crate::report::{
    AxisScale, Chart, ChartSeries, FindingsReport, ReportCell, ReportFact, ReportItem,
    ReportSection, ReportTable, SeriesRole, SeriesStyle, count, times,
};
use crate::traffic::TrafficModel;

impl AccuracyFindings {
    /// The trade-offs of the algorithms, and the counter beside Cloudflare's figures.
    pub fn report(&self) -> FindingsReport {
        let study = &self.study;
        let (zipf, near) = (self.total(Population::Zipf), self.total(Population::Near));
        let share =
            |tally: &AccuracyTally| ReportCell::share(tally.estimate.wrong(), tally.requests);
        let about = format!(
            "Limit {}, {} arrivals, seed {}. Two populations of {} sources: zipf, as in the wild \
             ({} requests, {} of the sources above the limit), and near, where all are at a quarter \
             to twice the limit ({} requests).",
            study.quota,
            study.arrivals,
            study.seed,
            count(study.sources),
            count(zipf.requests),
            count(Population::Zipf.above(study.sources)),
            count(near.requests),
        );
        FindingsReport {
            title: "How exact, how large, how fast".to_owned(),
            about,
            facts: vec![
                ReportFact::new(
                    "requests",
                    ReportCell::count(zipf.requests + near.requests),
                    "in virtual time",
                ),
                ReportFact::new("counter wrong, zipf", share(&zipf), "Cloudflare: 0.003 %"),
                ReportFact::new("counter wrong, near", share(&near), "where it is hardest"),
                ReportFact::new(
                    "rates differ",
                    ReportCell::fraction(zipf.mean_difference()),
                    "on average, zipf; Cloudflare: 6 %",
                ),
            ],
            sections: vec![
                self.trade_off(&zipf, &near),
                wrong_both_ways(&zipf, &near),
                beside_cloudflare(&zipf, &near),
                self.by_rate(),
                self.estimates_by_rate(),
            ],
            command: String::new(),
        }
    }

    fn trade_off(&self, zipf: &AccuracyTally, near: &AccuracyTally) -> ReportSection {
        let mut table = ReportTable::new([
            "algorithm",
            "wrong, zipf",
            "wrong, near",
            "at an edge",
            "worst",
            "bytes a key",
            "ns",
        ]);
        let limit = self.study.quota.limit().max(1) as f64;
        for (index, kind) in AlgorithmKind::ALL.iter().enumerate() {
            let (easy, hard) = (zipf.algorithms[index], near.algorithms[index]);
            let most = |model| {
                let outcome = Simulation::new(self.study.quota, model).run(*kind);
                outcome.map_or(0, |outcome| outcome.worst.count)
            };
            let (edge, greedy) = (most(TrafficModel::BurstAtBoundary), most(TrafficModel::Greedy));
            let worst = edge.max(greedy).max(easy.worst).max(hard.worst);
            let nanos = (easy.nanos + hard.nanos) as f64 / (zipf.requests + near.requests) as f64;
            table.row([
                ReportCell::text(kind.name()),
                ReportCell::share(easy.wrong(), zipf.requests),
                ReportCell::share(hard.wrong(), near.requests),
                ReportCell::times(edge as f64 / limit),
                ReportCell::times(worst as f64 / limit),
                ReportCell::number(hard.bytes as f64 / near.sources.max(1) as f64, 0),
                ReportCell::number(nanos, 1),
            ]);
        }
        let window = self.study.quota.window();
        ReportSection::new("The trade-off")
            .about(format!(
                "Wrong: decisions that differ from the exact rule on what was admitted before. At an \
                 edge: the fullest {window} when a full quota comes on both sides of a window's edge. \
                 Worst: the fullest window of the populations or of a greedy attacker. Bytes: state and \
                 key, near the limit. ns: a decision without the lookup of its key."
            ))
            .with(ReportItem::Table(table))
    }

    fn by_rate(&self) -> ReportSection {
        let names = AlgorithmKind::ALL.iter().map(|kind| kind.name());
        let mut table = ReportTable::new(["rate", "requests"].into_iter().chain(names));
        for (rate, tally) in self.near() {
            let wrong =
                tally.algorithms.iter().map(|one| ReportCell::share(one.wrong(), tally.requests));
            let start = [ReportCell::times(rate), ReportCell::count(tally.requests)];
            table.row(start.into_iter().chain(wrong));
        }
        ReportSection::new("Wrong decisions by rate")
            .about(
                "The rate is a multiple of the limit. A token bucket promises something else, \
                 a burst and then a steady rate, but is measured by the same rule here.",
            )
            .with(ReportItem::Charts(vec![self.chart()]))
            .with(ReportItem::Table(table))
    }

    fn chart(&self) -> Chart {
        let series = AlgorithmKind::ALL.iter().enumerate().map(|(index, kind)| ChartSeries {
            name: kind.name().to_owned(),
            role: SeriesRole::Compared(index),
            style: SeriesStyle::Line,
            points: self
                .near()
                .map(|(rate, tally)| {
                    let wrong = tally.algorithms[index].wrong();
                    (rate, wrong as f64 / tally.requests.max(1) as f64)
                })
                .collect(),
        });
        let rates = Population::Near.rates();
        Chart {
            title: "Share of all decisions".to_owned(),
            caption: "by how fast a source is, in multiples of the limit".to_owned(),
            x: AxisScale::Times,
            y: AxisScale::Share,
            range: (0.0, rates.last().copied().unwrap_or(1.0)),
            series: series.collect(),
            marks: Vec::new(),
            main: None,
        }
    }

    fn estimates_by_rate(&self) -> ReportSection {
        let mut table = ReportTable::new([
            "rate",
            "wrong",
            "allowed",
            "denied",
            "rates differ",
            "missed",
            "accused",
        ]);
        for (rate, tally) in self.near() {
            let estimate = &tally.estimate;
            table.row([
                ReportCell::times(rate),
                ReportCell::share(estimate.wrong(), tally.requests),
                ReportCell::share(estimate.wrongly_allowed, tally.requests),
                ReportCell::share(estimate.wrongly_denied, tally.requests),
                ReportCell::fraction(tally.mean_difference()),
                ReportCell::count(estimate.missed),
                ReportCell::count(estimate.false_alarms),
            ]);
        }
        ReportSection::new("The counter's estimate by rate")
            .about(
                "As Cloudflare measures: every request counts. Wrongly allowed and denied, the mean \
                 difference to the real rate, sources above the limit that were never found, and \
                 sources that were found though never above it.",
            )
            .with(ReportItem::Table(table))
    }

    fn near(&self) -> impl Iterator<Item = (f64, &AccuracyTally)> {
        self.groups.iter().filter_map(|group| Some((group.rate?, &group.tally)))
    }
}

/// False positives and negatives.
fn wrong_both_ways(zipf: &AccuracyTally, near: &AccuracyTally) -> ReportSection {
    let mut table = ReportTable::new([
        "algorithm",
        "let in, zipf",
        "kept out, zipf",
        "let in, near",
        "kept out, near",
    ]);
    for (index, kind) in AlgorithmKind::ALL.iter().enumerate() {
        let shares = [zipf, near].into_iter().flat_map(|tally| {
            let one = tally.algorithms[index];
            [one.too_many, one.too_strict].map(|part| ReportCell::share(part, tally.requests))
        });
        table.row([ReportCell::text(kind.name())].into_iter().chain(shares));
    }
    let notes = [zipf, near].into_iter().zip(["zipf", "near"]).map(|(tally, name)| {
        let exact = tally.algorithms[AlgorithmKind::SlidingLog as usize].admitted.max(1) as f64;
        let all = AlgorithmKind::ALL.iter().zip(tally.algorithms);
        let shares =
            all.map(|(kind, one)| format!("{kind} {}", times(one.admitted as f64 / exact)));
        let shares: Vec<_> = shares.collect();
        format!("Admitted of {name}, beside what sliding-log admits: {}.", shares.join(", "))
    });
    let section = ReportSection::new("Wrong in which way")
        .about(
            "Let in although the window was full, and kept out although it was not, as shares of all \
             decisions; and how much passed in total.",
        )
        .with(ReportItem::Table(table));
    notes.map(ReportItem::Note).fold(section, ReportSection::with)
}

fn beside_cloudflare(zipf: &AccuracyTally, near: &AccuracyTally) -> ReportSection {
    let mut table =
        ReportTable::new(["sliding-window counter", "Cloudflare", "zipf", "near the limit"]);
    let mut row =
        |name: &str, published: ReportCell, measured: fn(&AccuracyTally) -> ReportCell| {
            table.row([ReportCell::text(name), published, measured(zipf), measured(near)]);
        };
    row("requests", ReportCell::count(400_000_000), |tally| ReportCell::count(tally.requests));
    row("sources", ReportCell::count(270_000), |tally| ReportCell::count(tally.sources));
    row("wrong decisions", ReportCell::fraction(0.000_03), |tally| {
        ReportCell::share(tally.estimate.wrong(), tally.requests)
    });
    row("mean difference of rates", ReportCell::fraction(0.06), |tally| {
        ReportCell::fraction(tally.mean_difference())
    });
    row("sources above, not found", ReportCell::count(3), |tally| {
        ReportCell::count(tally.estimate.missed)
    });
    row("  and above by at most", ReportCell::fraction(0.15), |tally| {
        ReportCell::fraction((tally.estimate.missed_at as f64 / 1e6 - 1.0).max(0.0))
    });
    row("sources found, not above", ReportCell::count(0), |tally| {
        ReportCell::count(tally.estimate.false_alarms)
    });
    ReportSection::new("Beside Cloudflare's figures")
        .about(
            "Theirs are an observation of real traffic whose limits and rates they did not publish \
             (\"How we built rate limiting capable of scaling to millions of domains\", 2017). Ours \
             are synthetic, and rounded up to whole requests, as the algorithm does.",
        )
        .with(ReportItem::Table(table))
}

#[cfg(test)]
mod tests {
    use crate::{AccuracyStudy, WorkProgress};

    #[test]
    fn the_report_fits_a_terminal_of_eighty_columns() {
        let quota = "100/minute".parse().unwrap();
        let accuracy = AccuracyStudy { sources: 90, requests: 30_000, ..AccuracyStudy::new(quota) };
        let text = accuracy.run(&WorkProgress::default()).unwrap().report().text();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        assert!(text.contains("0.003 %") && text.contains("6 %"), "{text}");
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("90 of the sources above the limit"), "{text}");
    }
}
