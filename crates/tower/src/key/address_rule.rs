//! The settings of a key that counts by addresses.

use tidegate_http::ClientIp;

/// How the client's address is found, and how much of it counts. Fields are `None` until they are set.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressRule {
    /// Which proxies are trusted.
    pub(super) client: Option<ClientIp>,
    pub(super) ipv6_prefix: Option<u8>,
}

impl AddressRule {
    /// Fills the fields that are not set yet.
    pub(super) fn fill_from(&mut self, other: &Self) {
        self.client = self.client.take().or_else(|| other.client.clone());
        self.ipv6_prefix = self.ipv6_prefix.or(other.ipv6_prefix);
    }
}
