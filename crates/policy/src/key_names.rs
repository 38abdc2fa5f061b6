//! What the keys of a policy are called in a store.

use tidegate_core::{KeyTemplate, Limit, Rule};

/// What keys are called in a store.
#[derive(Clone, Debug, Default)]
pub(crate) enum KeyNames {
    /// As the store was told for all.
    #[default]
    StoreDefault,
    /// By names of the store's own, whatever it was told.
    Own,
    /// As another limiter calls them.
    Shared(KeyTemplate),
}

impl KeyNames {
    pub(crate) const fn template(&self) -> Option<&KeyTemplate> {
        if let Self::Shared(template) = self { Some(template) } else { None }
    }

    /// Those of the keys of one limit. Nothing is kept of what never passes, so that it need not
    /// suit a template: there is nothing to share.
    pub(crate) fn of(&self, limit: &Limit) -> &Self {
        match self {
            Self::Shared(template) if admits_nothing(limit) && template.check(limit).is_err() => {
                &Self::Own
            }
            names => names,
        }
    }
}

/// What one of a policy's rules that apply together is called.
pub(crate) fn limit_name(policy: &str, together: &[Rule], rule: &Rule) -> String {
    match together {
        [_] => policy.to_owned(),
        _ => format!("{policy}-{}", rule.limit.quota().window()),
    }
}

/// Whether nothing ever passes.
pub(crate) fn admits_nothing(limit: &Limit) -> bool {
    limit.capacity() == 0
}
