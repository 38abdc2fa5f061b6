//! Why a call has no reply, and whether it may have run.

use std::fmt;
use std::sync::Arc;

use redis::{RedisError, ServerError};
use tidegate_store::{StoreError, StoreErrorKind};

use crate::url::RedisAddress;

/// A call without a reply.
#[derive(Clone, Debug)]
pub(crate) struct RedisFailure {
    pub(crate) kind: StoreErrorKind,
    pub(crate) message: Arc<str>,
    pub(crate) outcome: CallOutcome,
    /// Whether the call was refused only because its keys are on two nodes while their slot migrates:
    /// a call for each key may succeed.
    pub(crate) keys_apart: bool,
}

/// Whether a call without a reply may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It certainly did not run: sending it again is safe.
    NotRun,
    /// It may have run, in whole or in part: sending it again might charge twice.
    Unknown,
}

impl RedisFailure {
    /// A call that was never sent, or refused before anything was written.
    pub(crate) fn not_run(kind: StoreErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), outcome: CallOutcome::NotRun, keys_apart: false }
    }

    /// A call that was sent.
    pub(crate) fn unknown(kind: StoreErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), outcome: CallOutcome::Unknown, keys_apart: false }
    }

    /// A call whose connection failed while it was in flight.
    pub(super) fn of_client(error: &RedisError) -> Self {
        let kind = match error.kind() {
            _ if error.is_timeout() => StoreErrorKind::Timeout,
            redis::ErrorKind::Parse => StoreErrorKind::Protocol,
            redis::ErrorKind::Io => StoreErrorKind::Lost,
            _ => StoreErrorKind::Other,
        };
        Self::unknown(kind, error.to_string())
    }

    /// A call that the server answered with an error.
    pub(super) fn of_server(error: &ServerError) -> Self {
        let code = error.code();
        let (kind, outcome) = class_of(code);
        let message = match error.details() {
            Some(details) => format!("{code} {details}"),
            None => code.to_owned(),
        };
        Self { kind, message: message.into(), outcome, keys_apart: code == "TRYAGAIN" }
    }

    /// Adds the server's address to the message.
    pub(super) fn at(self, address: &RedisAddress) -> Self {
        Self { message: format!("{address}: {}", self.message).into(), ..self }
    }
}

impl fmt::Display for RedisFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl From<RedisFailure> for StoreError {
    fn from(failure: RedisFailure) -> Self {
        let may_have_run = failure.outcome == CallOutcome::Unknown;
        Self::new(failure.kind, &*failure.message).with_outcome(may_have_run)
    }
}

/// Classifies an error by its code, the first word: the rest is prose and changes between versions.
///
/// A refused call did not run when Redis checks for the error before the script starts, or when it
/// checks before the script's first write and never after that (OOM, READONLY, MISCONF and
/// NOREPLICAS). Any other error may have come from the middle of a script.
fn class_of(code: &str) -> (StoreErrorKind, CallOutcome) {
    use CallOutcome::{NotRun, Unknown};
    match code {
        "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" => (StoreErrorKind::Overloaded, NotRun),
        "READONLY" | "MASTERDOWN" | "NOREPLICAS" => (StoreErrorKind::ReadOnly, NotRun),
        "OOM" => (StoreErrorKind::Full, NotRun),
        "NOAUTH" | "WRONGPASS" | "DENIED" | "NOPROTO" | "MISCONF" | "MOVED" | "ASK"
        | "CROSSSLOT" => (StoreErrorKind::Misconfigured, NotRun),
        // The script's own commands are checked one by one.
        "NOPERM" => (StoreErrorKind::Misconfigured, Unknown),
        "NOSCRIPT" => (StoreErrorKind::Protocol, NotRun),
        "WRONGTYPE" => (StoreErrorKind::WrongType, Unknown),
        _ => (StoreErrorKind::Other, Unknown),
    }
}

/// A server's refusal to run a call, by what can be done about it.
#[derive(Debug)]
pub(super) enum RedisRefusal {
    /// The server does not know the script by its hash.
    NoScript,
    /// Another node serves the slot.
    Moved { slot: u16, to: RedisAddress },
    /// Another node may already have the keys; send only this call there.
    Ask { to: RedisAddress },
    /// Not at the moment, but perhaps soon.
    TryLater(RedisFailure),
    /// The server is not the primary, or no longer is.
    NotPrimary(RedisFailure),
    /// The server is a primary without replicas, perhaps because they follow another one by now.
    NoReplicas(RedisFailure),
    /// Anything else.
    Final(RedisFailure),
}

