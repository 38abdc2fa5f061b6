//! The rights of clients beyond checks: refunds and resets, which an operator must allow.

use std::str::FromStr;

use thiserror::Error;

use crate::Transport;

/// An operation that changes a counter in the client's favour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRight {
    /// Refunding a cost: `POST /v1/refund`, `RL.REFUND`, `is_negative_hits`.
    Refund,
    /// Resetting a counter: `RL.RESET`.
    Reset,
}

impl ClientRight {
    /// The name in `--allow`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refund => "refund",
            Self::Reset => "reset",
        }
    }
}

/// The rights of the clients of each listener.
///
/// ```
/// use tidegate_server::{ClientRight, ClientRights, Transport};
///
/// let rights: ClientRights = "resp:reset,refund".parse()?;
/// assert!(rights.permit(Transport::Http, ClientRight::Refund));
/// assert!(!rights.permit(Transport::Http, ClientRight::Reset));
/// assert!(!ClientRights::NONE.permit(Transport::Resp, ClientRight::Reset));
///
/// let refused = "resp:delete".parse::<ClientRights>().unwrap_err();
/// assert_eq!(refused.to_string(), "\"resp:delete\": expected refund, reset or none, or a right on one \
///     listener: http:refund, grpc:refund, resp:refund, resp:reset");
/// # Ok::<(), tidegate_server::ClientRightsError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRights(u8);

/// A right that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?}: expected refund, reset or none, or a right on one listener: http:refund, grpc:refund, \
     resp:refund, resp:reset"
)]
pub struct ClientRightsError(String);

impl ClientRights {
    /// Clients can only check and peek.
    pub const NONE: Self = Self(0);
    /// Clients have all rights.
    pub const ALL: Self = Self(u8::MAX);

    /// Whether the clients of a listener have a right.
    pub const fn permit(self, listener: Transport, right: ClientRight) -> bool {
        self.0 & bit(listener, right) != 0
    }
}

impl FromStr for ClientRights {
    type Err = ClientRightsError;

    fn from_str(text: &str) -> Result<Self, ClientRightsError> {
        let mut rights = Self::NONE;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            rights.0 |= bits(word).ok_or_else(|| ClientRightsError(word.to_owned()))?;
        }
        Ok(rights)
    }
}

fn bits(word: &str) -> Option<u8> {
    use ClientRight::{Refund, Reset};
    use Transport::{Grpc, Http, Resp};
    Some(match word {
        "none" => 0,
        "refund" => bit(Http, Refund) | bit(Grpc, Refund) | bit(Resp, Refund),
        "reset" | "resp:reset" => bit(Resp, Reset),
        "http:refund" => bit(Http, Refund),
        "grpc:refund" => bit(Grpc, Refund),
        "resp:refund" => bit(Resp, Refund),
        _ => return None,
    })
}

const fn bit(listener: Transport, right: ClientRight) -> u8 {
    let listener = match listener {
        Transport::Http => 0,
        Transport::Grpc => 2,
        Transport::Resp => 4,
    };
    match right {
        ClientRight::Refund => 1 << listener,
        ClientRight::Reset => 2 << listener,
    }
}
