//! IP addresses in one form, so that every spelling of an address is the same key.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tidegate_core::text::digits;

use crate::Key;

/// An IP address in one form: an IPv4 address within IPv6 is IPv4, whatever its notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpAddress(IpAddr);

impl From<IpAddr> for IpAddress {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }
}

impl From<IpAddress> for IpAddr {
    fn from(address: IpAddress) -> Self {
        address.0
    }
}

impl IpAddress {
    /// Parses an address the way people and proxies write it, also with a zone (`fe80::1%eth0`), in
    /// brackets, or with a port.
    pub fn read(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let address = plain(text).or_else(|| with_port(text))?;
        Some(Self(address.to_canonical()))
    }

    /// The network of the address: an IPv6 address keeps its first `prefix` bits, an IPv4 address
    /// all of them.
    #[must_use]
    pub fn truncated(self, prefix: u8) -> Self {
        match self.0 {
            IpAddr::V4(_) => self,
            IpAddr::V6(address) => {
                Self(Ipv6Addr::from_bits(mask(address.to_bits(), prefix, 128)).into())
            }
        }
    }

    /// The counted part as text: for IPv6, the network of its first `prefix` bits.
    pub(crate) fn counted_text(self, prefix: u8) -> String {
        match self.truncated(prefix).0 {
            IpAddr::V6(network) if prefix < 128 => format!("{network}/{prefix}"),
            address => address.to_string(),
        }
    }

    /// The counted octets, then the kind of address, so that a text with the same bytes is another
    /// key.
    #[inline]
    pub(crate) fn each_part(self, prefix: u8, part: &mut impl FnMut(&[u8])) {
        match self.0 {
            IpAddr::V4(address) => {
                part(&address.octets());
                part(b"ip4");
            }
            IpAddr::V6(address) => {
                part(&mask(address.to_bits(), prefix, 128).to_be_bytes());
                part(b"ip6");
            }
        }
    }
}

/// A host that has one IPv6 address has all that share its first 64 bits, so these are one key. The
/// same address as text is a different key.
///
/// ```
/// use tidegate::{IpAddress, Policy};
///
/// let policy = Policy::new("api", ["5/minute".parse()?])?;
/// let key = |text: &str| IpAddress::read(text.as_bytes()).map(|it| policy.fingerprint(&it));
/// assert_eq!(key("2001:db8::1"), key("[2001:DB8:0:0:ffff::]:443"));
/// assert_eq!(key("203.0.113.9"), key("::ffff:203.0.113.9"));
/// assert_ne!(key("2001:db8:0:1::1"), key("2001:db8::1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Key for IpAddress {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        Self::each_part(*self, DEFAULT_PREFIX, &mut part);
    }

    fn text(&self) -> Option<String> {
        Some(self.0.to_string())
    }

    fn each_text(&self, mut part: impl FnMut(&[u8])) {
        part(self.counted_text(DEFAULT_PREFIX).as_bytes());
    }
}

fn plain(text: &str) -> Option<IpAddr> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let text = text.split_once('%').map_or(text, |(address, _)| address);
    text.parse().ok()
}

fn with_port(text: &str) -> Option<IpAddr> {
    let (address, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    if address.starts_with('[') { plain(address) } else { address.parse().ok().map(IpAddr::V4) }
}

/// A network: the addresses that begin with the same bits.
///
/// ```
/// use tidegate::{IpAddress, IpNetwork};
///
/// let network: IpNetwork = "203.0.113.0/24".parse()?;
/// assert!(IpAddress::read(b"[::ffff:203.0.113.9]:443").is_some_and(|it| network.contains(it)));
/// # Ok::<(), tidegate::IpNetworkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    bits: u128,
    prefix: u8,
    is_v4: bool,
}

/// A text that is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpNetworkError(String);

impl fmt::Display for IpNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        let expected = "expected an address or a network, such as 10.0.0.0/8";
        write!(f, "{text:?} is not a network: {expected}")
    }
}

impl std::error::Error for IpNetworkError {}

impl FromStr for IpNetwork {
    type Err = IpNetworkError;

    fn from_str(text: &str) -> Result<Self, IpNetworkError> {
        Self::read(text).ok_or_else(|| IpNetworkError(text.chars().take(64).collect()))
    }
}

impl IpNetwork {
    /// `203.0.113.9`, `203.0.113.0/24`, `2001:db8::/32`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => {
                (address, Some(u8::try_from(digits(prefix.as_bytes())?).ok()?))
            }
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (bits, width) = bits(address);
        let prefix = prefix.unwrap_or(width);
        if prefix > width || mask(bits, prefix, width) != bits {
            return None;
        }
        // `::ffff:10.0.0.0/104` is `10.0.0.0/8`, since its addresses are read as IPv4.
        match address.to_canonical() {
            IpAddr::V4(v4) if address.is_ipv6() && prefix >= 96 => {
                Some(Self { bits: bits_of_v4(v4), prefix: prefix - 96, is_v4: true })
            }
            _ => Some(Self { bits, prefix, is_v4: width == 32 }),
        }
    }

    /// Whether the network contains the address.
    pub fn contains(&self, address: IpAddress) -> bool {
        let (bits, width) = bits(address.0);
        self.is_v4 == (width == 32) && mask(bits, self.prefix, width) == self.bits
    }
}

fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (bits_of_v4(address), 32),
        IpAddr::V6(address) => (Ipv6Addr::to_bits(address), 128),
    }
}

fn bits_of_v4(address: Ipv4Addr) -> u128 {
    u128::from(address.to_bits())
}

/// The first `prefix` of `width` bits; the others are zero.
fn mask(bits: u128, prefix: u8, width: u8) -> u128 {
    let dropped = u32::from(width.saturating_sub(prefix));
    bits.checked_shr(dropped).and_then(|kept| kept.checked_shl(dropped)).unwrap_or(0)
}

/// Bits of an IPv6 address that count by default: an ordinary subscriber has a whole /64 network.
pub(crate) const DEFAULT_PREFIX: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str, prefix: u8) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let address = IpAddress::read(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        address.each_part(prefix, &mut |part: &[u8]| parts.push(part.to_owned()));
        parts
    }

    #[test]
    fn every_spelling_of_an_address_is_one_key() {
        let spellings = [
            "203.0.113.9",
            "::ffff:203.0.113.9",
            "::FFFF:cb00:7109",
            "203.0.113.9:80",
            "[::ffff:203.0.113.9]:443",
            "0:0:0:0:0:ffff:cb00:7109",
            " 203.0.113.9 ",
        ];
        for spelling in spellings {
            assert_eq!(parts(spelling, 64), [vec![203, 0, 113, 9], b"ip4".to_vec()], "{spelling}");
        }
        let first = parts("2001:db8::1", 64);
        for spelling in
            ["2001:DB8:0:0:ffff::", "[2001:db8::2]", "2001:db8::3%eth0", "[2001:db8::4]:1"]
        {
            assert_eq!(parts(spelling, 64), first, "{spelling}");
        }
        assert_ne!(parts("2001:db8:0:1::1", 64), first);
        assert_eq!(parts("2001:db8:0:1::1", 48), parts("2001:db8::1", 48));
        assert_ne!(parts("2001:db8::1", 128), parts("2001:db8::2", 128));
        for text in ["", "alice", "1.2.3", "1.2.3.4.5", "1.2.3.4:x", "::1:99999999", "\u{ff}"] {
            assert_eq!(IpAddress::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_ip_address_is_the_same_key_as_its_address() {
        let hasher = crate::KeyHasher::random();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let print = |text: &str| hasher.fingerprint(&ip(text));
        assert_eq!(print("2001:db8::1"), print("2001:db8::2"));
        assert_ne!(print("2001:db8::1"), print("2001:db8:0:1::1"));
        assert_eq!(print("::ffff:203.0.113.9"), print("203.0.113.9"));
        assert_eq!(print("203.0.113.9"), hasher.fingerprint(&IpAddress::from(ip("203.0.113.9"))));
        assert_eq!(print("203.0.113.9"), hasher.fingerprint(&Ipv4Addr::new(203, 0, 113, 9)));
        // A text of the same bytes is another key, and so are all bits of an address.
        assert_ne!(print("97.98.99.100"), hasher.fingerprint("abcd"));
        let whole = |last| hasher.fingerprint(&Ipv6Addr::from_bits(last).octets());
        assert_ne!(whole(1), whole(2));
        // As an attribute it is all of the address: the policy says how much of it counts.
        assert_eq!(ip("2001:db8::1").text().as_deref(), Some("2001:db8::1"));
        assert_eq!(ip("::ffff:1.2.3.4").text().as_deref(), Some("1.2.3.4"));
    }

    #[test]
    fn networks_contain_what_they_say() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("203.0.113.9", "::ffff:203.0.113.9", "203.0.113.10"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"),
            ("0.0.0.0/0", "9.9.9.9", "::1"),
            ("::/0", "2001::1", "9.9.9.9"),
        ] {
            let parsed = IpNetwork::read(network).unwrap_or_else(|| panic!("{network}"));
            let contains = |text: &str| parsed.contains(IpAddress::read(text.as_bytes()).unwrap());
            assert!(contains(inside) && !contains(outside), "{network}");
        }
        for text in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "ten", "::/129"] {
            assert_eq!(IpNetwork::read(text), None, "{text}");
        }
    }

    proptest! {
        /// In both notations.
        #[test]
        fn mapped_addresses_are_their_ipv4(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let v6 = v4.to_ipv6_mapped();
            let hex = format!("::ffff:{:x}:{:x}", bits >> 16, bits & 0xffff);
            prop_assert_eq!(parts(&v4.to_string(), 64), parts(&v6.to_string(), 64));
            prop_assert_eq!(parts(&v4.to_string(), 64), parts(&hex, 64));
        }

        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = IpAddress::read(&bytes);
            let _ = IpNetwork::read(&String::from_utf8_lossy(&bytes));
        }
    }
}
