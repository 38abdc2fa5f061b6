//! Compiles limits: quotas with their algorithms, or `unlimited`.

use tidegate_core::algorithm::{FixedWindow, SteppedWindow};
use tidegate_core::{AlgorithmKind, CalendarPeriod, Limit, Quota, QuotaError, Span};

use super::{count, whole};
use crate::files::file::{FileChoice, FileLimit, FileLimitFields, FileLimitForm};
use crate::files::planned_policy::LimitSet;
use crate::files::problem::{ProblemReport, brief};
use crate::files::yaml::{ByteRange, SourceValue};
use crate::{KeyHasher, Policy};

/// The settings of a policy that concern all of its limits.
pub(super) struct LimitContext<'a> {
    pub(super) name: &'a str,
    pub(super) hasher: &'a KeyHasher,
    /// The policy's own choice.
    pub(super) algorithm: Option<AlgorithmKind>,
    /// The file's default, for policies without one.
    pub(super) default: Option<AlgorithmKind>,
    /// How many steps windows have, if the policy says so.
    pub(super) steps: Option<u64>,
    pub(super) counts_denied: bool,
    pub(super) is_staggered: bool,
    pub(super) is_shadow: bool,
}

/// Compiles all limits of a list, and reports each invalid one.
pub(super) fn limit_set(
    file: &[FileLimit],
    context: &LimitContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<LimitSet> {
    if let [FileLimit { form: FileLimitForm::Text(text), .. }] = file
        && text == UNLIMITED
    {
        return Some(LimitSet::Unlimited);
    }
    let limits: Vec<_> = file.iter().map(|limit| compile(limit, context, report)).collect();
    let limits: Vec<Limit> = limits.into_iter().collect::<Option<_>>()?;
    let at = file.first().map(|limit| limit.at.clone())?;
    match Policy::with_hasher(context.hasher.clone(), context.name, limits) {
        Err(error) => {
            report.add(&at, error.to_string());
            None
        }
        Ok(policy) => {
            let policy = if context.is_shadow { policy.shadowed() } else { policy };
            let policy = if context.is_staggered { policy.staggered() } else { policy };
            Some(LimitSet::Rules(policy.rules().to_vec()))
        }
    }
}

fn compile(
    file: &FileLimit,
    context: &LimitContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<Limit> {
    let draft = match &file.form {
        FileLimitForm::Text(text) => LimitDraft::from_text(text, &file.at, report)?,
        FileLimitForm::Fields(fields) => LimitDraft::from_fields(fields, report)?,
    };
    let steps = draft.steps.or(context.steps);
    let limit = draft.limit(context);
    let limit = limit.and_then(|limit| steps.map_or(Ok(limit), |steps| limit.with_steps(steps)));
    let limit = limit.map_err(|error| report.add(&file.at, error.to_string())).ok()?;
    finish(limit, &file.at, context, report)
}

/// Applies options that not every algorithm has.
fn finish(
    limit: Limit,
    at: &ByteRange,
    context: &LimitContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<Limit> {
    if let (Some(calendar), true) = (limit.calendar(), context.is_staggered) {
        report.add(at, format!("a {calendar} cannot be staggered: it ends with the calendar"));
        return None;
    }
    if !context.counts_denied {
        return Some(limit);
    }
    let counting = limit.counting_denied();
    if counting.is_none() {
        let name = limit.kind();
        report.add(at, format!("{name} cannot count denied requests: expected fixed-window"));
    }
    counting
}

/// A limit whose parts have been read, and whose algorithm is not chosen yet.
struct LimitDraft {
    units: u64,
    window: LimitWindow,
    burst: Option<u64>,
    steps: Option<u64>,
    algorithm: Option<AlgorithmKind>,
}

enum LimitWindow {
    Span(Span),
    Calendar(CalendarPeriod),
}

impl LimitDraft {
    fn from_text(text: &str, at: &ByteRange, report: &mut ProblemReport<'_>) -> Option<Self> {
        if text.trim() == UNLIMITED {
            report.add(at, "unlimited beside another limit: expected it as the only one");
            return None;
        }
        if let Some((units, name)) = by_calendar(text) {
            let units =
                whole(&SourceValue::new(at.clone(), units.trim().to_owned()), "a limit", report);
            let window = LimitWindow::Calendar(calendar(name, at, report)?);
            return Some(Self { units: units?, window, burst: None, steps: None, algorithm: None });
        }
        match text.parse::<Quota>() {
            Ok(quota) => Some(Self::from(quota)),
            Err(error) => {
                report.add(at, with_calendar(text, &error));
                None
            }
        }
    }

    fn from_fields(fields: &FileLimitFields, report: &mut ProblemReport<'_>) -> Option<Self> {
        let algorithm = match &fields.algorithm {
            Some(name) => Some(AlgorithmKind::named(name, report)?),
            None => None,
        };
        let burst = match &fields.burst {
            Some(burst) => Some(whole(burst, "a burst", report)?),
            None => None,
        };
        let steps = match &fields.steps {
            Some(text) => Some(steps(text, report)?),
            None => None,
        };
        let quota = &fields.quota;
        let draft = match &fields.per {
            None if quota.value.bytes().all(|byte| byte.is_ascii_digit()) => {
                report
                    .add(&quota.at, "a quota without \"per\": expected a window, such as per: 1m");
                return None;
            }
            None => Self::from_text(&quota.value, &quota.at, report)?,
            Some(per) => Self {
                units: whole(quota, "a quota", report)?,
                window: window(per, report)?,
                burst: None,
                steps: None,
                algorithm: None,
            },
        };
        Some(Self { algorithm, steps, burst: burst.or(draft.burst), ..draft })
    }

    fn limit(self, context: &LimitContext<'_>) -> Result<Limit, QuotaError> {
        let chosen = self.algorithm.or(context.algorithm);
        match self.window {
            LimitWindow::Calendar(calendar) => {
                // This quota and its limit only check the parts: a fixed window refuses a burst.
                let quota = with_burst(Quota::new(self.units, calendar.longest())?, self.burst)?;
                let kind = chosen.unwrap_or(AlgorithmKind::FixedWindow);
                match Limit::new(AlgorithmKind::FixedWindow, &quota)? {
                    _ if kind != AlgorithmKind::FixedWindow => Err(only_fixed(calendar, kind)),
                    _ => FixedWindow::by_calendar(self.units, calendar).map(Limit::from),
                }
            }
            LimitWindow::Span(window) => {
                let quota = with_burst(Quota::new(self.units, window)?, self.burst)?;
                let fallback = match quota.burst_size() {
                    // Only a token bucket has a burst.
                    Some(_) => AlgorithmKind::TokenBucket,
                    None => context.default.unwrap_or(AlgorithmKind::for_quota(&quota)),
                };
                Limit::new(chosen.unwrap_or(fallback), &quota)
            }
        }
    }
}

impl From<Quota> for LimitDraft {
    fn from(quota: Quota) -> Self {
        let window = LimitWindow::Span(quota.window());
        Self {
            units: quota.limit(),
            window,
            burst: quota.burst_size(),
            steps: None,
            algorithm: None,
        }
    }
}

fn with_burst(quota: Quota, burst: Option<u64>) -> Result<Quota, QuotaError> {
    burst.map_or(Ok(quota), |burst| quota.with_burst(burst))
}

/// A number of steps. How many there may be is checked with the limit.
pub(super) fn steps(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<u64> {
    let steps = count(&text.value);
    if steps.is_none() {
        let (min, max) = (SteppedWindow::MIN_STEPS, SteppedWindow::MAX_STEPS);
        let expected = format!("expected a number of steps from {min} to {max}");
        report.add(&text.at, format!("{:?}: {expected}", brief(&text.value)));
    }
    steps
}

/// `1000/calendar-month`, `1000 per calendar-day`: the units, and a name that may be misspelt.
fn by_calendar(text: &str) -> Option<(&str, &str)> {
    let (units, name) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let name = name.trim();
    name.starts_with(CALENDAR).then_some((units, name))
}

fn calendar(name: &str, at: &ByteRange, report: &mut ProblemReport<'_>) -> Option<CalendarPeriod> {
    let found = CalendarPeriod::ALL.iter().copied().find(|calendar| calendar.name() == name);
    if found.is_none() {
        let names: Vec<_> = CalendarPeriod::ALL.iter().map(|calendar| calendar.name()).collect();
        report.add_unknown(at, "calendar window", name, &names);
    }
    found
}

fn window(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<LimitWindow> {
    if text.value.starts_with(CALENDAR) {
        return calendar(&text.value, &text.at, report).map(LimitWindow::Calendar);
    }
    match text.value.parse() {
        Ok(span) => Some(LimitWindow::Span(span)),
        Err(error) => {
            report.add(&text.at, with_calendar(&text.value, &error));
            None
        }
    }
}

/// Hints at calendar windows for `week`, `month` and `year`, which are not units of spans.
fn with_calendar(text: &str, error: &QuotaError) -> String {
    let text = text.to_ascii_lowercase();
    let is_calendar = ["week", "month", "year"].iter().any(|unit| text.contains(unit));
    let hint = if is_calendar { "; by the calendar: calendar-week, calendar-month" } else { "" };
    format!("{error}{hint}")
}

fn only_fixed(calendar: CalendarPeriod, kind: AlgorithmKind) -> QuotaError {
    QuotaError::refused(
        calendar.name(),
        format!("{} cannot follow the calendar; expected fixed-window", brief(kind.name())),
    )
}

const UNLIMITED: &str = "unlimited";
/// What the names of all calendar windows begin with.
const CALENDAR: &str = "calendar";
