//! The names of a policy's keys in a store.

use tidegate_core::{KeyTemplate, Limit};

/// How the keys of a policy are named in a store.
#[derive(Clone, Debug, Default)]
pub(crate) enum KeyNames {
    /// By the store's setting for all keys.
    #[default]
    StoreDefault,
    /// By the store's internal names, whatever its setting.
    Own,
    /// By the names that another limiter uses.
    Shared(KeyTemplate),
}

impl KeyNames {
    pub(crate) const fn template(&self) -> Option<&KeyTemplate> {
        if let Self::Shared(template) = self { Some(template) } else { None }
    }

    /// The names of the keys of one limit. A limit that admits nothing stores nothing, so that it
    /// need not fit a template.
    pub(crate) fn of(&self, limit: &Limit) -> &Self {
        match self {
            Self::Shared(template) if admits_nothing(limit) && template.check(limit).is_err() => {
                &Self::Own
            }
            names => names,
        }
    }
}

/// Whether the limit denies everything.
pub(crate) fn admits_nothing(limit: &Limit) -> bool {
    limit.capacity() == 0
}
