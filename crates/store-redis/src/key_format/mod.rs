//! Keys named the way another limiter names them, for a Redis that is shared with one.

mod error;
mod name;
mod parse;
#[cfg(test)]
mod tests;

pub use error::KeyFormatError;
pub(crate) use name::PlainName;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidegate_core::{Limit, Span};

use self::parse::Part;

/// A template for the names of keys, so that another limiter finds our counts and we find its.
///
/// | placeholder | becomes |
/// |---|---|
/// | `{entity}` | who asks, as [`Charge::named`](tidegate_core::Charge::named) says; needed |
/// | `{limit}` | which limit it is, as [`Charge::of_limit`](tidegate_core::Charge::of_limit) says |
/// | `{window_index}` | the window's number: its start divided by its length |
/// | `{window_start}` | when the window began, in seconds since the epoch |
/// | `{window_start_ms}` | the same in milliseconds |
///
/// A brace that belongs to the key is doubled, as in `format!`: `{{` and `}}`. A name in doubled
/// braces is a placeholder in a hash tag, so `{{entity}}` and `{{{entity}}}` both become `{alice}`.
///
/// ```
/// use tidegate::{KeyFormat, RedisConfig, RedisStore};
///
/// // RLaaS: fixed windows, and its log.
/// let windows: KeyFormat = "rlaas:rate_limit:{entity}:{window_index}".parse()?;
/// let log: KeyFormat = "rlaas:rate_limit:{entity}".parse()?;
/// // A gateway's fixed windows; two adjacent windows, in one slot of a Cluster; a Java library.
/// let gateway: KeyFormat = "rate_limit:{entity}:{limit}:{window_start}".parse()?;
/// let hybrid: KeyFormat = "sw:{{entity}}:{window_start}".parse()?;
/// let java: KeyFormat = "ratelimiter:{entity}:{window_start_ms}".parse()?;
///
/// let config: RedisConfig = "redis://127.0.0.1:6379".parse()?;
/// let store = RedisStore::builder(config).key_format(windows)?.build();
///
/// let error = "rlaas:{user}".parse::<KeyFormat>().unwrap_err().to_string();
/// assert!(error.contains(r#"key_format "rlaas:{user}", position 7: "#), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is kept
///
/// | algorithm | template | in Redis |
/// |---|---|---|
/// | `fixed-window` | with a window | a number for each window |
/// | `sliding-window` | with a window | the same, and the window before is read too |
/// | `sliding-log` | without one | a sorted set: a member for each unit, milliseconds as its score |
/// | `token-bucket` | | refused: limiters have no layout of it in common |
///
/// Windows are aligned to the epoch, even where a rule would stagger them. A log is exact to the
/// millisecond. All times are Redis's. A decision is a call of its own here, so this is slower than
/// our own keys, and takes more of Redis's memory: use it while there is someone to share with.
///
/// A key always has a time to live: until it stops mattering, and a
/// [buffer](Self::expiry_buffer) more; a log for a second window, if that is longer. One that is
/// found without, or with too little, gets it with the next decision.
///
/// # What others may do
///
/// Names come from requests, so their authors see them in Redis, and with `:` in a name one may
/// be able to write the name of another's key: `{entity}:{limit}` cannot tell `a:b` + `c` from
/// `a` + `b:c`. Where that matters, leave it to our own keys, which hold no user text. A name longer
/// than 512 bytes, or with control characters, is replaced by a keyed hash of it, and so is one that
/// is empty or has braces where the template has a hash tag.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct KeyFormat {
    template: String,
    parts: Vec<Part>,
    buffer: Span,
}

/// How a template names windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Index,
    Start,
    StartMillis,
}

impl KeyFormat {
    /// How much longer than it matters a key is kept, so that a limiter whose clock is slow still
    /// finds it. Defaults to one second, and is at most a day.
    pub fn expiry_buffer(self, buffer: Duration) -> Self {
        Self { buffer: Span::from(buffer).min(LONGEST_BUFFER), ..self }
    }

