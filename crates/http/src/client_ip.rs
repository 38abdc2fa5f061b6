//! Whose request it is, when proxies stand in between.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use tidegate_limiter::{IpAddress, IpNetwork};

/// Which of the addresses that a request shows is its client's.
///
/// The address of the socket cannot be made up; what `X-Forwarded-For` says can, except for the part
/// that a trusted proxy has appended. So it is read from the right, and no further than trust goes:
/// whatever a client writes there itself is to the left of that, and changes nothing.
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ProxyTrust {
    #[default]
    Nobody,
    Hops(usize),
    Proxies(Vec<IpNetwork>),
}

impl ClientIp {
    /// Nobody is trusted: the client is who connects.
    pub const fn of_socket() -> Self {
        Self(ProxyTrust::Nobody)
    }

    /// Always so many proxies stand in between, each of which appends to `X-Forwarded-For`. Whoever
    /// reaches us past them can write what they like there: close that way.
    pub const fn behind_hops(hops: usize) -> Self {
        Self(if hops == 0 { ProxyTrust::Nobody } else { ProxyTrust::Hops(hops) })
    }

    /// Whoever connects from these networks is a proxy that appends to `X-Forwarded-For`, and so is
    /// whoever it says it got a request from, if that is in them too. A request that comes by another
    /// way is of who connects. On a unix socket only a neighbour can connect: it is trusted.
    pub fn behind_proxies(networks: impl IntoIterator<Item = IpNetwork>) -> Self {
        Self(ProxyTrust::Proxies(networks.into_iter().collect()))
    }

    /// Whether anybody is trusted.
    pub fn trusts_anybody(&self) -> bool {
        self.0 != ProxyTrust::Nobody
    }

    /// Whether it depends on who connects what a request may say of itself.
    pub const fn depends_on_peer(&self) -> bool {
        matches!(self.0, ProxyTrust::Proxies(_))
    }

    /// Whether what a request from `peer` says about its way here is believed.
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

    /// The client of a request that came from `peer`. `None` when nothing says who it is.
    pub fn of(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer.map(|ip| ip.to_canonical());
        match &self.0 {
            ProxyTrust::Nobody => peer,
            ProxyTrust::Hops(hops) => {
                // Fewer than trusted: the first proxy is what the others have heard of.
                let chain = forwarded(headers).take(*hops).map_while(|address| address);
                chain.last().or(peer)
            }
            ProxyTrust::Proxies(networks) => Self::behind(networks, peer, headers),
        }
    }

    /// The same by networks that somebody else keeps; see [`behind_proxies`](Self::behind_proxies).
    pub fn behind(
        networks: &[IpNetwork],
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Option<IpAddr> {
        let peer = peer.map(|ip| ip.to_canonical());
        let is_proxy = |ip: IpAddr| networks.iter().any(|it| it.contains(ip.into()));
        if peer.is_some_and(|peer| !is_proxy(peer)) {
            return peer;
        }
        let mut client = peer;
        // What is no address was written by whoever wrote it: the last that is one counts.
        for address in forwarded(headers).take(MAX_HOPS).map_while(|address| address) {
            client = Some(address);
            if !is_proxy(address) {
                break;
            }
        }
        client
    }
}

/// The addresses of all `X-Forwarded-For` fields, the nearest first; `None` for what is none.
fn forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let fields = headers.get_all(X_FORWARDED_FOR).iter();
    let lines: Vec<&[u8]> = fields.map(HeaderValue::as_bytes).collect();
    lines.into_iter().rev().flat_map(|line| {
        line.rsplit(|byte| *byte == b',').map(|part| IpAddress::read(part).map(IpAddr::from))
    })
}

const X_FORWARDED_FOR: &str = "x-forwarded-for";
/// More proxies than anybody has; an endless list is not followed to its end.
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
    fn nobody_is_trusted_unless_said() {
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