impl RedisRefusal {
    /// `server` is the one that refused: a redirection may leave out the host.
    pub(super) fn of(error: &ServerError, server: &RedisAddress) -> Self {
        let failure = RedisFailure::of_server(error).at(server);
        match error.code() {
            "NOSCRIPT" => Self::NoScript,
            "LOADING" | "TRYAGAIN" | "CLUSTERDOWN" => Self::TryLater(failure),
            "READONLY" | "MASTERDOWN" => Self::NotPrimary(failure),
            "NOREPLICAS" => Self::NoReplicas(failure),
            code @ ("MOVED" | "ASK") => match redirection(error.details(), server) {
                Some((slot, to)) if code == "MOVED" => Self::Moved { slot, to },
                Some((_, to)) => Self::Ask { to },
                None => Self::Final(failure),
            },
            _ => Self::Final(failure),
        }
    }

    /// The failure for callers that cannot do anything about the refusal.
    pub(super) fn into_failure(self) -> RedisFailure {
        let elsewhere = |to: RedisAddress| {
            let message = format!(
                "the server is a node of a Cluster and redirects to {to}; use redis+cluster:// to \
                 follow"
            );
            RedisFailure::not_run(StoreErrorKind::Misconfigured, message)
        };
        match self {
            Self::TryLater(failure)
            | Self::NotPrimary(failure)
            | Self::NoReplicas(failure)
            | Self::Final(failure) => failure,
            Self::Moved { to, .. } | Self::Ask { to } => elsewhere(to),
            Self::NoScript => RedisFailure::not_run(
                StoreErrorKind::Protocol,
                "the server does not know a script whose text it was sent",
            ),
        }
    }
}

/// `SLOT HOST:PORT`. An IPv6 address has no brackets here.
fn redirection(details: Option<&str>, server: &RedisAddress) -> Option<(u16, RedisAddress)> {
    let (slot, rest) = details?.split_once(' ')?;
    let (host, port) = rest.split_ascii_whitespace().next()?.rsplit_once(':')?;
    let slot = slot.parse().ok().filter(|slot| *slot < super::slot_map::SLOTS)?;
    let to = super::slot_map::endpoint(host, port.parse().ok()?, server)?;
    Some((slot, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> RedisRefusal {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let redis::Value::ServerError(error) = value else { panic!("{line} is not an error") };
        RedisRefusal::of(&error, &RedisAddress::Tcp { host: "asked".to_owned(), port: 1 })
    }

    #[test]
    fn errors_have_a_kind_and_an_outcome() {
        use {CallOutcome::*, StoreErrorKind::*};
        for (line, kind, outcome) in [
            ("LOADING Redis is loading the dataset in memory", Overloaded, NotRun),
            ("BUSY Redis is busy running a script.", Overloaded, NotRun),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Overloaded, NotRun),
            ("CLUSTERDOWN Hash slot not served", Overloaded, NotRun),
            ("READONLY You can't write against a read only replica.", ReadOnly, NotRun),
            ("MASTERDOWN Link with MASTER is down", ReadOnly, NotRun),
            ("NOREPLICAS Not enough good replicas to write.", ReadOnly, NotRun),
            ("OOM command not allowed when used memory > 'maxmemory'.", Full, NotRun),
            ("NOAUTH Authentication required.", Misconfigured, NotRun),
            ("WRONGPASS invalid username-password pair", Misconfigured, NotRun),
            ("NOPERM this user has no permissions", Misconfigured, Unknown),
            ("MISCONF Redis is configured to save RDB snapshots", Misconfigured, NotRun),
            ("CROSSSLOT Keys in request don't hash to the same slot", Misconfigured, NotRun),
            ("WRONGTYPE Operation against a key", WrongType, Unknown),
            ("ERR unknown command", Other, Unknown),
            ("SOMETHING new", Other, Unknown),
            ("ALONE", Other, Unknown),
        ] {
            let failure = refused(line).into_failure();
            assert_eq!((failure.kind, failure.outcome), (kind, outcome), "{line}");
        }
    }

    #[test]
    fn redirections_are_read() {
        for (line, at, host, port) in [
            ("MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", 6381),
            ("MOVED 0 ::1:6381", 0, "::1", 6381),
            ("MOVED 16383 :6381", 16383, "asked", 6381),
            ("MOVED 1 node-a.example:1 extra words", 1, "node-a.example", 1),
        ] {
            let RedisRefusal::Moved { slot, to } = refused(line) else { panic!("{line}") };
            assert_eq!(slot, at, "{line}");
            assert_eq!(to, RedisAddress::Tcp { host: host.to_owned(), port }, "{line}");
        }
        assert!(matches!(refused("ASK 7 h:1"), RedisRefusal::Ask { .. }));
    }

    #[test]
    fn nonsense_is_not_followed() {
        for line in [
            "MOVED",
            "MOVED 1",
            "MOVED x h:1",
            "MOVED 16384 h:1",
            "MOVED -1 h:1",
            "MOVED 1 h",
            "MOVED 1 h:0",
            "MOVED 1 h:65536",
            "ASK 1 ?:1",
        ] {
            assert!(matches!(refused(line), RedisRefusal::Final(_)), "{line}");
        }
    }
}
