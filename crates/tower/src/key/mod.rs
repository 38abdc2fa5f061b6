//! Keys: who is counted.

mod context;

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use tidegate_http::ClientIp;
use tidegate_limiter::{IpNetwork, OwnedKey};

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
/// # Requests that do not say who they are
///
/// A request without the header or the extension is counted by its client's address, so that
/// leaving something out is no way around a limit, and nobody suffers for what others leave out.
/// Choose otherwise with [`or`](RequestKey::or), [`or_shared`](RequestKey::or_shared) or
/// [`or_unlimited`](RequestKey::or_unlimited).
///
/// If not even an address is known (see [`RequestHead::peer`]), all such requests share one
/// counter, and a warning says so once.
///
/// # Who controls it
///
/// A header says what the client wants it to say. Until something has checked it, a client with
/// many of them has many counters: limit by address before authentication, and by an extension or a
/// checked header after it.
#[derive(Clone)]
pub struct RequestKey {
    source: KeySource,
    address: AddressRule,
    absent: KeySubstitute,
}

#[derive(Clone)]
enum KeySource {
    ClientIp,
    /// `None` is no name of a header, and no request has it.
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

/// What a key is wanted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// The parts that tell callers apart.
    Parts,
    /// A text, such as a policy compares with its own.
    Text,
    /// The parts as others read them in the name of a counter.
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

/// How the client's address is found, and how much of it counts. `None` until somebody says so.
#[derive(Clone, Debug, Default)]
struct AddressRule {
    /// Who is trusted, if anybody.
    client: Option<ClientIp>,
    ipv6_prefix: Option<u8>,
}

impl AddressRule {
    /// Takes over what it was not told itself.
    fn fill_from(&mut self, other: &Self) {
        self.client = self.client.take().or_else(|| other.client.clone());
        self.ipv6_prefix = self.ipv6_prefix.or(other.ipv6_prefix);
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
    /// The client's address. An IPv6 client is its network of 64 bits, and every notation of an
    /// address is one key.
    ///
    /// By default no proxy is trusted: the client is the peer that connects. Behind a proxy that is
    /// the proxy, for everyone: see [`trust_hops`](RequestKey::trust_hops).
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

    /// Whatever a function finds. An `IpAddr` counts as a `tidegate::IpAddress`: IPv6 by its first 64
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

    /// Everybody together: one counter.
    pub const fn everybody() -> Self {
        Self::new(KeySource::Everybody)
    }

    /// All of these together, as one key: each combination has its own counter. What one of them
    /// says about proxies and networks holds for those that say nothing.
    pub fn all(keys: impl IntoIterator<Item = Self>) -> Self {
        let keys: Vec<Self> = keys.into_iter().collect();
        let mut said = AddressRule::default();
        keys.iter().for_each(|key| said.fill_from(&key.address));
        Self::new(KeySource::All(keys)).fill_address_rule(&said)
    }

    const fn new(source: KeySource) -> Self {
        let address = AddressRule { client: None, ipv6_prefix: None };
        Self { source, address, absent: KeySubstitute::Address }
    }

    /// The number of proxies in front of us, each of which appends to `X-Forwarded-For`: wherever
    /// this key needs the client's address, it is the one that the first of them wrote. What a
    /// client writes there itself changes nothing. Zero says that there is no proxy.
    #[must_use]
    pub fn trust_hops(self, hops: usize) -> Self {
        self.with_client(&ClientIp::behind_hops(hops))
    }

    /// Any peer in these networks is a proxy that appends to `X-Forwarded-For`.
    ///
    /// The server has to tell the peer's address (see [`RequestHead::peer`]). If it does not, nobody is
    /// trusted, all requests share one counter, and a warning is printed once. On a unix socket, put a
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
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.each_address(&mut |address| address.ipv6_prefix = Some(bits));
        self
    }

    /// Counts a request that lacks this key by another one; of `a.or(b).or(c)`, by the first that it
    /// has. What one of them says about proxies and networks holds for the other, if that says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let (mine, its) = (self.address.clone(), other.address.clone());
        self.fill_address_rule(&its)
            .otherwise(KeySubstitute::Other(Box::new(other.fill_address_rule(&mine))))
    }

    /// One counter for all requests that lack this key.
    #[must_use]
    pub fn or_shared(self) -> Self {
        self.otherwise(KeySubstitute::Shared)
    }

    /// Requests that lack this key are not limited.
    #[must_use]
    pub fn or_unlimited(self) -> Self {
        self.otherwise(KeySubstitute::Unlimited)
    }

    /// Behind what may stand in already.
    fn otherwise(mut self, absent: KeySubstitute) -> Self {
        self.absent = match self.absent {
            KeySubstitute::Other(other) => KeySubstitute::Other(Box::new(other.otherwise(absent))),
            _ => absent,
        };
        self
    }

    /// With this where nothing else was said.
    fn fill_address_rule(mut self, said: &AddressRule) -> Self {
        self.each_address(&mut |address| address.fill_from(said));
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
