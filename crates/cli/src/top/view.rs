//! Draws the screen of `top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row as TableRow, Table, Wrap};
use tidegate_wire::admin::{ServerStatus, TopKey};

use super::model::{TopModel, TopRate, TopRow, age, bytes, short};

/// Draws the whole screen. Designed for 80 columns and 24 lines; more of either shows more policies and keys.
pub(super) fn draw(frame: &mut Frame<'_>, model: &TopModel) {
    let keys = (frame.area().height / 3).clamp(4, 22);
    let alarm_text = alarm_line(model);
    // A problem must not be cut off.
    let alarm_height = if alarm_text.width() > usize::from(frame.area().width) { 2 } else { 1 };
    let [head, store, memory, alarm, policies, lists, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(alarm_height),
        Constraint::Min(3),
        Constraint::Length(keys),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(head_line(model), head);
    frame.render_widget(store_line(model), store);
    frame.render_widget(memory_line(model), memory);
    frame.render_widget(Paragraph::new(alarm_text).wrap(Wrap { trim: false }), alarm);
    draw_policies(frame, policies, model);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(lists);
    let top = &model.now.top;
    draw_keys(frame, left, "most denied", &top.denied, top.denied_total);
    draw_keys(frame, right, "busiest", &top.busiest, top.busiest_total);
    frame.render_widget(foot_line(model), foot);
}

fn head_line(model: &TopModel) -> Paragraph<'static> {
    let now = &model.now;
    let allowed = model.rate_of(|status| status.policies.iter().map(|policy| policy.allowed).sum());
    let denied = model.rate_of(|status| status.policies.iter().map(|policy| policy.denied).sum());
    let share = denied.share_of(allowed).unwrap_or(0);
    let mut spans = vec![
        Span::from(format!(" tidegate {}", now.version)).bold(),
        Span::from(format!("  up {}", age(now.uptime_secs))),
        Span::from(format!("  {allowed} allowed/s  ")),
        Span::from(format!("{denied} denied/s ({}.{} %)", share / 10, share % 10)).bold(),
    ];
    if model.is_paused() {
        spans.push(Span::from("  PAUSED").fg(Color::Yellow).bold());
    }
    Paragraph::new(Line::from(spans))
}

fn store_line(model: &TopModel) -> Paragraph<'static> {
    let store = &model.now.store;
    let mut parts = Vec::new();
    if store.is_remote {
        let p50 = model.quantile(50, |status| &status.store.latency);
        let p99 = model.quantile(99, |status| &status.store.latency);
        parts.push(format!("redis  p50 {p50}  p99 {p99}"));
        parts.push(format!("{} errors/s", model.rate_of(|status| status.store.errors)));
        parts.push(if store.breaker_open { "breaker OPEN" } else { "breaker closed" }.to_owned());
    } else {
        let p99 = model.quantile(99, |status| &status.decision);
        parts.push(format!("memory  decisions p99 {p99}"));
    }
    let line = Line::from(format!(" store: {}", parts.join("  ")));
    Paragraph::new(if store.breaker_open { line.fg(Color::Red) } else { line })
}

/// What the store holds, and what the server uses.
fn memory_line(model: &TopModel) -> Paragraph<'static> {
    let ServerStatus { store, process, .. } = &model.now;
    let of =
        |most: Option<u64>, show: fn(u64) -> String| most.map(|most| format!(" of {}", show(most)));
    let of_keys = of(store.max_keys, short).unwrap_or_default();
    let keys = store.keys.map(|keys| format!("{}{of_keys} keys", short(keys)));
    let of_bytes = of(store.max_bytes, bytes).unwrap_or_default();
    let memory = store.bytes.map(|held| bytes(held) + &of_bytes);
    let files = process.open_fds.map(|fds| format!("{fds} files"));
    let list = |parts: [Option<String>; 2]| parts.into_iter().flatten().collect::<Vec<_>>();
    let of_store = list([keys, memory]).join(", ");
    let of_server = list([process.resident_bytes.map(bytes), files]).join(", ");
    let held = if of_store.is_empty() { String::new() } else { format!(" holds: {of_store} ") };
    Paragraph::new(Line::from(format!("{held} server: {of_server}")))
}

/// The most urgent problem; without one, a remark or nothing.
fn alarm_line(model: &TopModel) -> Line<'static> {
    let ServerStatus { store, config, .. } = &model.now;
    let old = model.problem.as_ref().map(|why| format!("no answer: {why}"));
    let lost = store.problem.as_ref().map(|why| format!("without the store: {why}"));
    let refused = config.problem.as_ref().map(|why| format!("configuration refused: {why}"));
    match old.or(lost).or(refused).or_else(|| overflow(model)) {
        Some(alarm) => Line::from(format!(" ! {alarm}")).fg(Color::Red).bold(),
        None if config.amendments > 0 => {
            Line::from(format!(" {} overrides and modes set at run time", config.amendments))
        }
        None => match model.rate_of(|status| status.unmatched).to_string() {
            none if none == "0" => Line::from(""),
            unmatched => Line::from(format!(" {unmatched} requests/s match no policy")),
        },
    }
}

