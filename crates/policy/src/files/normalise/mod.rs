//! Normalises attributes, so that all spellings of a value have one counter.

mod lower;
mod path;
mod route;

use smallvec::SmallVec;

use crate::files::settings::PathCase;
use crate::key::readable;

pub(crate) use crate::ip::{DEFAULT_PREFIX, IpAddress, IpNetwork, IpNetworkError};
pub use path::path_in_normal_form;
pub(crate) use path::{in_one_spelling, normal_path};
pub(crate) use route::RouteTemplates;

/// The form that the values of an attribute are normalised to.
#[derive(Clone, Debug)]
pub(crate) enum NormalForm {
    /// The value as it is, byte by byte.
    Text,
    /// The value in lower case.
    Lower,
    /// An address; for IPv6, only its first bits.
    Ip { prefix: u8 },
    /// A path in normal form.
    Path(PathCase),
    /// The template that the path matches.
    Route(RouteTemplates),
}

impl NormalForm {
    /// The default form of attributes with this name.
    pub(crate) fn of(attribute: &str, case: PathCase) -> Self {
        match attribute {
            "ip" => Self::Ip { prefix: DEFAULT_PREFIX },
            "path" => Self::Path(case),
            _ => Self::Text,
        }
    }

    /// Calls `part` with the value in this form, as one or more parts of a key.
    pub(crate) fn each_part(&self, value: &[u8], part: &mut impl FnMut(&[u8])) {
        match self {
            Self::Text => part(value),
            Self::Lower => part(lower::lower(value).as_ref()),
            Self::Path(case) => part(normal_path(value, *case).as_ref()),
            Self::Route(routes) => {
                part(routes.template(normal_path(value, routes.case()).as_ref()));
            }
            Self::Ip { prefix } => match IpAddress::read(value) {
                Some(address) => address.each_part(*prefix, part),
                // Not an address, but still a caller: it counts byte by byte.
                None => part(value),
            },
        }
    }

    /// The value in this form, as people read it.
    pub(crate) fn shown(&self, value: &[u8]) -> String {
        match self.text(value).as_str() {
            NO_ROUTE => "any other route".to_owned(),
            text => format!("{text:?}"),
        }
    }

    /// The value in this form, as a text that differs for any two values that differ in this form.
    pub(crate) fn text(&self, value: &[u8]) -> String {
        match self {
            Self::Text => readable(value),
            Self::Lower => readable(lower::lower(value).as_ref()),
            Self::Path(case) => readable(normal_path(value, *case).as_ref()),
            Self::Route(routes) => {
                match routes.template(normal_path(value, routes.case()).as_ref()) {
                    [] => NO_ROUTE.to_owned(),
                    template => readable(template),
                }
            }
            Self::Ip { prefix } => {
                match IpAddress::read(value) {
                    Some(address) => address.counted_text(*prefix),
                    // The mark distinguishes the text from a network.
                    None => format!("?{}", readable(value)),
                }
            }
        }
    }
}

/// Not the name of a template: templates begin with a slash.
const NO_ROUTE: &str = "*";

/// A value in normal form: the original if it is normal already, otherwise a copy, which is on the
/// stack unless it is long.
pub(crate) enum NormalBytes<'a> {
    Borrowed(&'a [u8]),
    Owned(SmallVec<[u8; 128]>),
}

impl AsRef<[u8]> for NormalBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}
