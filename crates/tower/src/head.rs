//! The heads of requests and responses: everything before their bodies.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use tidegate_http::{HttpRequest, is_grpc_call};
use tidegate_limiter::config::RequestRules;

/// A request without its body, for keys, costs and conditions.
///
/// Functions that are given to a [`RateLimitLayer`](crate::RateLimitLayer) get it, so that they cannot wait for
/// a body or consume it: a request is decided before its body has arrived.
///
/// ```
/// use tidegate::tower::{RateLimitLayer, RequestHead};
///
/// // An export is as expensive as fifty ordinary requests.
/// let layer = RateLimitLayer::new("1000/hour")?
///     .cost(|head: RequestHead<'_>| if head.uri().path() == "/export" { 50 } else { 1 });
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    /// The head of a request.
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The method.
    pub const fn method(&self) -> &'a Method {
        self.method
    }

    /// The target.
    pub const fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// All fields.
    pub const fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// The first header of this name.
    ///
    /// Its bytes need not be text. `None` if there is no such field; for a field that may be repeated, see
    /// [`headers`](Self::headers).
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.get(name).map(HeaderValue::as_bytes)
    }

    /// The extensions, which other layers may have filled.
    pub const fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    /// The peer that connected, if the server provides it: a [`PeerIp`], `axum::extract::ConnectInfo` or in tests
    /// its `MockConnectInfo` (feature `axum`), tonic's `TcpConnectInfo` (feature `tonic`), or a bare [`SocketAddr`] in
    /// the extensions. It can be a proxy. An IPv4-mapped IPv6 address becomes IPv4.
    ///
    /// [`RequestKey::client_ip`](crate::RequestKey::client_ip) finds the client behind proxies too. In a
    /// key of your own, an address counts by its network, as `tidegate::IpAddress` does.
    pub fn peer(&self) -> Option<IpAddr> {
        let extensions = self.extensions;
        let peer = extensions.get().map(|PeerIp(ip)| *ip);
        #[cfg(feature = "axum")]
        let peer = peer.or_else(|| {
            let info: &axum::extract::ConnectInfo<SocketAddr> = extensions.get()?;
            Some(info.0.ip())
        });
        #[cfg(feature = "axum")]
        let peer = peer.or_else(|| {
            let mock: &axum::extract::connect_info::MockConnectInfo<SocketAddr> =
                extensions.get()?;
            Some(mock.0.ip())
        });
        #[cfg(feature = "tonic")]
        let peer = peer.or_else(|| {
            let info: &tonic::transport::server::TcpConnectInfo = extensions.get()?;
            Some(info.remote_addr()?.ip())
        });
        let peer = peer.or_else(|| extensions.get().map(SocketAddr::ip));
        peer.map(|ip| ip.to_canonical())
    }

    /// A request with header fields only, for the attributes that need no more.
    pub(crate) const fn as_request(&self, rules: RequestRules) -> HttpRequest<'a> {
        let headers = self.headers;
        let (method, scheme, host, target, client) = (None, None, None, None, None);
        HttpRequest { method, scheme, host, target, client, headers, rules }
    }

    /// The template of the route, if axum provides it.
    pub(crate) fn route(&self) -> Option<&'a str> {
        #[cfg(feature = "axum")]
        return self.extensions.get().map(axum::extract::MatchedPath::as_str);
        #[cfg(not(feature = "axum"))]
        None
    }

    /// Whether it is a gRPC call.
    pub(crate) fn is_grpc(&self) -> bool {
        is_grpc_call(self.method, self.headers)
    }
}

/// The peer that connected: an extension for servers that do not provide it in a way that
/// [`RequestHead::peer`] knows.
///
/// ```
/// use tidegate::tower::{PeerIp, RequestHead};
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(PeerIp("203.0.113.9".parse()?));
/// assert_eq!(RequestHead::of(&request).peer(), "203.0.113.9".parse().ok());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIp(pub IpAddr);

/// A response without its body.
///
/// [`count_if`](crate::RateLimitLayer::count_if) decides by it whether a request counts.
///
/// ```
/// use tidegate::tower::RateLimitLayer;
///
/// // Only what was found counts.
/// let layer = RateLimitLayer::new("100/minute")?.count_if(|response| response.status() != 404);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    pub(crate) fn of<B>(response: &'a Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// All fields.
    pub const fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// The extensions, which the handler may have filled.
    pub const fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    /// Whether the request failed: a status of 400 or more, or a gRPC status other than OK in a response
    /// without a body.
    pub fn is_failure(&self) -> bool {
        let status = self.headers.get("grpc-status");
        self.status.as_u16() >= 400 || status.is_some_and(|status| status != "0")
    }
}
