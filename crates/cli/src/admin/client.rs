//! Requests to the admin API, and what its refusals mean for an operator.

use anyhow::{Context, anyhow};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::printable;
use crate::client::{OperatorCredentials, TargetServer, request};

/// A client of the admin listener of one server.
pub(crate) struct AdminClient {
    runtime: Runtime,
    server: TargetServer,
    credentials: OperatorCredentials,
}

impl AdminClient {
    pub(crate) fn new(
        server: TargetServer,
        credentials: OperatorCredentials,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { runtime: runtime.context("cannot start a runtime")?, server, credentials })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        self.send(Method::GET, path, None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> anyhow::Result<String> {
        self.send(Method::POST, path, Some(body))
    }

    pub(super) fn delete(&self, path: &str, body: Option<&Value>) -> anyhow::Result<String> {
        self.send(Method::DELETE, path, body)
    }

    /// An answer as JSON.
    pub(super) fn parsed(&self, text: &str) -> anyhow::Result<Value> {
        serde_json::from_str(text).with_context(|| self.unreadable())
    }

    /// Says that an answer is not what this version expects.
    pub(crate) fn unreadable(&self) -> String {
        format!("cannot read the answer of {}: is it another version?", self.server)
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<String> {
        let is_read = method == Method::GET;
        let (path, body) = (format!("/admin/v1{path}"), body.map(ToString::to_string));
        let exchange = request(&self.server, method, &path, &self.credentials, body);
        let exchange = self.runtime.block_on(exchange);
        let (status, text) = exchange.with_context(|| format!("cannot reach {}", self.server))?;
        match status {
            _ if status.is_success() => Ok(text),
            StatusCode::UNAUTHORIZED if self.credentials.token.is_some() => Err(anyhow!(
                "{} does not know the token in TIDEGATE_ADMIN_TOKEN: expected one of its tokens",
                self.server
            )),
            StatusCode::UNAUTHORIZED => Err(anyhow!(
                "{} requires a token: expected it in TIDEGATE_ADMIN_TOKEN",
                self.server
            )),
            _ => Err(match detail(&text) {
                // Every admin listener has the paths that are read.
                Some(detail) if !(is_read && status == StatusCode::NOT_FOUND) => {
                    anyhow!("{} refused: {detail}", self.server)
                }
                _ => anyhow!("{} answers {status}: is this its admin address?", self.server),
            }),
        }
    }
}

/// The token of the operator, never from the command line, which other users can see.
pub(crate) fn token_from_environment() -> Option<String> {
    std::env::var("TIDEGATE_ADMIN_TOKEN").ok().filter(|token| !token.is_empty())
}

/// The server's own words.
fn detail(text: &str) -> Option<String> {
    let problem: Value = serde_json::from_str(text).ok()?;
    problem["detail"].as_str().map(printable)
}
