//! The fields that only some of our programs read, for messages to those who use another one. This table is
//! all that this crate knows of them.

use super::SectionPlace;

/// The program that reads a field which this one does not read.
pub(crate) fn program_of(name: &str, place: SectionPlace) -> Option<&'static str> {
    let (_, _, program) = FIELDS.iter().find(|(at, known, _)| (*at, *known) == (place, name))?;
    Some(program)
}

const FIELDS: &[(SectionPlace, &str, &str)] = &[
    (SectionPlace::Top, "gateway", GATEWAY),
    (SectionPlace::Policy, "on_denied", GATEWAY),
    (SectionPlace::Policy, "max_wait", GATEWAY),
    (SectionPlace::Policy, "denied", GATEWAY),
    (SectionPlace::Cost, "response_header", GATEWAY),
    (SectionPlace::Cost, "response_status", GATEWAY),
];
const GATEWAY: &str = "the gateway of `tidegate serve`";
