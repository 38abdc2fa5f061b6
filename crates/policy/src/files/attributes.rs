//! The attributes of requests, which policies match and count by.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use smallvec::SmallVec;

use crate::files::normalise::{IpAddress, NormalBytes, normal_path};
use crate::files::settings::PathCase;

/// The attributes of a request: values by name. A value can be any bytes; an empty value is not a
/// missing one.
///
/// ```
/// use tidegate::Attributes;
///
/// let request = [("user", "42"), ("path", "/login")];
/// assert_eq!(request.attribute("user"), Some(&b"42"[..]));
/// assert_eq!(request.attribute("ip"), None);
/// ```
pub trait Attributes {
    /// The value of one attribute; the first one, if a name occurs twice.
    fn attribute(&self, name: &str) -> Option<&[u8]>;
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Attributes for [(N, V)] {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(other, _)| other.as_ref() == name).map(|(_, value)| value.as_ref())
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>, const LENGTH: usize> Attributes for [(N, V); LENGTH] {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self[..].attribute(name)
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Attributes for Vec<(N, V)> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self[..].attribute(name)
    }
}

impl<N: Borrow<str> + Eq + Hash, V: AsRef<[u8]>, S: BuildHasher> Attributes for HashMap<N, V, S> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(AsRef::as_ref)
    }
}

impl<A: Attributes + ?Sized> Attributes for &A {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        (**self).attribute(name)
    }
}

/// The attributes that a plan uses, each with a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanAttributes {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, usize>,
    path: Option<usize>,
    address: Option<usize>,
    path_case: PathCase,
}

impl PlanAttributes {
    /// Creates an empty set.
    pub(crate) fn new(path_case: PathCase) -> Self {
        Self { path_case, ..Self::default() }
    }

    /// Whether letter case matters in paths.
    pub(crate) const fn path_case(&self) -> PathCase {
        self.path_case
    }

    /// The number of an attribute, which is added if it is new.
    pub(crate) fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        match name {
            "path" => self.path = Some(number),
            "ip" => self.address = Some(number),
            _ => {}
        }
        number
    }

    pub(crate) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", |name| name)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Looks up each attribute, once for all policies.
    pub(crate) fn resolve<'a>(
        &self,
        request: &'a (impl Attributes + ?Sized),
    ) -> ResolvedAttributes<'a> {
        let values: SmallVec<_> = self.names.iter().map(|name| request.attribute(name)).collect();
        let raw = |number: usize| values.get(number).copied().flatten();
        let path = |number| Some((number, normal_path(raw(number)?, self.path_case)));
        let path = self.path.and_then(path);
        let address =
            self.address.and_then(|number| Some((number, IpAddress::read(raw(number)?)?)));
        ResolvedAttributes { values, path, address }
    }
}

/// The attributes of one request by number, with the normal forms of the path and the address.
pub(crate) struct ResolvedAttributes<'a> {
    values: SmallVec<[Option<&'a [u8]>; 8]>,
    path: Option<(usize, NormalBytes<'a>)>,
    address: Option<(usize, IpAddress)>,
}

impl<'a> ResolvedAttributes<'a> {
    /// The value as the request has it.
    pub(crate) fn raw(&self, attribute: usize) -> Option<&'a [u8]> {
        self.values.get(attribute).copied().flatten()
    }

    /// The value to match: a path in normal form, anything else as it is.
    pub(crate) fn value(&self, attribute: usize) -> Option<&[u8]> {
        match &self.path {
            Some((number, path)) if *number == attribute => Some(path.as_ref()),
            _ => self.raw(attribute),
        }
    }

    /// The value as an address, if the attribute is `ip`.
    pub(crate) fn address(&self, attribute: usize) -> Option<IpAddress> {
        let (number, address) = self.address?;
        (number == attribute).then_some(address)
    }
}
