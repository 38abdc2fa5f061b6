//! Keys, which distinguish one caller from another.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::Fingerprint;

use crate::IpAddress;

/// One or more parts that together identify a caller.
///
/// Parts are kept apart: `("a", "bc")` and `("ab", "c")` are different keys, and so is `"abc"`.
/// Text and its bytes are the same key. Only addresses are normalised, and nothing is copied or
/// stored. An IP address counts as an [`IpAddress`] does: by the first 64 bits of IPv6, since a host that
/// has one of those addresses has all of them.
///
/// ```
/// use tidegate::{Key, Policy};
///
/// let policy = Policy::new("api", ["5/minute".parse()?])?;
/// assert_eq!(policy.fingerprint("alice"), policy.fingerprint(&b"alice"[..]));
/// assert_ne!(policy.fingerprint(&("a", "bc")), policy.fingerprint(&("ab", "c")));
///
/// struct ApiKey { tenant: u64, token: String }
///
/// impl Key for ApiKey {
///     fn each_part(&self, mut part: impl FnMut(&[u8])) {
///         part(&self.tenant.to_le_bytes());
///         part(self.token.as_bytes());
///     }
/// }
/// let key = ApiKey { tenant: 7, token: "x".to_owned() };
/// assert_eq!(policy.fingerprint(&key), policy.fingerprint(&(7_u64, "x")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the feature `macros`, `#[derive(Key)]` does that: each field is a part.
///
/// There is no key of one `u8`, because a slice of bytes is one part and not many; convert it to a larger number.
/// For a type of another crate, such as a UUID, use its bytes or its text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    label = "does not implement `tidegate::Key`",
    note = "keys are text, bytes, whole numbers of 16 bits or more, addresses, `Option`s, and tuples and slices of \
            keys",
    note = "for a type of your own, use `#[derive(tidegate::Key)]` (feature `macros`) or implement `tidegate::Key`",
    note = "for a `u8` use `u32::from(n)`, and for a UUID its `as_bytes()`"
)]
pub trait Key {
    /// Calls `part` with each part, always in the same order.
    fn each_part(&self, part: impl FnMut(&[u8]));

    /// The fingerprint, if it has been computed already.
    #[doc(hidden)]
    #[inline]
    fn known(&self) -> Option<Fingerprint> {
        None
    }

    /// The key as people write it, if that differs from its bytes.
    #[doc(hidden)]
    fn text(&self) -> Option<String> {
        None
    }

    /// Calls `part` with each part as people write it, for names that others read. Equal keys are
    /// written alike.
    #[doc(hidden)]
    fn each_text(&self, mut part: impl FnMut(&[u8])) {
        match self.text() {
            Some(text) => part(text.as_bytes()),
            None => self.each_part(part),
        }
    }
}

/// A key as it stands in the names of counters: its parts, as the policies of a file write them.
#[doc(hidden)]
pub fn key_as_text<K: Key + ?Sized>(key: &K) -> String {
    let mut parts = Vec::new();
    key.each_text(|part| parts.push(readable(part)));
    join_parts(&parts)
}

