//! Whether a Redis can have the keys that policies share with other limiters: one check, for `serve`,
//! for a file that changes while it runs, and for `validate`.

use std::collections::BTreeSet;

use tidegate::config::KeyTemplate;
use tidegate::{KeyFormat, KeyFormatError, Plan, RedisConfig, RedisStore};
use tidegate_server::PlanFollower;

/// The templates of the policies.
pub(crate) fn key_templates(plan: &Plan) -> BTreeSet<&str> {
    let formats = plan.policies().iter().filter_map(|policy| policy.key_format());
    formats.map(KeyTemplate::as_str).collect()
}

/// The Redis that a plan is for: as the command line says, otherwise as the file does. `None` for
/// memory, and for an address that is none.
pub(crate) fn redis_config(said: Option<&str>, plan: &Plan) -> Option<RedisConfig> {
    said.or_else(|| plan.settings().store())?.parse().ok()
}

/// Keys can be where the counters are.
#[derive(Debug)]
pub(crate) struct SharedKeyCheck(pub(crate) RedisConfig);

impl SharedKeyCheck {
    /// Why this Redis cannot have the keys of a plan.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), KeyFormatError> {
        key_templates(plan).into_iter().try_for_each(|template| {
            let format: KeyFormat = template.parse()?;
            RedisStore::builder(self.0.clone()).key_format(format).map(|_| ())
        })
    }
}

/// A file whose keys do not fit changes nothing.
impl PlanFollower for SharedKeyCheck {
    fn prepare(&self, plan: &Plan) -> Result<(), String> {
        self.check(plan).map_err(|error| error.to_string())
    }
}
