//! The ways to call a limiter.

mod command;
mod http;
mod resp;
mod rls;

use std::sync::Arc;

pub use self::http::{AdmittedBy, AnswerField, HttpTemplate};
pub use self::resp::RespTemplate;
pub use self::rls::RlsTemplate;
use crate::history::StatedWait;

use self::command::CommandPipe;
use self::http::HttpLink;
use self::resp::RespLink;
use self::rls::RlsLink;

/// One instance of a limiter, and how it is called.
#[derive(Clone, Debug)]
pub enum LimiterTarget {
    /// Over HTTP.
    Http(Arc<HttpTemplate>),
    /// As Envoy calls a rate limit service.
    Rls(Arc<RlsTemplate>),
    /// Over the Redis protocol.
    Resp(Arc<RespTemplate>),
    /// A command of the shell, which reads requests as lines of JSON and writes answers.
    Command(String),
}

/// What a limiter answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallAnswer {
    pub(crate) allowed: bool,
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after: Option<StatedWait>,
}

/// A call that got no answer, or none that can be read.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// A connection or a process failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The HTTP library reports it.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The request cannot be written as HTTP.
    #[error("{0}")]
    Request(#[from] ::http::Error),
    /// The answer is not what it should be.
    #[error("{0}")]
    Answer(String),
}

impl AdapterError {
    pub(crate) fn answer(text: impl Into<String>) -> Self {
        Self::Answer(text.into())
    }
}

/// A target that is ready to be called.
#[derive(Clone, Debug)]
pub(crate) enum StartedTarget {
    Http(Arc<HttpTemplate>),
    Rls(Arc<RlsTemplate>),
    Resp(Arc<RespTemplate>),
    Command(CommandPipe),
}

impl LimiterTarget {
    pub(crate) fn start(&self) -> Result<StartedTarget, AdapterError> {
        Ok(match self {
            Self::Http(template) => StartedTarget::Http(Arc::clone(template)),
            Self::Rls(template) => StartedTarget::Rls(Arc::clone(template)),
            Self::Resp(command) => StartedTarget::Resp(Arc::clone(command)),
            Self::Command(command) => StartedTarget::Command(CommandPipe::start(command)?),
        })
    }
}

/// One caller's way to a target.
#[derive(Debug)]
pub(crate) enum LimiterConnection {
    Http(HttpLink),
    Rls(RlsLink),
    Resp(RespLink),
    Command(CommandPipe),
}

impl StartedTarget {
    pub(crate) async fn connect(&self) -> Result<LimiterConnection, AdapterError> {
        Ok(match self {
            Self::Http(template) => {
                LimiterConnection::Http(HttpLink::open(Arc::clone(template)).await?)
            }
            Self::Rls(template) => {
                LimiterConnection::Rls(RlsLink::open(Arc::clone(template)).await?)
            }
            Self::Resp(command) => {
                LimiterConnection::Resp(RespLink::open(Arc::clone(command)).await?)
            }
            Self::Command(pipe) => LimiterConnection::Command(pipe.clone()),
        })
    }
}

impl LimiterConnection {
    /// Whether the next call can be sent at once.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Http(connection) => connection.is_open(),
            Self::Rls(connection) => connection.is_open(),
            Self::Resp(_) | Self::Command(_) => true,
        }
    }

    pub(crate) async fn call(&mut self, key: &str, cost: u64) -> Result<CallAnswer, AdapterError> {
        match self {
            Self::Http(connection) => connection.call(key, cost).await,
            Self::Rls(connection) => connection.call(key, cost).await,
            Self::Resp(connection) => connection.call(key, cost).await,
            Self::Command(pipe) => pipe.call(key, cost).await,
        }
    }
}

/// A template with the key and the cost filled in.
fn filled(template: &str, key: &str, cost: u64) -> String {
    template.replace("{key}", key).replace("{cost}", &cost.to_string())
}