    /// Whether this limit can be stored under such names; if not, the error says which ones can.
    ///
    /// ```
    /// # use tidegate::KeyFormat;
    /// let format: KeyFormat = "sw:{{entity}}:{window_start}".parse()?;
    /// assert!(format.check(&"100/minute".parse()?).is_ok());
    /// // A burst asks for a token bucket.
    /// assert!(format.check(&"100/minute burst 10".parse()?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, limit: &Limit) -> Result<(), KeyFormatError> {
        let window = limit.quota().window();
        let whole = |unit: Span| window.as_micros().is_multiple_of(unit.as_micros());
        let refuse = |problem: String| Err(KeyFormatError::new(&self.template, None, problem));
        match (limit, self.window()) {
            (Limit::TokenBucket(_), _) => refuse(
                "limiters have no layout of a token-bucket in common; expected fixed-window, \
                 sliding-window or sliding-log"
                    .to_owned(),
            ),
            (Limit::SlidingLog(_), Some(name)) => refuse(format!(
                "a sliding-log is one sorted set for each entity; expected no {}",
                name.placeholder()
            )),
            (Limit::SlidingLog(_), None) if !whole(MILLISECOND) => refuse(format!(
                "a sorted set keeps milliseconds; expected a whole number of them, not {window}"
            )),
            (Limit::SlidingLog(_), None) => Ok(()),
            (_, None) => refuse(format!(
                "{} keeps a count for each window; expected {{window_index}}, {{window_start}} or \
                 {{window_start_ms}} in the template",
                limit.kind()
            )),
            (_, Some(name)) if !whole(name.unit(window)) => refuse(format!(
                "windows of {window} do not begin at times that {} can tell; expected \
                 {{window_index}}",
                name.placeholder()
            )),
            (_, Some(_)) => Ok(()),
        }
    }

    /// Refuses a template whose keys a Cluster could not find. Only Redis knows which window it is,
    /// so all windows of an entity must be in one slot.
    pub(crate) fn check_cluster(&self) -> Result<(), KeyFormatError> {
        let same_slot = |entity: &'static str| {
            let name = self.split(|_| entity.into());
            let slot = |window: &str| name.around(window).slot();
            slot("") == slot("1") && slot("1") == slot("2")
        };
        if self.window().is_none() || ["a", "b", "c"].into_iter().all(same_slot) {
            return Ok(());
        }
        Err(KeyFormatError::new(
            &self.template,
            None,
            "on a Cluster all windows of an entity must share a slot; expected a hash tag, such \
             as {{entity}}, before the window"
                .to_owned(),
        ))
    }

    /// What the template says of windows, if anything.
    pub(crate) fn window(&self) -> Option<Window> {
        self.parts.iter().find_map(|part| match part {
            Part::Window(window) => Some(*window),
            _ => None,
        })
    }

    pub(crate) const fn buffer(&self) -> Span {
        self.buffer
    }
}

impl Window {
    pub(crate) const fn placeholder(self) -> &'static str {
        match self {
            Self::Index => "{window_index}",
            Self::Start => "{window_start}",
            Self::StartMillis => "{window_start_ms}",
        }
    }

    /// What a window's start is divided by to get the number in its name.
    pub(crate) const fn unit(self, window: Span) -> Span {
        match self {
            Self::Index => window,
            Self::Start => Span::from_secs(1),
            Self::StartMillis => MILLISECOND,
        }
    }
}

impl FromStr for KeyFormat {
    type Err = KeyFormatError;

    fn from_str(template: &str) -> Result<Self, KeyFormatError> {
        let parts = parse::parse(template)?;
        Ok(Self { template: template.to_owned(), parts, buffer: Span::from_secs(1) })
    }
}

/// The template.
impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.template)
    }
}

const MILLISECOND: Span = Span::from_millis(1);
const LONGEST_BUFFER: Span = Span::from_days(1);
