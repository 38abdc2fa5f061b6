//! Normalises attributes, so that one caller has one counter however it is spelled.

mod ip;
mod lower;
mod path;
mod route;

use smallvec::SmallVec;

use crate::settings::PathCase;

pub use ip::{IpAddress, IpNetwork, IpNetworkError};
pub use path::path_in_normal_form;
pub(crate) use path::{in_one_spelling, normal_path};
pub(crate) use route::RouteTemplates;

/// How an attribute is read.
#[derive(Clone, Debug)]
pub(crate) enum NormalForm {
    /// As it is, byte by byte.
    Text,
    /// In lower case.
    Lower,
    /// As an address; for IPv6, only this many bits.
    Ip { prefix: u8 },
    /// As a path in normal form.
    Path(PathCase),
    /// As the template that the path matches.
    Route(RouteTemplates),
}

impl NormalForm {
    /// The form in which attributes of this name are read by default.
    pub(crate) fn of(attribute: &str, case: PathCase) -> Self {
        match attribute {
            "ip" => Self::Ip { prefix: DEFAULT_PREFIX },
            "path" => Self::Path(case),
            _ => Self::Text,
        }
    }

    /// Hands the value in this form to `part`, as one or more parts of a key.
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
                // Not an address, but still a caller: each spelling is its own.
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
                    // Not to be mistaken for a network.
                    None => format!("?{}", readable(value)),
                }
            }
        }
    }
}

/// No template has this name: they begin with a slash.
const NO_ROUTE: &str = "*";

/// Bytes that are not text are distinguished all the same: by their digits, after a character that
/// no reader prints.
pub(crate) fn readable(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().fold("\0".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

/// A value in normal form: the original if it was normal already, otherwise a copy, which is on the
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

/// One network of an ordinary subscriber, who has all addresses in it.
pub(crate) const DEFAULT_PREFIX: u8 = 64;
