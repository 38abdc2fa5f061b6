//! The report of a judgement.

#![allow(clippy::float_arithmetic, reason = "plots are not decisions")]

use tidegate_judge::{Counterexample, FindingKind, JudgedCall, Judgement};
use tidegate_sim::report::{
    AxisScale, Chart, ChartMark, ChartSeries, FindingsReport, ReportCell, ReportFact, ReportItem,
    ReportSection, ReportTable, SeriesRole, SeriesStyle, clip, count, counted, short_span,
};

/// What was found, with the evidence.
pub(super) fn report(judgement: &Judgement) -> FindingsReport {
    let examples = judgement.counterexamples.iter();
    let sections = std::iter::once(summary(judgement))
        .chain(examples.map(|example| evidence(judgement, example)));
    FindingsReport {
        title: format!("Judged by {}", judgement.rule),
        about: about(judgement),
        facts: facts(judgement),
        sections: sections.collect(),
        command: String::new(),
    }
}

fn about(judgement: &Judgement) -> String {
    let calls = judgement.admitted + judgement.denied + judgement.failed;
    let found: u64 = judgement.counts.values().sum();
    let found = match found {
        0 => "The rule explains every answer.".to_owned(),
        1 => "No execution of the rule explains 1 of the answers.".to_owned(),
        found => format!("No execution of the rule explains {} of the answers.", count(found)),
    };
    let failed = match &judgement.first_error {
        Some(error) => {
            let calls = counted(judgement.failed, "call");
            format!(" {calls} got no answer; the first: {}.", clip(error, 120))
        }
        None => String::new(),
    };
    let keys = counted(judgement.keys as u64, "key");
    format!(
        "{found} Rule: {}. {} with {keys}: {} admitted, {} denied.{failed}",
        judgement.rule,
        counted(calls, "call"),
        count(judgement.admitted),
        count(judgement.denied),
    )
}

fn found(judgement: &Judgement, kind: FindingKind) -> u64 {
    judgement.counts.get(&kind).copied().unwrap_or(0)
}

fn facts(judgement: &Judgement) -> Vec<ReportFact> {
    let counts = [
        ("admitted", judgement.admitted),
        ("denied", judgement.denied),
        ("no answer", judgement.failed),
    ];
    let counts = counts.map(|(label, count)| (label, count, "calls"));
    let kinds = FindingKind::ALL.map(|kind| (kind.name(), found(judgement, kind), ""));
    let all = counts.into_iter().chain(kinds);
    all.map(|(label, count, note)| ReportFact::new(label, ReportCell::count(count), note)).collect()
}

fn summary(judgement: &Judgement) -> ReportSection {
    let mut table = ReportTable::new(["finding", "answers"]);
    for kind in FindingKind::ALL {
        let count = ReportCell::count(found(judgement, kind));
        table.row([ReportCell::text(kind.name()), count]);
    }
    table.row([ReportCell::text("no answer"), ReportCell::count(judgement.failed)]);
    ReportSection::new("What was found").with(ReportItem::Table(table))
}

fn evidence(judgement: &Judgement, example: &Counterexample) -> ReportSection {
    let heading = format!("{}: {}", example.kind, example.kind.summary());
    let calls = counted(example.calls.len() as u64, "call");
    let text = format!(
        "Key {}: {}. The smallest evidence that was found has {calls}.",
        clip(&example.key, 60),
        example.sentence
    );
    let section = ReportSection::new(heading).about(text);
    let section = section.with(ReportItem::Charts(vec![chart(judgement, example)]));
    let section = section.with(ReportItem::Table(calls_table(example)));
    match example.calls.len().checked_sub(MOST_ROWS) {
        Some(hidden) if hidden > 0 => {
            let hidden = counted(hidden as u64, "call");
            section.with(ReportItem::Note(format!("{hidden} in the middle are not shown.")))
        }
        _ => section,
    }
}

