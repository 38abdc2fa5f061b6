//! Counts requests that were refused without a decision, by listener and reason.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

/// The kind of a listener, as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerKind {
    /// Checks over HTTP.
    Http,
    /// Envoy.
    Grpc,
    /// Redis clients.
    Resp,
    /// Operators.
    Admin,
    /// The reverse proxy.
    Gateway,
}

/// Why a request was refused. The reasons are few, so that a graph can show them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The request is malformed or ambiguous.
    Malformed,
    /// The request exceeds a size limit.
    TooLarge,
    /// The request did not arrive in time.
    Timeout,
    /// A password, token or certificate is missing or wrong.
    Unauthenticated,
    /// The client may not do this.
    Forbidden,
    /// There is no such path, method, policy or command.
    NotFound,
    /// The server is overloaded at the moment.
    Overload,
    /// A backend did not respond, or the server is stopping.
    Unavailable,
}

impl ListenerKind {
    const ALL: [Self; 5] = [Self::Http, Self::Grpc, Self::Resp, Self::Admin, Self::Gateway];

    /// The label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Admin => "admin",
            Self::Gateway => "gateway",
        }
    }
}

impl RefusalReason {
    const ALL: [Self; 8] = [
        Self::Malformed,
        Self::TooLarge,
        Self::Timeout,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::Overload,
        Self::Unavailable,
    ];

    /// The label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Timeout => "timeout",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Overload => "overload",
            Self::Unavailable => "unavailable",
        }
    }

    /// Why hyper refused a request that it could not read; `None` if the client only broke off.
    pub(crate) fn of_unreadable(error: &hyper::Error) -> Option<Self> {
        if error.is_parse_too_large() {
            Some(Self::TooLarge)
        } else {
            error.is_parse().then_some(Self::Malformed)
        }
    }

    /// The reason that an HTTP status stands for; `None` if the status is not a refusal.
    pub fn of(status: StatusCode) -> Option<Self> {
        Some(match status {
            StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Self::Unauthenticated
            }
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Self::NotFound,
            StatusCode::REQUEST_TIMEOUT => Self::Timeout,
            StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Self::TooLarge,
            StatusCode::TOO_MANY_REQUESTS => Self::Overload,
            status if status.is_client_error() => Self::Malformed,
            status if status.is_server_error() => Self::Unavailable,
            _ => return None,
        })
    }
}

/// The number of refused requests, by listener and reason.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounts([[AtomicU64; RefusalReason::ALL.len()]; ListenerKind::ALL.len()]);

impl RefusalCounts {
    #[cold]
    pub(crate) fn count(&self, listener: ListenerKind, reason: RefusalReason) {
        let count = self.0.get(listener as usize).and_then(|counts| counts.get(reason as usize));
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts above zero, and the one series per listener that exists from the beginning.
    pub(super) fn samples(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let of_listener = |(kind, counts): (ListenerKind, &'_ [AtomicU64; 8])| {
            let counts: Vec<u64> =
                counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            RefusalReason::ALL.into_iter().zip(counts).filter_map(move |(reason, count)| {
                let is_shown = count > 0 || reason == RefusalReason::Malformed;
                is_shown.then_some((kind.name(), reason.name(), count))
            })
        };
        ListenerKind::ALL.into_iter().zip(&self.0).flat_map(of_listener)
    }
}
