//! The places of the file that sections extend.

use super::Sections;

/// A place of the file where a section can have fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SectionPlace {
    /// The top of the file.
    Top,
    /// A policy.
    Policy,
    /// The cost of a policy, if it is a mapping.
    Cost,
}

impl SectionPlace {
    /// The field that those of sections come before in messages; the end of the list if there is none.
    const fn next_field(self) -> Option<&'static str> {
        match self {
            Self::Top => Some("policies"),
            Self::Policy => None,
            Self::Cost => Some("default"),
        }
    }

    /// The names of all fields that sections have here.
    pub(crate) fn fields(self, sections: Sections) -> impl Iterator<Item = &'static str> {
        sections.iter().flat_map(move |section| section.fields(self)).copied()
    }
}

/// The fields of a mapping and those of sections in it.
pub(crate) fn known_fields(
    own: &[&'static str],
    place: SectionPlace,
    sections: Sections,
) -> Vec<&'static str> {
    let next = own.iter().position(|name| Some(*name) == place.next_field());
    let (before, after) = own.split_at(next.unwrap_or(own.len()));
    before.iter().copied().chain(place.fields(sections)).chain(after.iter().copied()).collect()
}