/// The calls, with times since the first was sent.
fn calls_table(example: &Counterexample) -> ReportTable {
    let columns =
        ["sent", "received", "cost", "instance", "answer", "remaining", "retry after", ""];
    let mut table = ReportTable::new(columns);
    let start = example.calls.first().map_or(0, |call| call.sent);
    let hidden = example.calls.len().saturating_sub(MOST_ROWS);
    for (index, call) in example.calls.iter().enumerate() {
        if (MOST_ROWS / 2..MOST_ROWS / 2 + hidden).contains(&index) && index != example.wrong {
            continue;
        }
        let time = |at: i64| ReportCell::number((at - start) as f64 / 1e6, 6);
        let or_dash = |text: Option<String>| ReportCell::text(text.unwrap_or("-".to_owned()));
        table.row([
            time(call.sent),
            time(call.received),
            ReportCell::count(call.cost),
            ReportCell::count(call.instance.into()),
            ReportCell::text(answer(call)),
            or_dash(call.remaining.map(count)),
            or_dash(call.retry_after.map(|wait| short_span(wait.micros as f64 / 1e6))),
            ReportCell::text(if index == example.wrong { "wrong" } else { "" }),
        ]);
    }
    table
}

fn answer(call: &JudgedCall) -> &'static str {
    match (call.is_admitted(), call.is_denied()) {
        (true, _) => "admitted",
        (_, true) => "denied",
        _ => "none",
    }
}

/// What was admitted and denied, and what had been admitted within the window before each moment.
fn chart(judgement: &Judgement, example: &Counterexample) -> Chart {
    let rule = &judgement.rule;
    let window = rule.quota().window();
    let seconds = |micros: i64| micros as f64 / 1e6;
    let start = example.calls.iter().map(|call| call.sent).min().unwrap_or(0);
    let last = example.calls.iter().map(|call| call.received).max().unwrap_or(0);
    let span = (last - start).max(1_000) * 21 / 20;
    let width = (span / BINS).max(1);
    let bars = |counts: fn(&JudgedCall) -> bool| -> Vec<(f64, f64)> {
        let mut bins = vec![0_u64; BINS as usize + 1];
        for call in example.calls.iter().filter(|call| counts(call)) {
            let bin = usize::try_from((call.received - start) / width).unwrap_or(0);
            bins.get_mut(bin).into_iter().for_each(|sum| *sum += call.cost);
        }
        let bins = bins.into_iter().enumerate();
        bins.map(|(bin, sum)| (seconds(bin as i64 * width), sum as f64)).collect()
    };
    let admitted = bars(JudgedCall::is_admitted);
    let view = window.as_micros() as f64 / 1e6;
    let trailing = admitted.iter().map(|(at, _)| {
        let within = admitted.iter().filter(|(other, _)| other <= at && *other > at - view);
        (*at, within.map(|(_, sum)| sum).sum())
    });
    let (trailing, width) = (trailing.collect(), seconds(width));
    let series = |name: String, role, style, points| ChartSeries { name, role, style, points };
    let within = format!("admitted within the last {}", window.as_period());
    let bar = SeriesStyle::Bars(width);
    let capacity = rule.capacity();
    Chart {
        title: example.kind.name().to_owned(),
        caption: example.sentence.clone(),
        x: AxisScale::Span,
        y: AxisScale::Number,
        range: (0.0, seconds(span)),
        series: vec![
            series("denied".to_owned(), SeriesRole::Denied, bar, bars(JudgedCall::is_denied)),
            series("admitted".to_owned(), SeriesRole::Admitted, bar, admitted),
            series(within, SeriesRole::Trailing, SeriesStyle::Steps(width), trailing),
        ],
        marks: vec![ChartMark { at: capacity as f64, label: format!("limit {}", count(capacity)) }],
        main: None,
    }
}

const MOST_ROWS: usize = 30;
const BINS: i64 = 120;
