//! What a search found.

use super::{Of, Suggestion};
use crate::replay::notes_on;
use crate::report::{
    Cell, Chart, Fact, Item, Look, Mark, Report, Role, Scale, Section, Series, Table, count, share,
};

impl Suggestion {
    /// The limits, how busy keys are, and the configuration.
    pub fn report(&self) -> Report {
        let asked = &self.asked;
        let key = if asked.key.is_empty() { "all".to_owned() } else { asked.key.join(" and ") };
        let chosen = self.found.iter().find(|found| found.algorithm == asked.algorithm);
        let (window, tolerated) = (asked.window, share(asked.tolerate));
        let mut facts = vec![
            Fact::new("requests", Cell::count(self.requests), "that have the key"),
            Fact::new("keys", Cell::count(self.keys), format!("different values of {key}")),
        ];
        if let Some(found) = chosen {
            let limit = Cell::text(found.quota.to_string());
            facts.insert(0, Fact::new("suggested limit", limit, found.algorithm.name()));
            let share = match asked.of {
                Of::Requests => Cell::share(found.denied, self.requests),
                Of::Keys => Cell::share(found.denied_keys, self.keys),
            };
            facts.push(Fact::new("it denies", share, format!("of {}", asked.of)));
        }
        let mut sections = vec![self.curves(), self.limits(), self.busy()];
        let config = Section::new("Configuration");
        sections.push(config.with(Item::Code(self.snippet())));
        let notes = notes_on(&self.reading).into_iter().map(Item::Note);
        sections.push(notes.fold(Section::new("About the log"), Section::with));
        Report {
            title: format!("A limit per {key} and {window}"),
            about: format!(
                "The smallest limit per {key} and {window} that denies at most {tolerated} of {}, \
                 among {} requests of {} keys.",
                asked.of,
                count(self.requests),
                count(self.keys)
            ),
            facts,
            sections: sections.into_iter().filter(|section| !section.items.is_empty()).collect(),
            command: String::new(),
        }
    }

    fn limits(&self) -> Section {
        let mut table =
            Table::new(["algorithm", "limit", "denied", "share", "keys", "share of keys"]);
        for found in &self.found {
            table.row([
                Cell::text(found.algorithm.name()),
                Cell::text(found.quota.to_string()),
                Cell::count(found.denied),
                Cell::share(found.denied, self.requests),
                Cell::count(found.denied_keys),
                Cell::share(found.denied_keys, self.keys),
            ]);
        }
        let section = Section::new("Smallest limits").with(Item::Table(table));
        let refused = self.refused.iter().map(|(kind, error)| format!("{kind}: {error}."));
        refused.map(Item::Note).fold(section, Section::with)
    }

    fn busy(&self) -> Section {
        let window = self.asked.window;
        let mut table = Table::new(["of all keys".to_owned(), format!("at most, in any {window}")]);
        for (name, peak) in self.percentiles() {
            let share =
                name.strip_prefix('p').map_or("all".to_owned(), |share| format!("{share} %"));
            table.row([Cell::text(share), Cell::count(peak)]);
        }
        Section::new("How busy keys are").with(Item::Table(table))
    }

    fn curves(&self) -> Section {
        let curves = self.found.iter().enumerate().map(|(index, found)| Series {
            name: found.algorithm.name().to_owned(),
            role: Role::Compared(index),
            look: Look::Line,
            points: found.curve.iter().map(|(units, share)| (*units as f64, *share)).collect(),
        });
        let series: Vec<_> = curves.collect();
        let places = || series.iter().flat_map(|series| &series.points).map(|(x, _)| *x);
        let range = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
        let tolerate = self.asked.tolerate;
        let chart = Chart {
            title: "What other limits deny".to_owned(),
            caption: format!("share of {} denied, by the limit", self.asked.of),
            x: Scale::Number,
            y: Scale::Share,
            range,
            series,
            marks: vec![Mark { at: tolerate, label: format!("tolerated {}", share(tolerate)) }],
            main: None,
        };
        Section::new("Other limits").with(Item::Charts(vec![chart]))
    }
}
