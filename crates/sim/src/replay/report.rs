//! What a replay found.

use tidegate::Timestamp;

use super::side::{DENIED, OFFERED};
use super::{Changes, Court as _, MemoryCourt, Replayed, Side};
use crate::log::{Format, Reading};
use crate::report::{
    Cell, Chart, Fact, Item, Look, Report, Role, Scale, Section, Series, Table, clip, count,
    counted, moment, share, short_span,
};
use crate::sketch::{Frequent, Timeline};
use crate::traffic::seconds;

impl Replayed {
    /// What would have been denied, to whom, when; and what would change.
    pub fn report(&self) -> Report {
        let mut sections = vec![self.over_time(), self.by_policy()];
        if let Some((old, changes)) = &self.old {
            sections.push(self.changes(old, changes));
        }
        sections.push(hitters("Who is denied most", self.new.top(), "denied"));
        sections.push(self.about_the_log());
        Report {
            title: format!("{}, replayed", self.new.name()),
            about: self.about(),
            facts: self.facts(),
            sections: sections.into_iter().filter(|section| !section.items.is_empty()).collect(),
            command: String::new(),
        }
    }

    fn about(&self) -> String {
        let (reading, new) = (&self.reading, &self.new);
        let denied = new.denied() as f64 / new.requests().max(1) as f64;
        format!(
            "Of {} requests from {} to {} (UTC), {} would have denied {} ({}).",
            count(new.requests()),
            moment(reading.first.unwrap_or(Timestamp::ZERO)),
            moment(reading.last.unwrap_or(Timestamp::ZERO)),
            new.name(),
            count(new.denied()),
            share(denied),
        )
    }

    fn facts(&self) -> Vec<Fact> {
        let new = &self.new;
        let share = Cell::share(new.denied(), new.requests());
        let mut facts = vec![
            Fact::new("requests", Cell::count(new.requests()), "in the log"),
            Fact::new("denied", Cell::count(new.denied()), "by the new configuration"),
            Fact::new("of all requests", share, "denied"),
        ];
        if let Some((_, changes)) = &self.old {
            let (more, fewer) = (changes.newly_denied, changes.newly_allowed);
            facts.push(Fact::new("newly denied", Cell::count(more), "today they pass"));
            facts.push(Fact::new("no longer denied", Cell::count(fewer), "today they do not pass"));
        }
        if self.reading.malformed > 0 {
            let note = "lines that are no requests";
            facts.push(Fact::new("malformed", Cell::count(self.reading.malformed), note));
        }
        facts
    }

    fn by_policy(&self) -> Section {
        let mut table =
            Table::new(["policy", "requests", "denied", "share", "keys", "keys denied", "shadow"]);
        let mut policies: Vec<_> = self.new.policies().iter().collect();
        let omitted = policies.len().saturating_sub(MOST_POLICIES);
        if omitted > 0 {
            policies.sort_by_key(|policy| std::cmp::Reverse((policy.denied, policy.requests)));
            policies.truncate(MOST_POLICIES);
        }
        for policy in policies {
            table.row([
                Cell::text(clip(&policy.name, 20)),
                Cell::count(policy.requests),
                Cell::count(policy.denied),
                Cell::share(policy.denied, policy.requests),
                Cell::estimate(policy.keys.count(), policy.keys.is_exact()),
                Cell::estimate(policy.denied_keys.count(), policy.denied_keys.is_exact()),
                Cell::count(policy.shadow_denied),
            ]);
        }
        let section = Section::new("By policy")
            .about("Shadow: what a policy that is only watched would have denied.")
            .with(Item::Table(table));
        let omitted = (omitted > 0)
            .then(|| format!("And {} policies more, which deny less.", count(omitted as u64)));
        let unmatched = self.new.unmatched();
        let unmatched = (unmatched > 0)
            .then(|| format!("No policy is about {}.", counted(unmatched, "request")));
        omitted.into_iter().chain(unmatched).map(Item::Note).fold(section, Section::with)
    }

    fn changes(&self, old: &Side<MemoryCourt>, changes: &Changes) -> Section {
        let mut table = Table::new(["against today", "requests", "share"]);
        let all = self.new.requests();
        let mut row = |name: String, part: u64| {
            table.row([Cell::text(name), Cell::count(part), Cell::share(part, all)]);
        };
        row(format!("denied by {}", clip(old.name(), 40)), old.denied());
        row(format!("denied by {}", clip(self.new.name(), 40)), self.new.denied());
        row("denied, and today not".to_owned(), changes.newly_denied);
        row("not denied, and today so".to_owned(), changes.newly_allowed);
        let keys = Cell::estimate(changes.keys.count(), changes.keys.is_exact());
        let mut section = Section::new("What would change")
            .about(format!(
                "Keys that would be denied a request that today passes: {}.",
                keys.shown()
            ))
            .with(Item::Table(table));
        let lists = [("newly denied", &changes.top), ("no longer denied", &changes.relieved)];
        for (name, top) in lists {
            section.items.extend(hitters("", top, name).items);
        }
        section
    }

