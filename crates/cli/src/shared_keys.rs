//! Checks that a Redis can hold the keys that policies share with other limiters: for `serve`, for
//! reloads, and for `validate`.

use std::collections::BTreeSet;

use tidegate::config::KeyTemplate;
use tidegate::{KeyFormat, KeyFormatError, Plan, RedisConfig, RedisStore};
use tidegate_server::AppExtension;

/// The key templates of the policies.
pub(crate) fn key_templates(plan: &Plan) -> BTreeSet<&str> {
    let formats = plan.policies().iter().filter_map(|policy| policy.key_format());
    formats.map(KeyTemplate::as_str).collect()
}

/// The Redis of the command line, otherwise of the file. `None` for memory and for an invalid URL.
pub(crate) fn redis_config(url: Option<&str>, plan: &Plan) -> Option<RedisConfig> {
    url.or_else(|| plan.settings().store())?.parse().ok()
}

/// Checks that a Redis can hold the shared keys of a plan.
#[derive(Debug)]
pub(crate) struct SharedKeyCheck(pub(crate) RedisConfig);

impl SharedKeyCheck {
    /// Fails if this Redis cannot hold the keys of a plan.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), KeyFormatError> {
        key_templates(plan).into_iter().try_for_each(|template| {
            let format: KeyFormat = template.parse()?;
            RedisStore::builder(self.0.clone()).key_format(format).map(|_| ())
        })
    }
}

/// Refuses to reload a file whose keys do not fit.
impl AppExtension for SharedKeyCheck {
    fn prepare(&self, plan: &Plan) -> Result<(), String> {
        self.check(plan).map_err(|error| error.to_string())
    }
}
