//! Keys that another limiter reads and writes too, in a Redis that both use.

mod name;
#[cfg(test)]
mod tests;

pub(crate) use name::SharedKeyName;
pub use tidegate_core::KeyTemplateError as KeyFormatError;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidegate_core::{KeyTemplate, Limit, Span, WindowName};

/// How keys are stored so that another limiter finds our counts and we find its counts: a
/// [`KeyTemplate`] for their names, and how long they live.
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
/// | `sliding-log` | without one | a sorted set: a member for each unit, scored in milliseconds |
/// | `token-bucket` | | refused: limiters have no layout of it in common |
/// | `calendar-week`, `calendar-month` | | refused: windows are counted from the epoch |
///
/// Windows are aligned to the epoch, even where a rule would stagger them. A log is exact to the
/// millisecond. All times are Redis's. A decision is a call of its own here, so this is slower than
/// our own keys, and takes more of Redis's memory: use it while another limiter shares the
/// counters.
///
/// A key always has a time to live: as long as it matters to a decision, and a
/// [buffer](Self::expiry_buffer) more. A log lives for one more window instead, if that is longer
/// than the buffer. A key whose time to live is missing or too short gets a new one with the next
/// decision.
///
/// # User text in names
///
/// The names of entities come from requests, so user text is visible in Redis. A client with `:` in
/// its name may be able to produce the name of another client's key: `{entity}:{limit}` cannot tell
/// `a:b` + `c` from `a` + `b:c`. Where that matters, use our own keys, which hold no user text. A
/// name longer than 512 bytes, or with control characters, is replaced by a keyed hash of it. So is
/// an empty name, or one with braces, if the template has a hash tag.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct KeyFormat {
    template: KeyTemplate,
    /// See [`expiry_buffer`](Self::expiry_buffer).
    buffer: Span,
}

impl KeyFormat {
    /// Sets the time for which a key is kept after it has stopped mattering, so that a limiter
    /// whose clock is slow still finds it. At most a day. The default is the buffer in the
    /// template, or one second if the template has none.
    pub fn expiry_buffer(self, buffer: Duration) -> Self {
        Self { buffer: Span::from(buffer).min(KeyTemplate::MAX_BUFFER), ..self }
    }

    /// Whether this limit can be stored in this format. If not, the error says what was expected.
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
        self.template.check(limit)
    }

    /// Refuses a template whose keys a Cluster could not find. Only Redis's clock tells which
    /// window it is, and that is after a node was chosen. So all windows of an entity must be in
    /// one slot.
    pub(crate) fn check_cluster(&self) -> Result<(), KeyFormatError> {
        let same_slot = |entity: &'static str| {
            let name = self.split(|_| entity.into());
            let slot = |window: &str| name.around(window).slot();
            slot("") == slot("1") && slot("1") == slot("2")
        };
        if self.window().is_none() || ["a", "b", "c"].into_iter().all(same_slot) {
            return Ok(());
        }
        Err(KeyFormatError::refused(
            self.template.as_str(),
            "on a Cluster all windows of an entity must share a slot; expected a hash tag, such \
             as {{entity}}, before the window",
        ))
    }

    /// How the template names windows, if it does.
    pub(crate) fn window(&self) -> Option<WindowName> {
        self.template.window()
    }

    pub(crate) const fn buffer(&self) -> Span {
        self.buffer
    }
}

/// With a buffer of one second, unless the template sets another.
impl From<KeyTemplate> for KeyFormat {
    fn from(template: KeyTemplate) -> Self {
        Self { buffer: template.buffer().unwrap_or(DEFAULT_BUFFER), template }
    }
}

impl FromStr for KeyFormat {
    type Err = KeyFormatError;

    fn from_str(template: &str) -> Result<Self, KeyFormatError> {
        template.parse().map(KeyTemplate::into)
    }
}

/// The template as it was written, without a buffer that was set later.
impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.template.as_str())
    }
}

const DEFAULT_BUFFER: Span = Span::from_secs(1);
