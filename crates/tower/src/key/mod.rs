//! Keys: what distinguishes the callers of a layer.

mod address_rule;
mod context;

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use tidegate_http::ClientIp;
use tidegate_limiter::{IpNetwork, OwnedKey};

use self::address_rule::AddressRule;
pub(crate) use self::context::KeyContext;
use crate::RequestHead;

/// What distinguishes one caller from another.
///
/// ```
/// use tidegate::tower::RequestKey;
///
/// #[derive(Clone)]
/// struct UserId(u64);
///
/// let by_address = RequestKey::client_ip().trust_hops(1);
/// let by_user = RequestKey::extension(|user: &UserId| user.0);
/// let by_both = RequestKey::all([by_user, RequestKey::header("x-tenant")]).trust_hops(1);
/// ```
///
/// # Requests without the key
///
/// A request without the header or the extension is counted by its client's address, so that
/// omitting it does not bypass the limit, and callers without it do not share one counter.
/// Choose otherwise with [`or`](RequestKey::or), [`or_shared`](RequestKey::or_shared) or
/// [`or_unlimited`](RequestKey::or_unlimited).
///
/// If not even an address is known (see [`RequestHead::peer`]), all such requests share one
/// counter, and a warning is printed once.
///
/// # Headers are client input
///
/// A client can send any header. Until the header is checked, a client with many values has many
/// counters: limit by address before authentication, and by an extension or a checked header after it.
#[derive(Clone)]
pub struct RequestKey {
    source: KeySource,
    address: AddressRule,
    absent: KeySubstitute,
}

#[derive(Clone)]
enum KeySource {
    ClientIp,
    /// `None` if the name is not a valid header name: no request has it.
    Header(Option<HeaderName>),
    Bearer,
    ApiKey,
    #[cfg(feature = "axum")]
    PathTemplate,
    Everybody,
    Function(KeyFunction),
    All(Vec<RequestKey>),
}

type KeyFunction = Arc<dyn Fn(RequestHead<'_>, KeyForm) -> Option<OwnedKey> + Send + Sync>;

/// The form in which a key is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// The parts that distinguish callers.
    Parts,
    /// Text that a policy compares with its own.
    Text,
    /// The parts in readable form, for the name of a counter.
    Name,
}

impl KeyForm {
    fn of<K: tidegate_limiter::Key>(self, key: &K) -> OwnedKey {
        if self == Self::Text
            && let Some(text) = key.text()
        {
            return OwnedKey::of(text.as_str());
        }
        let mut owned = OwnedKey::default();
        self.add(key, &mut owned);
        owned
    }

    fn add<K: tidegate_limiter::Key + ?Sized>(self, key: &K, to: &mut OwnedKey) {
        match self {
            Self::Name => to.push_text(key),
            Self::Parts | Self::Text => to.push(key),
        }
    }
}

/// What a request without the key is counted by.
#[derive(Clone)]
enum KeySubstitute {
    Address,
    Other(Box<RequestKey>),
    Shared,
    Unlimited,
}

impl RequestKey {
    /// The client's address. An IPv6 client counts as its /64 network, and every notation of an
    /// address is one key.
    ///
    /// By default no proxy is trusted: the client is the peer that connects. Behind a proxy that is
    /// the proxy, for all clients: see [`trust_hops`](RequestKey::trust_hops).
    pub const fn client_ip() -> Self {
        Self::new(KeySource::ClientIp)
    }

    /// The header of this name. If a request has it twice, even with equal values, or with an
    /// underscore for a hyphen, the response is 400: it would be counted by one of them, and a handler
    /// might use the other. A text that is not a header name is never found.
    pub fn header(name: &str) -> Self {
        Self::new(KeySource::Header(name.parse().ok()))
    }

    /// The token of `Authorization: Bearer`. A request with two such fields is answered with 400, and one
    /// with `Bearer` and not exactly one token with 401.
    pub const fn bearer() -> Self {
        Self::new(KeySource::Bearer)
    }

    /// The token of `Authorization: Bearer`, else `X-API-Key`. A request that has both, and they
    /// differ, is answered with 400. Where one of them is something else than the key, use
    /// [`bearer`](RequestKey::bearer) or [`header`](RequestKey::header).
    pub const fn api_key() -> Self {
        Self::new(KeySource::ApiKey)
    }

    /// The template of the route, such as `/users/{id}`: one counter for all that it matches. Use
    /// the layer in `route_layer`, where the route is known; requests elsewhere share a counter.
    #[cfg(feature = "axum")]
    pub fn path_template() -> Self {
        Self { absent: KeySubstitute::Shared, ..Self::new(KeySource::PathTemplate) }
    }

