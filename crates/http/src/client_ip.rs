//! Finds the client's address behind trusted proxies.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use tidegate_limiter::{IpAddress, IpNetwork};

/// Decides which of a request's addresses is its client's.
///
/// The address of the socket cannot be forged; `X-Forwarded-For` can, except for the part that a trusted
/// proxy has appended. So the field is read from the right, and only as far as the proxies are trusted:
/// entries that a client writes itself are to the left of that, and change nothing.
///
/// ```
/// use http::HeaderMap;
/// use tidegate_http::ClientIp;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 203.0.113.9".parse()?);
/// let proxy = Some("10.0.0.1".parse()?);
///
/// let of = |trust: ClientIp| trust.of(proxy, &headers).map(|ip| ip.to_string());
/// assert_eq!(of(ClientIp::of_socket()).as_deref(), Some("10.0.0.1"));
/// assert_eq!(of(ClientIp::behind_hops(1)).as_deref(), Some("203.0.113.9"));
/// let networks = ["10.0.0.0/8".parse()?];
/// assert_eq!(of(ClientIp::behind_proxies(networks)).as_deref(), Some("203.0.113.9"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIp(ProxyTrust);

/// Which proxies are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ProxyTrust {
    #[default]
    Nobody,
    Hops(usize),
    Proxies(Vec<IpNetwork>),
}

impl ClientIp {
    /// No proxy is trusted: the client is the peer that connects.
    pub const fn of_socket() -> Self {
        Self(ProxyTrust::Nobody)
    }

    /// Every request passes this many proxies, each of which appends to `X-Forwarded-For`. A client that
    /// can connect directly can forge the field: make sure that it cannot.
    pub const fn behind_hops(hops: usize) -> Self {
        Self(if hops == 0 { ProxyTrust::Nobody } else { ProxyTrust::Hops(hops) })
    }

    /// Peers in these networks are proxies that append to `X-Forwarded-For`, and so are the addresses that
    /// they append, if those are in the networks too. For any other peer, the client is the peer. On a
    /// unix socket only local processes can connect: they are trusted.
    pub fn behind_proxies(networks: impl IntoIterator<Item = IpNetwork>) -> Self {
        Self(ProxyTrust::Proxies(networks.into_iter().collect()))
    }

    /// Whether any proxy is trusted.
    pub fn trusts_anybody(&self) -> bool {
        self.0 != ProxyTrust::Nobody
    }

    /// Whether trusting the forwarding headers depends on the peer's address.
    pub const fn depends_on_peer(&self) -> bool {
        matches!(self.0, ProxyTrust::Proxies(_))
    }

    /// Whether the forwarding headers of a request from `peer` are trusted.
    pub fn trusts_peer(&self, peer: Option<IpAddr>) -> bool {
        match &self.0 {
            ProxyTrust::Nobody => false,
            ProxyTrust::Hops(_) => true,
            ProxyTrust::Proxies(networks) => peer.is_none_or(|peer| {
                let peer = peer.to_canonical();
                networks.iter().any(|network| network.contains(peer.into()))
            }),
        }
    }

    /// The client of a request from `peer`. `None` if no address is known.
    pub fn of(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer.map(|ip| ip.to_canonical());
        match &self.0 {
            ProxyTrust::Nobody => peer,
            ProxyTrust::Hops(hops) => {
                // With fewer entries than trusted hops, the leftmost entry is the client.
                let chain = forwarded(headers).take(*hops).map_while(|address| address);
                chain.last().or(peer)
            }
            ProxyTrust::Proxies(networks) => Self::behind(networks, peer, headers),
        }
    }

    /// [`of`](Self::of) with borrowed networks; see [`behind_proxies`](Self::behind_proxies).
    pub fn behind(
        networks: &[IpNetwork],
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Option<IpAddr> {
        let peer = peer.map(|ip| ip.to_canonical());
        let is_proxy = |ip: IpAddr| networks.iter().any(|network| network.contains(ip.into()));
        if peer.is_some_and(|peer| !is_proxy(peer)) {
            return peer;
        }
        let mut client = peer;
        // An entry that is not an address ends the search: the last valid one counts.
        for address in forwarded(headers).take(MAX_HOPS).map_while(|address| address) {
            client = Some(address);
            if !is_proxy(address) {
                break;
            }
        }
        client
    }
}

/// The addresses of all `X-Forwarded-For` fields, the nearest first; `None` for an entry that is not an
/// address.
fn forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let fields = headers.get_all(X_FORWARDED_FOR).iter();
    let lines: Vec<&[u8]> = fields.map(HeaderValue::as_bytes).collect();
    lines.into_iter().rev().flat_map(|line| {
        line.rsplit(|byte| *byte == b',').map(|part| IpAddress::read(part).map(IpAddr::from))
    })
}

const X_FORWARDED_FOR: &str = "x-forwarded-for";
/// The most proxies: more than any deployment has, so that an endless list is not read to its end.
const MAX_HOPS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(X_FORWARDED_FOR, field.parse().unwrap());
        }
        headers
    }

    fn of(trust: &ClientIp, peer: &str, fields: &[&str]) -> String {
        let client = trust.of(peer.parse().ok(), &headers(fields));
        client.map_or_else(|| "nobody".to_owned(), |ip| ip.to_string())
    }

    #[test]
    fn no_proxy_is_trusted_by_default() {
        assert_eq!(of(&ClientIp::default(), "203.0.113.9", &["6.6.6.6"]), "203.0.113.9");
        assert_eq!(of(&ClientIp::behind_hops(0), "203.0.113.9", &["6.6.6.6"]), "203.0.113.9");
        assert_eq!(of(&ClientIp::default(), "::ffff:1.2.3.4", &[]), "1.2.3.4");
    }

    #[test]
    fn hops_are_counted_from_the_right() {
        let two = ClientIp::behind_hops(2);
        assert_eq!(of(&two, "10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"]), "1.1.1.1");
        assert_eq!(of(&two, "10.0.0.1", &["6.6.6.6", "1.1.1.1,10.0.0.2"]), "1.1.1.1");
        assert_eq!(of(&two, "10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        assert_eq!(of(&two, "10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(of(&two, "10.0.0.1", &["garbage, 10.0.0.2"]), "10.0.0.2");
    }

    #[test]
    fn proxies_are_followed_as_far_as_they_are_trusted() {
        let ours =
            ClientIp::behind_proxies(["10.0.0.0/8", "fd00::/8"].map(|it| it.parse().unwrap()));
        for (peer, fields, client) in [
            ("203.0.113.9", &["6.6.6.6"][..], "203.0.113.9"),
            ("10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"], "1.1.1.1"),
            ("fd00::1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["6.6.6.6, nonsense"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("a unix socket", &["1.1.1.1"], "1.1.1.1"),
            ("a unix socket", &[], "nobody"),
        ] {
            assert_eq!(of(&ours, peer, fields), client, "{peer} {fields:?}");
        }
    }

    #[test]
    fn whatever_a_client_prepends_changes_nothing() {
        for trust in
            [ClientIp::behind_hops(1), ClientIp::behind_proxies(["10.0.0.1".parse().unwrap()])]
        {
            for prefix in ["", "6.6.6.6, ", "10.0.0.1, ", ",,,", "\"[::1]\"; , "] {
                let field = format!("{prefix}203.0.113.9:4711");
                assert_eq!(of(&trust, "10.0.0.1", &[&field]), "203.0.113.9", "{field}");
            }
            let many = vec!["10.0.0.1"; 5_000].join(",");
            assert_eq!(of(&trust, "10.0.0.1", &[&many]), "10.0.0.1");
        }
    }
}