/// The policies whose new keys have no room at the moment.
fn overflow(model: &TopModel) -> Option<String> {
    let rows = model.rows().into_iter();
    let names: Vec<_> = rows
        .filter(|row| row.overflowed > TopRate::default())
        .map(|row| &row.policy.name)
        .collect();
    let all = model.rate_of(|status| status.store.overflowed.unwrap_or(0));
    match names[..] {
        _ if all == TopRate::default() => None,
        [] => Some("no room: new keys share counters".to_owned()),
        [name] => Some(format!("no room: new keys of {name} share counters")),
        [name, ..] => {
            let more = names.len() - 1;
            Some(format!("no room: new keys of {name} and {more} more share counters"))
        }
    }
}

fn draw_policies(frame: &mut Frame<'_>, area: Rect, model: &TopModel) {
    let rows = model.rows();
    let room = usize::from(area.height.saturating_sub(1));
    let omitted = rows.len().saturating_sub(room) + model.now.policies_omitted;
    let shown = if omitted > 0 { room.saturating_sub(1) } else { room };
    // Names and limits share the space that the numbers leave.
    let words = usize::from(area.width).saturating_sub(NUMBERS);
    let limits = (words / 2).max(14);
    let names = words.saturating_sub(limits);
    let line = |row| policy_line(row, names, limits);
    let mut lines: Vec<TableRow<'_>> = rows.iter().take(shown).map(line).collect();
    if omitted > 0 {
        let hidden = rows.len().saturating_sub(shown) + model.now.policies_omitted;
        lines.push(TableRow::new([format!("and {hidden} more")]));
    }
    let titles = ["POLICY", "MODE", "ALLOWED/S", "DENIED/S", "%", "SHADOW/S", "EARLY/S", "LIMITS"];
    let titles = titles.iter().enumerate().map(|(column, title)| {
        if (2..7).contains(&column) { right((*title).to_owned()) } else { Cell::from(*title) }
    });
    let widths = [
        Constraint::Min(12),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(u16::try_from(limits).unwrap_or(u16::MAX)),
    ];
    let header = TableRow::new(titles).style(Style::new().reversed());
    frame.render_widget(Table::new(lines, widths).header(header).column_spacing(1), area);
}

/// Rates side by side, with short units: a terminal has little room.
fn short_rates(rates: &[String]) -> String {
    const UNITS: [(&str, &str); 4] =
        [("/second", "/s"), ("/minute", "/min"), ("/hour", "/h"), ("/day", "/d")];
    let shorten = |text: String, (long, short): &(&str, &str)| text.replace(long, short);
    UNITS.iter().fold(rates.join(" "), shorten)
}

fn policy_line<'a>(row: &TopRow<'a>, names: usize, limits: usize) -> TableRow<'a> {
    let share = row.denied.share_of(row.allowed);
    let line = TableRow::new([
        Cell::from(cut(&format!(" {}", row.policy.name), names)),
        Cell::from(row.policy.mode.as_str()),
        right(row.allowed.to_string()),
        right(row.denied.to_string()),
        right(share.map_or_else(String::new, |share| format!("{}.{}", share / 10, share % 10))),
        right(row.shadow_denied.to_string()),
        right(row.early_returns.to_string()),
        Cell::from(cut(&short_rates(&row.policy.limits), limits)),
    ]);
    match row.policy.mode.as_str() {
        "enforce" => line,
        _ => line.style(Style::new().dim()),
    }
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, title: &str, keys: &[TopKey], total: u64) {
    let title = format!(" {title}, of {} in 1-2 min ", short(total));
    // Fingerprints are shown in full; a key's text may be long.
    let words = usize::from(area.width).saturating_sub(10);
    let policies = words.saturating_sub(18).clamp(11, 24);
    let texts = words.saturating_sub(policies + 1);
    let lines = keys.iter().map(|key| {
        TableRow::new([
            right(short(key.count)),
            Cell::from(cut(&key.key, texts)),
            Cell::from(cut(&key.policy, policies)),
        ])
    });
    let policies = Constraint::Length(u16::try_from(policies).unwrap_or(u16::MAX));
    let widths = [Constraint::Length(9), Constraint::Min(17), policies];
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Table::new(lines, widths).column_spacing(1).block(block), area);
}

fn foot_line(model: &TopModel) -> Paragraph<'static> {
    let text = format!(" s sort: {}   p pause   q quit", model.sort().name());
    Paragraph::new(Line::from(text).reversed())
}

/// Shows that something was cut off: `a-long-na…`.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// Columns of the numbers of a policy, its mode, and the gaps.
const NUMBERS: usize = 7 + 9 + 8 + 5 + 8 + 7 + 7;

#[cfg(test)]
mod tests;
