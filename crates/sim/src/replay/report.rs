//! The report of a replay.

use tidegate::Timestamp;

use super::run::{DENIED, OFFERED};
use super::{MemoryReplayLimiter, ReplayChanges, ReplayFindings, ReplayLimiter as _, ReplayRun};
use crate::log::{LogLineFormat, LogSummary};
use crate::report::{
    AxisScale, Chart, ChartSeries, FindingsReport, ReportCell, ReportFact, ReportItem,
    ReportSection, ReportTable, SeriesRole, SeriesStyle, clip, count, counted, moment, share,
    short_span,
};
use crate::sketch::{FrequentSketch, TimelineSketch};
use crate::traffic::seconds;

impl ReplayFindings {
    /// What would have been denied, to which callers and when, and what would change.
    pub fn report(&self) -> FindingsReport {
        let mut sections = vec![self.over_time(), self.by_policy()];
        if let Some((old, changes)) = &self.old {
            sections.push(self.changes(old, changes));
        }
        sections.push(hitters("Who is denied most", self.new.top(), "denied"));
        sections.push(self.about_the_log());
        FindingsReport {
            title: format!("{}, replayed", self.new.name()),
            about: self.about(),
            facts: self.facts(),
            sections: sections.into_iter().filter(|section| !section.items.is_empty()).collect(),
            command: String::new(),
        }
    }

    fn about(&self) -> String {
        let (summary, new) = (&self.log_summary, &self.new);
        let denied = new.denied() as f64 / new.requests().max(1) as f64;
        format!(
            "Of {} requests from {} to {} (UTC), {} would have denied {} ({}).",
            count(new.requests()),
            moment(summary.first.unwrap_or(Timestamp::ZERO)),
            moment(summary.last.unwrap_or(Timestamp::ZERO)),
            new.name(),
            count(new.denied()),
            share(denied),
        )
    }

    fn facts(&self) -> Vec<ReportFact> {
        let new = &self.new;
        let share = ReportCell::share(new.denied(), new.requests());
        let mut facts = vec![
            ReportFact::new("requests", ReportCell::count(new.requests()), "in the log"),
            ReportFact::new("denied", ReportCell::count(new.denied()), "by the new configuration"),
            ReportFact::new("of all requests", share, "denied"),
        ];
        if let Some((_, changes)) = &self.old {
            let (more, fewer) = (changes.newly_denied, changes.newly_allowed);
            facts.push(ReportFact::new("newly denied", ReportCell::count(more), "today they pass"));
            facts.push(ReportFact::new(
                "no longer denied",
                ReportCell::count(fewer),
                "today they do not pass",
            ));
        }
        if self.log_summary.malformed > 0 {
            let note = "lines that are not requests";
            facts.push(ReportFact::new(
                "malformed",
                ReportCell::count(self.log_summary.malformed),
                note,
            ));
        }
        facts
    }

    fn by_policy(&self) -> ReportSection {
        let mut table = ReportTable::new([
            "policy",
            "requests",
            "denied",
            "share",
            "keys",
            "keys denied",
            "shadow",
        ]);
        let mut policies: Vec<_> = self.new.policies().iter().collect();
        let omitted = policies.len().saturating_sub(MOST_POLICIES);
        if omitted > 0 {
            policies.sort_by_key(|policy| std::cmp::Reverse((policy.denied, policy.requests)));
            policies.truncate(MOST_POLICIES);
        }
        for policy in policies {
            table.row([
                ReportCell::text(clip(&policy.name, 20)),
                ReportCell::count(policy.requests),
                ReportCell::count(policy.denied),
                ReportCell::share(policy.denied, policy.requests),
                ReportCell::estimate(policy.keys.count(), policy.keys.is_exact()),
                ReportCell::estimate(policy.denied_keys.count(), policy.denied_keys.is_exact()),
                ReportCell::count(policy.shadow_denied),
            ]);
        }
        let section = ReportSection::new("By policy")
            .about("Shadow: what a policy in shadow mode would have denied.")
            .with(ReportItem::Table(table));
        let omitted = (omitted > 0)
            .then(|| format!("And {} more policies, which deny less.", count(omitted as u64)));
        let unmatched = self.new.unmatched();
        let unmatched = (unmatched > 0)
            .then(|| format!("No policy applies to {}.", counted(unmatched, "request")));
        omitted
            .into_iter()
            .chain(unmatched)
            .map(ReportItem::Note)
            .fold(section, ReportSection::with)
    }

    fn changes(
        &self,
        old: &ReplayRun<MemoryReplayLimiter>,
        changes: &ReplayChanges,
    ) -> ReportSection {
        let mut table = ReportTable::new(["against today", "requests", "share"]);
        let all = self.new.requests();
        let mut row = |name: String, part: u64| {
            table.row([
                ReportCell::text(name),
                ReportCell::count(part),
                ReportCell::share(part, all),
            ]);
        };
        row(format!("denied by {}", clip(old.name(), 40)), old.denied());
        row(format!("denied by {}", clip(self.new.name(), 40)), self.new.denied());
        row("denied, but not today".to_owned(), changes.newly_denied);
        row("not denied, but denied today".to_owned(), changes.newly_allowed);
        let keys = ReportCell::estimate(changes.keys.count(), changes.keys.is_exact());
        let mut section = ReportSection::new("What would change")
            .about(format!(
                "Keys that would be denied a request that today passes: {}.",
                keys.shown()
            ))
            .with(ReportItem::Table(table));
        let lists = [("newly denied", &changes.top), ("no longer denied", &changes.relieved)];
        for (name, top) in lists {
            section.items.extend(hitters("", top, name).items);
        }
        section
    }

