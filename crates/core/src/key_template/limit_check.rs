//! Checks whether a limit can be stored under a key template, in a layout that other limiters share.

use super::{KeyPlaceholder, KeyTemplate, KeyTemplateError, WindowName};
use crate::{CalendarPeriod, Limit, Span};

impl KeyTemplate {
    /// Whether this limit can be stored under such names; if not, the error says what was expected.
    ///
    /// ```
    /// # use tidegate_core::KeyTemplate;
    /// let template: KeyTemplate = "sw:{{entity}}:{window_start}".parse()?;
    /// assert!(template.check(&"100/minute".parse()?).is_ok());
    /// // A burst asks for a token bucket.
    /// assert!(template.check(&"100/minute burst 10".parse()?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, limit: &Limit) -> Result<(), KeyTemplateError> {
        match problem(limit, self.window()) {
            None => Ok(()),
            Some(problem) => Err(KeyTemplateError::refused(&self.text, problem)),
        }
    }
}

fn problem(limit: &Limit, name: Option<WindowName>) -> Option<String> {
    match (limit, name) {
        (Limit::SlidingLog(_), Some(name)) => Some(format!(
            "a sliding-log is one sorted set for each entity: expected no {}",
            KeyPlaceholder::Window(name)
        )),
        (Limit::SlidingLog(_), None) => fraction_of_a_millisecond(limit.quota().window()),
        (Limit::FixedWindow(_) | Limit::SlidingWindow(_), None) => {
            Some(format!("a {} has {NO_WINDOW}", limit.kind()))
        }
        (Limit::FixedWindow(_) | Limit::SlidingWindow(_), Some(name)) => {
            let by_calendar = limit.calendar().and_then(not_from_the_epoch);
            by_calendar.or_else(|| fraction_of(name, limit.quota().window()))
        }
        _ => Some(format!("limiters have no common layout for a {}: {WITH_LAYOUT}", limit.kind())),
    }
}

/// Other limiters count windows from the epoch. A calendar day is such a window, but weeks begin on
/// another day, and months have no fixed length.
fn not_from_the_epoch(calendar: CalendarPeriod) -> Option<String> {
    let problem = format!(
        "windows are counted from the epoch, but not a {calendar}: expected a span, such as 30d"
    );
    (calendar != CalendarPeriod::Day).then_some(problem)
}

fn fraction_of_a_millisecond(window: Span) -> Option<String> {
    let problem = || format!("a sorted set counts milliseconds: expected whole ones, not {window}");
    (!is_whole(window, Span::from_millis(1))).then(problem)
}

/// Refuses windows that can begin between two of the numbers in names.
fn fraction_of(name: WindowName, window: Span) -> Option<String> {
    let problem = || {
        let name = KeyPlaceholder::Window(name);
        format!("windows of {window} have no whole {name}: expected {{window_index}}")
    };
    (!is_whole(window, name.unit(window))).then(problem)
}

const fn is_whole(window: Span, unit: Span) -> bool {
    window.as_micros().is_multiple_of(unit.as_micros())
}

const WITH_LAYOUT: &str = "expected fixed-window, sliding-window or sliding-log";
const NO_WINDOW: &str = "a count for each window: expected {window_index}, {window_start} or \
    {window_start_ms}";