    fn over_time(&self) -> Section {
        let bars = |side: &Side<MemoryCourt>, name: &str, role, kind| {
            let timeline = side.timeline();
            Series {
                name: name.to_owned(),
                role,
                look: Look::Bars(width(timeline)),
                points: points(timeline, kind),
            }
        };
        let mut denied = vec![bars(&self.new, "denied", Role::Denied, DENIED)];
        if let Some((old, _)) = &self.old {
            let today = bars(old, "denied today", Role::Compared(1), DENIED);
            let look = Look::Steps(width(old.timeline()));
            denied.push(Series { look, ..today });
        }
        let all = bars(&self.new, "requests", Role::Offered, OFFERED);
        let timeline = self.new.timeline();
        let each = short_span(width(timeline));
        let chart = |title: &str, series| Chart {
            title: title.to_owned(),
            caption: format!("in each {each}, UTC"),
            x: Scale::Moment,
            y: Scale::Number,
            range: range(timeline),
            series,
            marks: Vec::new(),
            main: Some(0),
        };
        Section::new("When")
            .with(Item::Charts(vec![chart("Requests that would have been denied", denied)]))
            .with(Item::Charts(vec![chart("All requests", vec![all])]))
    }

    fn about_the_log(&self) -> Section {
        let reading = &self.reading;
        let notes = notes_on(reading).into_iter().chain(self.overflow()).map(Item::Note);
        notes.fold(Section::new("About the log"), Section::with)
    }

    fn overflow(&self) -> Option<String> {
        let stats = self.new.court().stats().filter(|stats| stats.overflowed > 0)?;
        Some(format!(
            "From more keys than fit the store, which therefore shared counters: {}. What is said of \
             them is stricter than it would be.",
            counted(stats.overflowed, "request")
        ))
    }
}

/// How many names of files are shown.
const MOST_FILES: usize = 8;

/// What to know about a log, for any report.
pub(crate) fn notes_on(reading: &Reading) -> Vec<String> {
    let mut notes = Vec::new();
    if !reading.order.is_empty() {
        let shown = reading.order.iter().take(MOST_FILES).map(|name| clip(name, 40));
        let more = match reading.order.len().saturating_sub(MOST_FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = shown.collect::<Vec<_>>().join(", ");
        notes.push(format!("Files were read in the order of their first requests: {shown}{more}."));
    }
    if reading.has_merged {
        notes.push("Files overlap in time: their requests were merged.".to_owned());
    }
    if reading.malformed > 0 {
        let shown: Vec<_> = reading.examples.iter().map(ToString::to_string).collect();
        notes.push(format!(
            "Left out, as it is no request: {}, such as {}.",
            counted(reading.malformed, "line"),
            shown.join("; ")
        ));
    }
    if reading.late > 0 {
        notes.push(format!(
            "So far behind later lines that it was counted at their time: {}; sort the log, or give \
             --reorder more time.",
            counted(reading.late, "request")
        ));
    }
    if reading.ahead > 0 {
        notes.push(format!(
            "So far ahead of all others that a clock must have been wrong, and counted at once: {}.",
            counted(reading.ahead, "request")
        ));
    }
    for (name, seen) in &reading.attributes {
        if *seen == 0 && reading.requests > 0 {
            notes.push(format!("No request has the attribute {}.", clip(name, 40)));
        }
    }
    if reading.formats.contains(&Format::Common) {
        notes.push(
            "Times are whole seconds in this format: requests of one second count as one moment."
                .to_owned(),
        );
    }
    notes
}

fn hitters<K: Copy + Eq + std::hash::Hash>(
    heading: &str,
    top: &Frequent<K>,
    what: &str,
) -> Section {
    let mut table = Table::new(["policy", "key", what]);
    for hitter in top.top(MOST_HITTERS) {
        let (policy, key) = hitter.label.split_once('\t').unwrap_or(("", &hitter.label));
        table.row([
            Cell::text(clip(policy, 20)),
            Cell::text(clip(key, 42)),
            Cell::count(hitter.count),
        ]);
    }
    let section = Section::new(heading);
    let section = match top.error() {
        0 => section,
        error => section.about(format!("Counts may be too low by up to {}.", count(error))),
    };
    match top.top(1).is_empty() {
        true => section,
        false => section.with(Item::Table(table)),
    }
}

/// In seconds.
fn width(timeline: &Timeline<2>) -> f64 {
    seconds(timeline.width())
}

fn range(timeline: &Timeline<2>) -> (f64, f64) {
    let start = seconds(timeline.start().since(Timestamp::ZERO));
    (start, start + width(timeline) * timeline.bins().len().max(1) as f64)
}

fn points(timeline: &Timeline<2>, kind: usize) -> Vec<(f64, f64)> {
    let (start, _) = range(timeline);
    let bins = timeline.bins().iter().enumerate();
    bins.map(|(index, bin)| (start + index as f64 * width(timeline), bin[kind] as f64)).collect()
}

const MOST_POLICIES: usize = 20;
const MOST_HITTERS: usize = 10;
