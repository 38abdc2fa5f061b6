//! The report of a search for a limit.

use super::{LimitSuggestion, ToleranceBasis};
use crate::replay::log_notes;
use crate::report::{
    AxisScale, Chart, ChartMark, ChartSeries, FindingsReport, ReportCell, ReportFact, ReportItem,
    ReportSection, ReportTable, SeriesRole, SeriesStyle, count, share,
};

impl LimitSuggestion {
    /// The limits, how busy keys are, and the configuration.
    pub fn report(&self) -> FindingsReport {
        let search = &self.search;
        let key = if search.key.is_empty() { "all".to_owned() } else { search.key.join(" and ") };
        let chosen = self.found.iter().find(|found| found.algorithm == search.algorithm);
        let (window, tolerated) = (search.window.as_period(), share(search.tolerate));
        let mut facts = vec![
            ReportFact::new("requests", ReportCell::count(self.requests), "that have the key"),
            ReportFact::new(
                "keys",
                ReportCell::count(self.keys),
                format!("different values of {key}"),
            ),
        ];
        if let Some(found) = chosen {
            let limit = ReportCell::text(found.quota.to_string());
            facts.insert(0, ReportFact::new("suggested limit", limit, found.algorithm.name()));
            let share = match search.basis {
                ToleranceBasis::Requests => ReportCell::share(found.denied, self.requests),
                ToleranceBasis::Keys => ReportCell::share(found.denied_keys, self.keys),
            };
            facts.push(ReportFact::new("it denies", share, format!("of {}", search.basis)));
        }
        let mut sections = vec![self.curves(), self.limits(), self.busy()];
        let config = ReportSection::new("Configuration");
        sections.push(config.with(ReportItem::Code(self.snippet())));
        let notes = log_notes(&self.log_summary).into_iter().map(ReportItem::Note);
        sections.push(notes.fold(ReportSection::new("About the log"), ReportSection::with));
        FindingsReport {
            title: format!("A limit per {key} and {window}"),
            about: format!(
                "The smallest limit per {key} and {window} that denies at most {tolerated} of {}, \
                 among {} requests of {} keys.",
                search.basis,
                count(self.requests),
                count(self.keys)
            ),
            facts,
            sections: sections.into_iter().filter(|section| !section.items.is_empty()).collect(),
            command: String::new(),
        }
    }

    fn limits(&self) -> ReportSection {
        let mut table =
            ReportTable::new(["algorithm", "limit", "denied", "share", "keys", "share of keys"]);
        for found in &self.found {
            table.row([
                ReportCell::text(found.algorithm.name()),
                ReportCell::text(found.quota.to_string()),
                ReportCell::count(found.denied),
                ReportCell::share(found.denied, self.requests),
                ReportCell::count(found.denied_keys),
                ReportCell::share(found.denied_keys, self.keys),
            ]);
        }
        let section = ReportSection::new("Smallest limits").with(ReportItem::Table(table));
        let refused = self.refused.iter().map(|(kind, error)| format!("{kind}: {error}."));
        refused.map(ReportItem::Note).fold(section, ReportSection::with)
    }

    fn busy(&self) -> ReportSection {
        let window = self.search.window.as_period();
        let mut table =
            ReportTable::new(["of all keys".to_owned(), format!("at most, in any {window}")]);
        for (name, peak) in self.percentiles() {
            let share =
                name.strip_prefix('p').map_or("all".to_owned(), |share| format!("{share} %"));
            table.row([ReportCell::text(share), ReportCell::count(peak)]);
        }
        ReportSection::new("How busy keys are").with(ReportItem::Table(table))
    }

    fn curves(&self) -> ReportSection {
        let curves = self.found.iter().enumerate().map(|(index, found)| ChartSeries {
            name: found.algorithm.name().to_owned(),
            role: SeriesRole::Compared(index),
            style: SeriesStyle::Line,
            points: found.curve.iter().map(|(units, share)| (*units as f64, *share)).collect(),
        });
        let series: Vec<_> = curves.collect();
        let places = || series.iter().flat_map(|series| &series.points).map(|(x, _)| *x);
        let range = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
        let tolerate = self.search.tolerate;
        let chart = Chart {
            title: "What other limits deny".to_owned(),
            caption: format!("share of {} denied, by the limit", self.search.basis),
            x: AxisScale::Number,
            y: AxisScale::Share,
            range,
            series,
            marks: vec![ChartMark {
                at: tolerate,
                label: format!("tolerated {}", share(tolerate)),
            }],
            main: None,
        };
        ReportSection::new("Other limits").with(ReportItem::Charts(vec![chart]))
    }
}
