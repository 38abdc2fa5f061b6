//! The network that counts as one client: an IPv4 address or an IPv6 /64.

use std::net::{IpAddr, Ipv6Addr};

/// A client, identified by its address. For IPv6, the /64 network counts, since a single customer usually
/// has all of its 2^64 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNetwork(u128);

impl ClientNetwork {
    /// Whether the client is on this machine, such as a proxy or sidecar that acts for many clients.
    pub const fn is_local(self) -> bool {
        match Ipv6Addr::from_bits(self.0).to_ipv4_mapped() {
            Some(address) => address.is_loopback(),
            // The network of `::1`, which contains no other client.
            None => self.0 == 0,
        }
    }
}

impl From<IpAddr> for ClientNetwork {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self(address.to_bits() & NETWORK),
        }
    }
}

/// The first 64 bits.
const NETWORK: u128 = !(u64::MAX as u128);

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> ClientNetwork {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_network_of_64_bits_is_one_client_and_so_is_an_address_in_two_spellings() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:1"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.2"), client("192.0.2.1"));
    }

    #[test]
    fn loopback_addresses_are_recognised() {
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(client(local).is_local(), "{local}");
        }
        for other in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!client(other).is_local(), "{other}");
        }
    }
}