    /// Something that an earlier layer has put into the request's extensions.
    ///
    /// ```
    /// # use tidegate::tower::RequestKey;
    /// #[derive(Clone)]
    /// struct User { id: u64, tenant: String }
    ///
    /// let by_user = RequestKey::extension(|user: &User| (user.tenant.clone(), user.id));
    /// ```
    pub fn extension<T, K>(key: impl Fn(&T) -> K + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        K: tidegate_limiter::Key,
    {
        Self::from_fn(move |head: RequestHead<'_>| head.extensions().get().map(&key))
    }

    /// The key that a function returns. An `IpAddr` counts as a `tidegate::IpAddress`: IPv6 by its first 64
    /// bits. For the client's address, [`client_ip`](RequestKey::client_ip) is better: it knows proxies.
    ///
    /// ```
    /// # use tidegate::tower::{RequestKey, RequestHead};
    /// let by_host = RequestKey::from_fn(|head: RequestHead<'_>| Some(head.uri().host()?.to_owned()));
    /// ```
    pub fn from_fn<K, F>(key: F) -> Self
    where
        K: tidegate_limiter::Key,
        F: Fn(RequestHead<'_>) -> Option<K> + Send + Sync + 'static,
    {
        Self::new(KeySource::Function(Arc::new(move |head, form| Some(form.of(&key(head)?)))))
    }

    /// All callers together: one counter.
    ///
    /// For a resource that all callers share, such as a slow backend. A single caller can then use up the limit
    /// for all others.
    pub const fn everybody() -> Self {
        Self::new(KeySource::Everybody)
    }

    /// All of these together, as one key: each combination has its own counter. The settings of one key
    /// about proxies and networks apply to those without such settings.
    ///
    /// ```
    /// use tidegate::tower::RequestKey;
    ///
    /// // Each user has a counter for each tenant.
    /// let key = RequestKey::all([RequestKey::header("x-tenant"), RequestKey::header("x-user")]);
    /// ```
    pub fn all(keys: impl IntoIterator<Item = Self>) -> Self {
        let keys: Vec<Self> = keys.into_iter().collect();
        let mut rule = AddressRule::default();
        keys.iter().for_each(|key| rule.fill_from(&key.address));
        Self::new(KeySource::All(keys)).fill_address_rule(&rule)
    }

    const fn new(source: KeySource) -> Self {
        let address = AddressRule { client: None, ipv6_prefix: None };
        Self { source, address, absent: KeySubstitute::Address }
    }

    /// The number of proxies in front of this server, each of which appends to `X-Forwarded-For`:
    /// wherever this key needs the client's address, it is the one that the outermost of them appended.
    /// Entries that a client writes itself change nothing. Zero means that there is no proxy.
    #[must_use]
    pub fn trust_hops(self, hops: usize) -> Self {
        self.with_client(&ClientIp::behind_hops(hops))
    }

    /// Any peer in these networks is a proxy that appends to `X-Forwarded-For`.
    ///
    /// The server has to provide the peer's address (see [`RequestHead::peer`]). If it does not, no proxy
    /// is trusted, all requests share one counter, and a warning is printed once. On a unix socket, put a
    /// [`PeerIp`](crate::PeerIp) with a loopback address into the extensions, and trust that.
    #[must_use]
    pub fn trust_proxies(self, networks: impl IntoIterator<Item = IpNetwork>) -> Self {
        self.with_client(&ClientIp::behind_proxies(networks))
    }

    fn with_client(mut self, client: &ClientIp) -> Self {
        self.each_address(&mut |address| address.client = Some(client.clone()));
        self
    }

    /// How many bits of an IPv6 address count. Defaults to 64, which is also the maximum.
    ///
    /// A provider gives a customer a network, not an address. With single addresses as keys, one customer would
    /// have 2^64 of them.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.each_address(&mut |address| address.ipv6_prefix = Some(bits));
        self
    }

    /// Counts a request that lacks this key by another one; with `a.or(b).or(c)`, by the first that it
    /// has. The settings of one key about proxies and networks apply to the other, if it has none.
    ///
    /// ```
    /// use tidegate::tower::RequestKey;
    ///
    /// // By the key of the API, or else by the address.
    /// let key = RequestKey::header("x-api-key").or(RequestKey::client_ip().trust_hops(1));
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let (own_rule, other_rule) = (self.address.clone(), other.address.clone());
        self.fill_address_rule(&other_rule)
            .otherwise(KeySubstitute::Other(Box::new(other.fill_address_rule(&own_rule))))
    }

    /// One counter for all requests that lack this key.
    ///
    /// A flood of requests without the key uses up that one counter, and nothing else.
    #[must_use]
    pub fn or_shared(self) -> Self {
        self.otherwise(KeySubstitute::Shared)
    }

    /// Requests that lack this key are not limited.
    ///
    /// Only use it where something else makes sure that nobody leaves the key out to avoid the limit.
    #[must_use]
    pub fn or_unlimited(self) -> Self {
        self.otherwise(KeySubstitute::Unlimited)
    }

    /// Appends a substitute after the existing ones.
    fn otherwise(mut self, absent: KeySubstitute) -> Self {
        self.absent = match self.absent {
            KeySubstitute::Other(other) => KeySubstitute::Other(Box::new(other.otherwise(absent))),
            _ => absent,
        };
        self
    }

    /// Fills the settings that are not set yet, in all parts of the key.
    fn fill_address_rule(mut self, rule: &AddressRule) -> Self {
        self.each_address(&mut |address| address.fill_from(rule));
        self
    }

    fn each_address(&mut self, change: &mut impl FnMut(&mut AddressRule)) {
        change(&mut self.address);
        if let KeySource::All(keys) = &mut self.source {
            keys.iter_mut().for_each(|key| key.each_address(change));
        }
        if let KeySubstitute::Other(other) = &mut self.absent {
            other.each_address(change);
        }
    }
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            KeySource::ClientIp => f.debug_tuple("ClientIp").field(&self.address).finish(),
            KeySource::Header(name) => f.debug_tuple("Header").field(name).finish(),
            KeySource::Bearer => f.write_str("Bearer"),
            KeySource::ApiKey => f.write_str("ApiKey"),
            #[cfg(feature = "axum")]
            KeySource::PathTemplate => f.write_str("PathTemplate"),
            KeySource::Everybody => f.write_str("Everybody"),
            KeySource::Function(_) => f.write_str("Function"),
            KeySource::All(keys) => f.debug_list().entries(keys).finish(),
        }
    }
}