/// A key whose [`fingerprint`](crate::Policy::fingerprint) was computed before. It is not hashed
/// again, and is meaningful only to policies with the same hasher.
impl Key for Fingerprint {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        part(&self.high().to_le_bytes());
        part(&self.low().to_le_bytes());
    }

    #[inline]
    fn known(&self) -> Option<Fingerprint> {
        Some(*self)
    }

    fn text(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

macro_rules! byte_keys {
    ($($type:ty),*) => {$(
        impl Key for $type {
            #[inline]
            fn each_part(&self, mut part: impl FnMut(&[u8])) {
                part(self.as_ref());
            }
        }
    )*};
}

byte_keys!(str, String, [u8], Vec<u8>);

macro_rules! number_keys {
    ($($type:ty),*) => {$(
        impl Key for $type {
            #[inline]
            fn each_part(&self, mut part: impl FnMut(&[u8])) {
                part(&self.to_le_bytes());
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}

// No `u8`: a slice of bytes is one part, not a part for each byte.
number_keys!(u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! non_zero_keys {
    ($($number:ty),*) => {$(
        /// The same key as the number.
        impl Key for NonZero<$number> {
            #[inline]
            fn each_part(&self, part: impl FnMut(&[u8])) {
                self.get().each_part(part);
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}

non_zero_keys!(u16, u32, u64, u128, usize, i16, i32, i64, i128, isize);

macro_rules! tuple_keys {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Key),+> Key for ($($name,)+) {
            #[inline]
            fn each_part(&self, mut part: impl FnMut(&[u8])) {
                #[allow(non_snake_case, reason = "the macro names fields after their types")]
                let ($($name,)+) = self;
                $($name.each_part(&mut part);)+
            }

            fn each_text(&self, mut part: impl FnMut(&[u8])) {
                #[allow(non_snake_case, reason = "the macro names fields after their types")]
                let ($($name,)+) = self;
                $($name.each_text(&mut part);)+
            }
        }
    )*};
}

tuple_keys! { A; A B; A B C; A B C D; A B C D E; A B C D E F; }

/// Whether there is a key, then the key: `None` is a caller of its own.
impl<K: Key> Key for Option<K> {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        self.is_some().each_part(&mut part);
        if let Some(key) = self {
            key.each_part(part);
        }
    }

    fn each_text(&self, mut part: impl FnMut(&[u8])) {
        match self {
            Some(key) => {
                part(b"some");
                key.each_text(part);
            }
            None => part(b"none"),
        }
    }
}

macro_rules! socket_keys {
    ($($type:ty),*) => {$(
        /// The same key as its address, without the port: every connection of a client has another port.
        impl Key for $type {
            #[inline]
            fn each_part(&self, part: impl FnMut(&[u8])) {
                self.ip().each_part(part);
            }

            fn text(&self) -> Option<String> {
                self.ip().text()
            }

            fn each_text(&self, part: impl FnMut(&[u8])) {
                self.ip().each_text(part);
            }
        }
    )*};
}

socket_keys!(SocketAddr, SocketAddrV4, SocketAddrV6);

macro_rules! address_keys {
    ($($type:ty),*) => {$(
        /// The same key as its [`IpAddress`]: IPv6 counts by its first 64 bits, and IPv4 within IPv6 as
        /// IPv4. To count by all bits, use its `octets()`.
        impl Key for $type {
            #[inline]
            fn each_part(&self, part: impl FnMut(&[u8])) {
                Key::each_part(&IpAddress::from(IpAddr::from(*self)), part);
            }

            fn text(&self) -> Option<String> {
                IpAddress::from(IpAddr::from(*self)).text()
            }

            fn each_text(&self, part: impl FnMut(&[u8])) {
                Key::each_text(&IpAddress::from(IpAddr::from(*self)), part);
            }
        }
    )*};
}

address_keys!(Ipv4Addr, Ipv6Addr, IpAddr);

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        part(self);
    }
}

impl Key for Cow<'_, str> {
    #[inline]
    fn each_part(&self, part: impl FnMut(&[u8])) {
        str::each_part(self, part);
    }
}

/// The number of items, then each item, so that lists of different lengths stay distinct even as
/// parts of a larger key.
impl<K: Key> Key for [K] {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        part(&self.len().to_le_bytes());
        self.iter().for_each(|key| key.each_part(&mut part));
    }

    fn each_text(&self, mut part: impl FnMut(&[u8])) {
        part(self.len().to_string().as_bytes());
        self.iter().for_each(|key| key.each_text(&mut part));
    }
}

impl Key for bool {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        part(&[u8::from(*self)]);
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Key for char {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        part(self.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

macro_rules! pointer_keys {
    ($($type:ty),*) => {$(
        impl<K: Key + ?Sized> Key for $type {
            #[inline]
            fn each_part(&self, part: impl FnMut(&[u8])) {
                (**self).each_part(part);
            }

            #[inline]
            fn known(&self) -> Option<Fingerprint> {
                (**self).known()
            }

            fn text(&self) -> Option<String> {
                (**self).text()
            }

            fn each_text(&self, part: impl FnMut(&[u8])) {
                (**self).each_text(part);
            }
        }
    )*};
}

pointer_keys!(&K, &mut K, Box<K>, Rc<K>, Arc<K>);

/// The value as text. Bytes that are not text stay distinct: they become hex digits after a NUL, which
/// does not occur in readable text.
pub(crate) fn readable(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().fold("\0".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

/// Joins parts into one text, different for different parts: a colon in a part is written `%3a`, so
/// that no caller can shift the border between two parts. A single part stays as it is.
pub(crate) fn join_parts(parts: &[String]) -> String {
    match parts {
        [part] => part.clone(),
        parts => {
            let escaped = |part: &String| part.replace('%', "%25").replace(':', "%3a");
            parts.iter().map(escaped).collect::<Vec<_>>().join(":")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_people_write_them() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(key_as_text("alice"), "alice");
        assert_eq!(key_as_text(&7_u64), "7");
        assert_eq!(key_as_text(&(-7_i64, true, &b"raw"[..], 'x')), "-7:true:raw:x");
        assert_eq!(key_as_text(&Arc::new(("acme", ip("203.0.113.9")))), "acme:203.0.113.9");
        // No two keys are written alike, and no key in two ways.
        assert_ne!(key_as_text(&("a:b", "c")), key_as_text(&("a", "b:c")));
        assert_ne!(key_as_text(&b"\xff"[..]), key_as_text(&b"\xfe"[..]));
        assert_eq!(key_as_text(&ip("2001:db8::1")), "2001:db8::/64");
        assert_eq!(key_as_text(&ip("2001:db8::1")), key_as_text(&ip("2001:db8::2")));
        assert_eq!(key_as_text(&ip("::ffff:203.0.113.9")), "203.0.113.9");
        assert_eq!(key_as_text(&Fingerprint::new(1, 2)), format!("{:?}", Fingerprint::new(1, 2)));
    }

    fn parts<K: Key + ?Sized>(key: &K) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        key.each_part(|part| parts.push(part.to_vec()));
        parts
    }

    #[test]
    fn the_usual_types_are_keys() {
        let socket = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(parts(&socket("203.0.113.9:1")), parts(&socket("203.0.113.9:2")));
        assert_eq!(key_as_text(&socket("[2001:db8::1]:443")), "2001:db8::/64");
        assert_eq!(parts(&NonZero::new(7_u64).unwrap()), parts(&7_u64));
        assert_eq!(key_as_text(&(-7_i8, 1_u32, 2_u32, "a", "b", 'c')), "-7:1:2:a:b:c");
        // Nothing is a caller of its own, and no other key is like it.
        assert_ne!(parts(&None::<&str>), parts(&Some("")));
        assert_ne!(parts(&(None::<&str>, "a")), parts(&(Some("a"), "")));
        assert_eq!(key_as_text(&Some(7_u64)), "some:7");
        assert_ne!(key_as_text(&None::<&str>), key_as_text(&Some("")));
    }

    fn text(parts: &[&str]) -> String {
        join_parts(&parts.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn no_two_callers_have_one_name() {
        assert_eq!(text(&["alice"]), "alice");
        assert_eq!(text(&["2001:db8::1"]), "2001:db8::1");
        assert_eq!(text(&["alice", "/cart"]), "alice:/cart");
        assert_eq!(text(&["1:2", "3"]), "1%3a2:3");
        assert_ne!(text(&["1:2", "3"]), text(&["1", "2:3"]));
        assert_ne!(text(&["1%3a2", "3"]), text(&["1:2", "3"]));
    }
}
