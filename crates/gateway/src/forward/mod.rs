//! The request that a service gets. Its head is always written anew, never copied from the client's bytes.

mod filter;
pub(crate) mod hop;
mod rules;

use std::fmt::Write as _;
use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, TE, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tidegate_http::all_cookies;
use tidegate_server::trace::TraceParent;

pub(crate) use filter::{FieldFilter, TrailerFilter};
pub(crate) use rules::FieldRules;

use crate::upstream::{ForwardFraming, UpstreamFailure};

/// A request to forward, with the facts for its forwarding fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardRequest<'r> {
    pub(crate) parts: &'r Parts,
    /// The path in normal form, and the query.
    pub(crate) target: &'r str,
    /// The host in the client's spelling.
    pub(crate) host: Option<&'r str>,
    pub(crate) rules: &'r FieldRules,
    /// The address of the client, which can be behind proxies.
    pub(crate) client: Option<&'r str>,
    /// The address at the other end of the connection.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) is_secure: bool,
    /// Whether the peer is a trusted proxy, so that its forwarding fields are kept.
    pub(crate) is_trusted: bool,
    /// The protocol that the client wants to switch to.
    pub(crate) upgrade: Option<&'r HeaderValue>,
    /// Whether the service sees the client's host.
    pub(crate) preserves_host: bool,
    /// The gateway's span, if the request is traced.
    pub(crate) trace: Option<TraceParent>,
    pub(crate) framing: ForwardFraming,
    pub(crate) filter: &'r FieldFilter,
    /// The length of the body, if the request has `Content-Length`.
    pub(crate) length: Option<u64>,
    pub(crate) trailers: TrailerFilter,
}

impl<'r> ForwardRequest<'r> {
    /// A request of the gateway itself, without a client or a body.
    pub(crate) const fn without_client(
        parts: &'r Parts,
        target: &'r str,
        rules: &'r FieldRules,
        filter: &'r FieldFilter,
    ) -> Self {
        Self {
            parts,
            target,
            host: None,
            rules,
            client: None,
            peer: None,
            is_secure: false,
            is_trusted: false,
            upgrade: None,
            preserves_host: false,
            trace: None,
            framing: ForwardFraming::Sized,
            filter,
            length: None,
            trailers: TrailerFilter::Dropped,
        }
    }

    /// The head in the format of HTTP/1.1.
    pub(crate) fn encode(&self, authority: &HeaderValue) -> BytesMut {
        let mut out = BytesMut::with_capacity(HEAD);
        out.put_slice(self.parts.method.as_str().as_bytes());
        out.put_u8(b' ');
        out.put_slice(self.target.as_bytes());
        out.put_slice(b" HTTP/1.1\r\nhost: ");
        out.put_slice(self.host_for(authority).as_bytes());
        out.put_slice(b"\r\n");
        self.each_field(|name, value| {
            out.put_slice(name.as_bytes());
            out.put_slice(b": ");
            out.put_slice(value);
            out.put_slice(b"\r\n");
        });
        match self.upgrade {
            Some(protocol) => {
                out.put_slice(b"connection: upgrade\r\nupgrade: ");
                out.put_slice(protocol.as_bytes());
                out.put_slice(b"\r\n");
            }
            None if self.wants_trailers() => out.put_slice(b"connection: te\r\nte: trailers\r\n"),
            None => {}
        }
        if self.framing == ForwardFraming::Chunked {
            out.put_slice(b"transfer-encoding: chunked\r\n");
        } else if let Some(length) = self.length {
            let _ = write!(out, "content-length: {length}\r\n");
        }
        out.put_slice(b"\r\n");
        out
    }