    fn over_time(&self) -> ReportSection {
        let bars = |run: &ReplayRun<MemoryReplayLimiter>, name: &str, role, kind| {
            let timeline = run.timeline();
            ChartSeries {
                name: name.to_owned(),
                role,
                style: SeriesStyle::Bars(width(timeline)),
                points: points(timeline, kind),
            }
        };
        let mut denied = vec![bars(&self.new, "denied", SeriesRole::Denied, DENIED)];
        if let Some((old, _)) = &self.old {
            let today = bars(old, "denied today", SeriesRole::Compared(1), DENIED);
            let style = SeriesStyle::Steps(width(old.timeline()));
            denied.push(ChartSeries { style, ..today });
        }
        let all = bars(&self.new, "requests", SeriesRole::Offered, OFFERED);
        let timeline = self.new.timeline();
        let each = short_span(width(timeline));
        let chart = |title: &str, series| Chart {
            title: title.to_owned(),
            caption: format!("in each {each}, UTC"),
            x: AxisScale::Moment,
            y: AxisScale::Number,
            range: range(timeline),
            series,
            marks: Vec::new(),
            main: Some(0),
        };
        ReportSection::new("When")
            .with(ReportItem::Charts(vec![chart("Requests that would have been denied", denied)]))
            .with(ReportItem::Charts(vec![chart("All requests", vec![all])]))
    }

    fn about_the_log(&self) -> ReportSection {
        let summary = &self.log_summary;
        let notes = log_notes(summary).into_iter().chain(self.overflow()).map(ReportItem::Note);
        notes.fold(ReportSection::new("About the log"), ReportSection::with)
    }

    fn overflow(&self) -> Option<String> {
        let stats = self.new.limiter().stats().filter(|stats| stats.overflowed > 0)?;
        Some(format!(
            "With shared counters, because there are more keys than fit the store: {}. Their results \
             are stricter than they would be.",
            counted(stats.overflowed, "request")
        ))
    }
}

/// The most file names that are shown.
const MOST_FILES: usize = 8;

/// Notes about a log, for any report.
pub(crate) fn log_notes(summary: &LogSummary) -> Vec<String> {
    let mut notes = Vec::new();
    if !summary.order.is_empty() {
        let shown = summary.order.iter().take(MOST_FILES).map(|name| clip(name, 40));
        let more = match summary.order.len().saturating_sub(MOST_FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = shown.collect::<Vec<_>>().join(", ");
        notes.push(format!("Files were read in the order of their first requests: {shown}{more}."));
    }
    if summary.has_merged {
        notes.push("Files overlap in time: their requests were merged.".to_owned());
    }
    if summary.malformed > 0 {
        let shown: Vec<_> = summary.examples.iter().map(ToString::to_string).collect();
        notes.push(format!(
            "Skipped as not a request: {}, such as {}.",
            counted(summary.malformed, "line"),
            shown.join("; ")
        ));
    }
    if summary.late > 0 {
        notes.push(format!(
            "Too far behind later lines, so counted at their time: {}; sort the log, or increase \
             --reorder.",
            counted(summary.late, "request")
        ));
    }
    if summary.ahead > 0 {
        notes.push(format!(
            "Too far ahead of all others for a correct clock, so counted immediately: {}.",
            counted(summary.ahead, "request")
        ));
    }
    for (name, seen) in &summary.attributes {
        if *seen == 0 && summary.requests > 0 {
            notes.push(format!("No request has the attribute {}.", clip(name, 40)));
        }
    }
    if summary.formats.contains(&LogLineFormat::Common) {
        notes.push(
            "Times are whole seconds in this format: requests of one second count as one moment."
                .to_owned(),
        );
    }
    notes
}

fn hitters<K: Copy + Eq + std::hash::Hash>(
    heading: &str,
    top: &FrequentSketch<K>,
    what: &str,
) -> ReportSection {
    let mut table = ReportTable::new(["policy", "key", what]);
    for item in top.top(MOST_HITTERS) {
        let (policy, key) = item.label.split_once('\t').unwrap_or(("", &item.label));
        table.row([
            ReportCell::text(clip(policy, 20)),
            ReportCell::text(clip(key, 42)),
            ReportCell::count(item.count),
        ]);
    }
    let section = ReportSection::new(heading);
    let section = match top.error() {
        0 => section,
        error => section.about(format!("Counts may be too low by up to {}.", count(error))),
    };
    match top.top(1).is_empty() {
        true => section,
        false => section.with(ReportItem::Table(table)),
    }
}

/// The length of a bin in seconds.
fn width(timeline: &TimelineSketch<2>) -> f64 {
    seconds(timeline.width())
}

fn range(timeline: &TimelineSketch<2>) -> (f64, f64) {
    let start = seconds(timeline.start().since(Timestamp::ZERO));
    (start, start + width(timeline) * timeline.bins().len().max(1) as f64)
}

fn points(timeline: &TimelineSketch<2>, kind: usize) -> Vec<(f64, f64)> {
    let (start, _) = range(timeline);
    let bins = timeline.bins().iter().enumerate();
    bins.map(|(index, bin)| (start + index as f64 * width(timeline), bin[kind] as f64)).collect()
}

const MOST_POLICIES: usize = 20;
const MOST_HITTERS: usize = 10;
