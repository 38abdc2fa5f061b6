//! The subject of a charge: the attributes of a request that make up its key.

use crate::files::attributes::ResolvedAttributes;
use crate::files::normalise::NormalForm;
use crate::key::Key;

/// One attribute of a policy's key, and how its value is read.
#[derive(Debug)]
pub(crate) struct KeyPart {
    pub(crate) attribute: usize,
    pub(crate) name: Box<str>,
    pub(crate) form: NormalForm,
    pub(crate) default: Option<Box<[u8]>>,
}

impl KeyPart {
    pub(crate) fn value<'v>(&'v self, request: &'v ResolvedAttributes<'_>) -> Option<&'v [u8]> {
        request.raw(self.attribute).or(self.default.as_deref())
    }
}

/// The key of a request under a policy: its attributes in their normal forms.
pub(crate) struct PolicyKey<'a, 'r> {
    pub(crate) key: &'a [KeyPart],
    pub(crate) request: &'a ResolvedAttributes<'r>,
}

impl Key for PolicyKey<'_, '_> {
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        for key in self.key {
            key.form.each_part(key.value(self.request).unwrap_or_default(), &mut part);
        }
    }
}

/// The key of an override: a form and a value for each attribute.
pub(crate) struct OverrideKey<'a>(pub(crate) Vec<(&'a NormalForm, &'a [u8])>);

impl Key for OverrideKey<'_> {
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        self.0.iter().for_each(|(form, value)| form.each_part(value, &mut part));
    }
}