    /// The request for HTTP/2, unless its host or target is not valid there.
    pub(crate) fn request<B>(
        &self,
        authority: &HeaderValue,
        is_secure: bool,
        body: B,
    ) -> Result<http::Request<B>, UpstreamFailure> {
        let mut headers = HeaderMap::with_capacity(self.parts.headers.len() + ADDED);
        self.each_field(|name, value| {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
                headers.append(name, value);
            }
        });
        if let Some(length) = self.length.filter(|_| self.framing == ForwardFraming::Sized) {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        if self.wants_trailers() {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        let host = self.host_for(authority);
        let uri = Uri::builder()
            .scheme(if is_secure { "https" } else { "http" })
            .authority(host)
            .path_and_query(self.target)
            .build();
        let mut request = http::Request::new(body);
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = uri.map_err(|_| UpstreamFailure::Host(host.to_owned()))?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn host_for<'a>(&'a self, authority: &'a HeaderValue) -> &'a str {
        let kept = self.host.filter(|_| self.preserves_host);
        kept.or_else(|| authority.to_str().ok()).unwrap_or_default()
    }

    /// Calls `field` for every field of the forwarded request, except those that belong to a connection.
    fn each_field(&self, mut field: impl FnMut(&str, &[u8])) {
        let headers = &self.parts.headers;
        for (name, value) in headers {
            let is_replaced = self.trace.is_some() && name.as_str() == TraceParent::FIELD;
            if is_replaced || *name == COOKIE {
                continue;
            }
            if self.filter.passes(name) && !self.rules.drops(name) {
                field(name.as_str(), value.as_bytes().trim_ascii());
            }
        }
        if let Some(cookies) = all_cookies(headers).filter(|_| !self.rules.drops(&COOKIE)) {
            field(COOKIE.as_str(), &cookies);
        }
        self.each_forwarding_field(&mut field);
        if let Some(trace) = self.trace {
            field(TraceParent::FIELD, trace.to_string().as_bytes());
        }
        for (name, value) in self.rules.added() {
            field(name.as_str(), value.as_bytes());
        }
    }

    /// The fields about the client and the proxies on the way. A client's own values are dropped, unless
    /// the peer is a trusted proxy.
    fn each_forwarding_field(&self, field: &mut impl FnMut(&str, &[u8])) {
        let mut text = String::with_capacity(96);
        let before =
            |name| self.parts.headers.get_all(name).into_iter().filter(|_| self.is_trusted);
        let mut append_hop = |name: &'static str, ours: &str, text: &mut String| {
            text.clear();
            for value in before(name).filter_map(|value| value.to_str().ok()) {
                text.push_str(value);
                text.push_str(", ");
            }
            text.push_str(ours);
            field(name, text.as_bytes());
        };
        let proto = if self.is_secure { "https" } else { "http" };
        if let Some(peer) = self.peer {
            let mut ours = String::with_capacity(48);
            let _ = write!(ours, "{}", peer.to_canonical());
            append_hop("x-forwarded-for", &ours, &mut text);
        }
        let mut ours = String::with_capacity(96);
        write_forwarded(self.peer, proto, self.host, &mut ours);
        append_hop("forwarded", &ours, &mut text);
        if let Some(client) = self.client {
            field("x-real-ip", client.as_bytes());
        }
        let first = |name| before(name).next().map(HeaderValue::as_bytes);
        field("x-forwarded-proto", first("x-forwarded-proto").unwrap_or(proto.as_bytes()));
        let host = first("x-forwarded-host").or(self.host.map(str::as_bytes));
        if let Some(host) = host {
            field("x-forwarded-host", host);
        }
    }

    fn wants_trailers(&self) -> bool {
        hop::has_token(&self.parts.headers, TE, "trailers")
    }
}

/// The protocol that a request wants to switch to, if its fields are valid. HTTP/2 is not accepted anywhere
/// in the list: its requests would bypass the gateway, and a client can start with HTTP/2 anyway.
pub(crate) fn wanted_upgrade(headers: &HeaderMap) -> Option<&HeaderValue> {
    let is_fit = |protocol: &HeaderValue| {
        let is_h2 = |token: &str| token.to_ascii_lowercase().starts_with("h2");
        protocol.to_str().is_ok() && !hop::tokens(protocol).any(is_h2)
    };
    let is_named = hop::has_token(headers, CONNECTION, "upgrade");
    let is_wanted = is_named && headers.get_all(UPGRADE).iter().all(is_fit);
    headers.get(UPGRADE).filter(|_| is_wanted)
}

/// Writes one hop in the format of RFC 7239.
fn write_forwarded(peer: Option<IpAddr>, proto: &str, host: Option<&str>, out: &mut String) {
    let _ = match peer.map(|peer| peer.to_canonical()) {
        Some(IpAddr::V4(peer)) => write!(out, "for={peer};"),
        Some(IpAddr::V6(peer)) => write!(out, "for=\"[{peer}]\";"),
        None => Ok(()),
    };
    out.push_str("proto=");
    out.push_str(proto);
    if let Some(host) = host {
        let _ = write!(out, ";host=\"{host}\"");
    }
}

/// The initial capacity for a head.
const HEAD: usize = 768;
/// The capacity for fields that the gateway adds.
const ADDED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_http2_cannot_carry_is_the_clients_fault() {
        let (parts, ()) = http::Request::new(()).into_parts();
        let (rules, filter) = (FieldRules::default(), FieldFilter::default());
        let forward = |host, target| {
            let forward = ForwardRequest {
                host: Some(host),
                preserves_host: true,
                ..ForwardRequest::without_client(&parts, target, &rules, &filter)
            };
            forward.request(&HeaderValue::from_static("service"), false, ())
        };
        assert!(forward("shop.example", "/").is_ok());
        let long = format!("/{}", "a".repeat(70_000));
        for (host, target) in [("a b", "/"), ("shop.example", &long)] {
            let failure = forward(host, target).unwrap_err();
            assert_eq!(failure.status(), http::StatusCode::BAD_REQUEST);
            assert!(!failure.is_upstream_fault());
            assert!(failure.to_string().contains(host), "{failure}");
        }
    }

    #[test]
    fn nobody_switches_to_http2_by_any_spelling() {
        for (fields, is_wanted) in [
            (&["websocket"][..], true),
            (&["foo, bar/1"], true),
            (&["h2c"], false),
            (&["H2C"], false),
            (&["foo, h2c"], false),
            (&["foo,h2"], false),
            (&["foo", "bar"], true),
            (&["foo", "h2c"], false),
            (&["foo\u{e4}, h2c"], false),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(UPGRADE, HeaderValue::from_bytes(field.as_bytes()).unwrap());
            }
            assert_eq!(wanted_upgrade(&headers), None, "{fields:?} without Connection");
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            assert_eq!(wanted_upgrade(&headers).is_some(), is_wanted, "{fields:?}");
        }
    }
}
