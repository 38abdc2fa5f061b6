//! What the measurement found, beside what others published.

use tidegate::AlgorithmKind;

use super::{Findings, Population, Tally};
use crate::Simulation;
use crate::report::{
    Cell, Chart, Fact, Item, Look, Report, Role, Scale, Section, Series, Table, count, times,
};
use crate::traffic::Model;

impl Findings {
    /// The trade-offs of the algorithms, and the counter beside Cloudflare's figures.
    pub fn report(&self) -> Report {
        let asked = &self.asked;
        let (zipf, near) = (self.total(Population::Zipf), self.total(Population::Near));
        let share = |tally: &Tally| Cell::share(tally.estimate.wrong(), tally.requests);
        let about = format!(
            "Limit {}, {} arrivals, seed {}. Two populations of {} sources: zipf, as in the wild \
             ({} requests, {} of the sources above the limit), and near, where all are at a quarter \
             to twice the limit ({} requests).",
            asked.quota,
            asked.arrivals,
            asked.seed,
            count(asked.sources),
            count(zipf.requests),
            count(Population::Zipf.above(asked.sources)),
            count(near.requests),
        );
        Report {
            title: "How exact, how large, how fast".to_owned(),
            about,
            facts: vec![
                Fact::new(
                    "requests",
                    Cell::count(zipf.requests + near.requests),
                    "in virtual time",
                ),
                Fact::new("wrong, zipf", share(&zipf), "by the counter; Cloudflare: 0.003 %"),
                Fact::new("wrong, near", share(&near), "where it is hardest"),
                Fact::new(
                    "rates differ",
                    Cell::fraction(zipf.mean_difference()),
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

    fn trade_off(&self, zipf: &Tally, near: &Tally) -> Section {
        let mut table = Table::new([
            "algorithm",
            "wrong, zipf",
            "wrong, near",
            "at an edge",
            "worst",
            "bytes a key",
            "ns",
        ]);
        let limit = self.asked.quota.limit().max(1) as f64;
        for (index, kind) in AlgorithmKind::ALL.iter().enumerate() {
            let (easy, hard) = (zipf.algorithms[index], near.algorithms[index]);
            let most = |model| {
                let outcome = Simulation::new(self.asked.quota, model).run(*kind);
                outcome.map_or(0, |outcome| outcome.worst.count)
            };
            let (edge, greedy) = (most(Model::BurstAtBoundary), most(Model::Greedy));
            let worst = edge.max(greedy).max(easy.worst).max(hard.worst);
            let nanos = (easy.nanos + hard.nanos) as f64 / (zipf.requests + near.requests) as f64;
            table.row([
                Cell::text(kind.name()),
                Cell::share(easy.wrong(), zipf.requests),
                Cell::share(hard.wrong(), near.requests),
                Cell::times(edge as f64 / limit),
                Cell::times(worst as f64 / limit),
                Cell::number(hard.bytes as f64 / near.sources.max(1) as f64, 0),
                Cell::number(nanos, 1),
            ]);
        }
        let window = self.asked.quota.window();
        Section::new("The trade-off")
            .about(format!(
                "Wrong: decisions that differ from the exact rule on what was admitted before. At an \
                 edge: the fullest {window} when a full quota comes on both sides of a window's edge. \
                 Worst: the fullest that the populations or a greedy attacker found. Bytes: state and \
                 key, near the limit. ns: a decision without the lookup of its key."
            ))
            .with(Item::Table(table))
    }

    fn by_rate(&self) -> Section {
        let names = AlgorithmKind::ALL.iter().map(|kind| kind.name());
        let mut table = Table::new(["rate", "requests"].into_iter().chain(names));
        for (rate, tally) in self.near() {
            let wrong = tally.algorithms.iter().map(|one| Cell::share(one.wrong(), tally.requests));
            let start = [Cell::times(rate), Cell::count(tally.requests)];
            table.row(start.into_iter().chain(wrong));
        }
        Section::new("Wrong decisions by rate")
            .about(
                "The rate is a multiple of the limit. A token bucket keeps another promise: a burst, \
                 and then a steady rate; it is judged by this one all the same.",
            )
            .with(Item::Charts(vec![self.chart()]))
            .with(Item::Table(table))
    }

    fn chart(&self) -> Chart {
        let series = AlgorithmKind::ALL.iter().enumerate().map(|(index, kind)| Series {
            name: kind.name().to_owned(),
            role: Role::Compared(index),
            look: Look::Line,
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
            x: Scale::Times,
            y: Scale::Share,
            range: (0.0, rates.last().copied().unwrap_or(1.0)),
            series: series.collect(),
            marks: Vec::new(),
            main: None,
        }
    }

    fn estimates_by_rate(&self) -> Section {
        let mut table =
            Table::new(["rate", "wrong", "allowed", "denied", "rates differ", "missed", "accused"]);
        for (rate, tally) in self.near() {
            let estimate = &tally.estimate;
            table.row([
                Cell::times(rate),
                Cell::share(estimate.wrong(), tally.requests),
                Cell::share(estimate.wrongly_allowed, tally.requests),
                Cell::share(estimate.wrongly_denied, tally.requests),
                Cell::fraction(tally.mean_difference()),
                Cell::count(estimate.missed),
                Cell::count(estimate.accused),
            ]);
        }
        Section::new("The counter's estimate by rate")
            .about(
                "As Cloudflare measures: every request counts. Wrongly allowed and denied, the mean \
                 difference to the real rate, sources above the limit that were never found, and \
                 sources that were found though never above it.",
            )
            .with(Item::Table(table))
    }

    fn near(&self) -> impl Iterator<Item = (f64, &Tally)> {
        self.groups.iter().filter_map(|group| Some((group.rate?, &group.tally)))
    }
}

/// False positives and negatives.
fn wrong_both_ways(zipf: &Tally, near: &Tally) -> Section {
    let mut table = Table::new([
        "algorithm",
        "let in, zipf",
        "kept out, zipf",
        "let in, near",
        "kept out, near",
    ]);
    for (index, kind) in AlgorithmKind::ALL.iter().enumerate() {
        let shares = [zipf, near].into_iter().flat_map(|tally| {
            let one = tally.algorithms[index];
            [one.too_many, one.too_strict].map(|part| Cell::share(part, tally.requests))
        });
        table.row([Cell::text(kind.name())].into_iter().chain(shares));
    }
    let notes = [zipf, near].into_iter().zip(["zipf", "near"]).map(|(tally, name)| {
        let exact = tally.algorithms[AlgorithmKind::SlidingLog as usize].admitted.max(1) as f64;
        let all = AlgorithmKind::ALL.iter().zip(tally.algorithms);
        let shares =
            all.map(|(kind, one)| format!("{kind} {}", times(one.admitted as f64 / exact)));
        let shares: Vec<_> = shares.collect();
        format!("Admitted of {name}, beside what sliding-log admits: {}.", shares.join(", "))
    });
    let section = Section::new("Wrong in which way")
        .about(
            "Let in although the window was full, and kept out although it was not, as shares of all \
             decisions; and how much passed altogether.",
        )
        .with(Item::Table(table));
    notes.map(Item::Note).fold(section, Section::with)
}

fn beside_cloudflare(zipf: &Tally, near: &Tally) -> Section {
    let mut table = Table::new(["sliding-window counter", "Cloudflare", "zipf", "near the limit"]);
    let mut row = |name: &str, theirs: Cell, ours: fn(&Tally) -> Cell| {
        table.row([Cell::text(name), theirs, ours(zipf), ours(near)]);
    };
    row("requests", Cell::count(400_000_000), |tally| Cell::count(tally.requests));
    row("sources", Cell::count(270_000), |tally| Cell::count(tally.sources));
    row("wrong decisions", Cell::fraction(0.000_03), |tally| {
        Cell::share(tally.estimate.wrong(), tally.requests)
    });
    row("mean difference of rates", Cell::fraction(0.06), |tally| {
        Cell::fraction(tally.mean_difference())
    });
    row("sources above, not found", Cell::count(3), |tally| Cell::count(tally.estimate.missed));
    row("  and above by at most", Cell::fraction(0.15), |tally| {
        Cell::fraction((tally.estimate.missed_at as f64 / 1e6 - 1.0).max(0.0))
    });
    row("sources found, not above", Cell::count(0), |tally| Cell::count(tally.estimate.accused));
    Section::new("Beside Cloudflare's figures")
        .about(
            "Theirs are an observation of real traffic whose limits and rates they did not publish \
             (\"How we built rate limiting capable of scaling to millions of domains\", 2017). Ours \
             are synthetic, and rounded up to whole requests, as the algorithm does.",
        )
        .with(Item::Table(table))
}

#[cfg(test)]
mod tests {
    use crate::{Accuracy, Progress};

    #[test]
    fn the_report_fits_a_terminal_of_eighty_columns() {
        let quota = "100/minute".parse().unwrap();
        let accuracy = Accuracy { sources: 90, requests: 30_000, ..Accuracy::new(quota) };
        let text = accuracy.run(&Progress::default()).unwrap().report().text();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        assert!(text.contains("0.003 %") && text.contains("6 %"), "{text}");
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("90 of the sources above the limit"), "{text}");
    }
}
