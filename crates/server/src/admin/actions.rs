//! What an operator can do. Everything is logged: what, to which policy, under which scope; a key
//! only as its fingerprint.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::config::{Amendment, Mode};
use tidegate::{Board, Cost, Notice, Owed, Span, Store, StoreError};

use super::AdminConfig;
use super::access::Scope;
use super::body::{self, Body, Kind, Member, optional, required};
use super::subject::{self, Subject};
use super::views::ok;
use crate::App;
use crate::log::{self, Level};
use crate::top::short;
use crate::transport::http::Response;
use crate::transport::http::diagnose::wrong;
use crate::transport::http::problem::Refusal;

/// Who performs an action.
pub(super) struct Caller<S> {
    pub(super) app: Arc<App<S>>,
    pub(super) scope: Scope,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOverride {
    policy: String,
    key: String,
    #[serde(deserialize_with = "body::one_or_many")]
    limits: Vec<String>,
    expires_in: String,
}

impl Body for NewOverride {
    const MEMBERS: &'static [Member] = &[
        required("policy", Kind::Text),
        required("key", Kind::Text),
        required("limits", Kind::Limits),
        required("expires_in", Kind::Text),
    ];
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldOverride {
    policy: String,
    key: String,
}

impl Body for OldOverride {
    const MEMBERS: &'static [Member] =
        &[required("policy", Kind::Text), required("key", Kind::Text)];
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMode {
    mode: String,
    expires_in: Option<String>,
}

impl Body for NewMode {
    const MEMBERS: &'static [Member] =
        &[required("mode", Kind::Text), optional("expires_in", Kind::Text)];
}

impl<S: Store + Board + 'static> Caller<S> {
    pub(super) async fn set_override(&self, bytes: &[u8]) -> Result<Response, Refusal> {
        let NewOverride { policy, key, limits, expires_in } = body::read(bytes)?;
        let lasts = expiry(&expires_in)?;
        self.set(Amendment::Override { policy, key, limits }, lasts).await
    }

    pub(super) async fn unset_override(&self, bytes: &[u8]) -> Result<Response, Refusal> {
        let OldOverride { policy, key } = body::read(bytes)?;
        self.unset(Amendment::Override { policy, key, limits: Vec::new() }).await
    }

    pub(super) async fn set_mode(&self, policy: &str, bytes: &[u8]) -> Result<Response, Refusal> {
        let NewMode { mode, expires_in } = body::read(bytes)?;
        let Some(mode) = Mode::ALL.iter().find(|known| known.name() == mode) else {
            return Err(wrong("mode", Value::from(mode), "enforce, shadow or off"));
        };
        let lasts = expires_in.as_deref().map_or(Ok(Notice::LONGEST), expiry)?;
        self.set(Amendment::Mode { policy: policy.to_owned(), mode: *mode }, lasts).await
    }

    pub(super) async fn unset_mode(&self, policy: &str) -> Result<Response, Refusal> {
        let policy = policy.to_owned();
        self.unset(Amendment::Mode { policy, mode: Mode::default() }).await
    }

    /// Checks a change against the file in effect, and then tells all instances.
    async fn set(&self, amendment: Amendment, lasts: Span) -> Result<Response, Refusal> {
        subject::policy(&self.app.limiter().plan(), amendment.policy())?;
        let (app, tried) = (Arc::clone(&self.app), amendment.clone());
        let outcome = tokio::task::spawn_blocking(move || app.try_amendment(&tried)).await;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => return Err(Refusal::bad(None, problem)),
            Err(_) => return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping")),
        }
        self.app.post(&amendment, lasts).await.map_err(away)?;
        self.log(&format!("{} set for {lasts}", kind(&amendment)), &amendment);
        Ok(ok(&json!({ "policy": amendment.policy(), "expires_in_secs": lasts.as_secs_ceil() })))
    }

    async fn unset(&self, amendment: Amendment) -> Result<Response, Refusal> {
        if !self.app.take_down(&amendment).await.map_err(away)? {
            let detail = format!("there is no such {}", kind(&amendment));
            return Err(Refusal::new(StatusCode::NOT_FOUND, detail));
        }
        self.log(&format!("{} removed", kind(&amendment)), &amendment);
        Ok(ok(&json!({ "policy": amendment.policy(), "removed": true })))
    }

    pub(super) async fn reset(&self, bytes: &[u8]) -> Result<Response, Refusal> {
        let subject: Subject = body::read(bytes)?;
        let plan = self.app.limiter().plan();
        let owed = subject.owed(&plan, Cost::ONE)?;
        self.app.limiter().reset(&owed).await.map_err(away)?;
        self.tell("reset", &owed).await
    }

    pub(super) async fn refund(&self, bytes: &[u8]) -> Result<Response, Refusal> {
        let subject: Subject = body::read(bytes)?;
        let amount = subject.amount.unwrap_or(1);
        let cost = Cost::new(amount).ok().filter(|cost| !cost.is_peek());
        let cost = cost.ok_or_else(|| {
            wrong("amount", amount, &format!("a whole number from 1 to {}", tidegate::MAX_COUNT))
        })?;
        let plan = self.app.limiter().plan();
        let owed = subject.owed(&plan, cost)?;
        self.app.limiter().refund(&owed).await.map_err(away)?;
        self.tell("refund", &owed).await
    }

    /// What was given back here is given back everywhere.
    async fn tell(&self, what: &str, owed: &Owed<'_>) -> Result<Response, Refusal> {
        // If the board cannot be written, other instances find out a second later.
        let _ = self.app.tell_to_forget().await;
        let mut policies: Vec<&str> = Vec::new();
        for charge in 0..owed.charges().len() {
            let (Some(policy), Some(subject)) = (owed.policy(charge), owed.subject(charge)) else {
                continue;
            };
            if policies.last() != Some(&policy.name()) {
                policies.push(policy.name());
                self.say(what, &[("policy", policy.name()), ("key", &short(subject))]);
            }
        }
        Ok(ok(&json!({ "policies": policies, "counters": owed.charges().len() })))
    }

    /// Asks the task that follows the file and those that it names; the outcome is in the log and in the
    /// status, too.
    pub(super) async fn reload(&self, admin: &AdminConfig) -> Result<Response, Refusal> {
        let Some(reload) = admin.reload() else {
            let detail = "there is no file to reload: the server was started without --config";
            return Err(Refusal::new(StatusCode::CONFLICT, detail));
        };
        self.say("reload", &[]);
        let answer = reload.ask_and_wait().await;
        if let Some(problem) = self.app.reload_problem().filter(|_| answer.is_some()) {
            let detail = format!("{problem}; what was in effect before it stays so");
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        let (reloads, refused) = self.app.reload_counts();
        let Some(answer) = answer else {
            let mut response = ok(&json!({ "reloads": reloads, "refused": refused }));
            *response.status_mut() = StatusCode::ACCEPTED;
            return Ok(response);
        };
        let read: Vec<_> = answer.read.iter().map(|path| path.display().to_string()).collect();
        let changed = answer.has_changed;
        let said =
            json!({ "reloads": reloads, "refused": refused, "read": read, "changed": changed });
        Ok(ok(&said))
    }

    /// Only the fingerprint of a key is logged, under which it appears in peeks too.
    fn log(&self, what: &str, amendment: &Amendment) {
        let plan = self.app.limiter().plan();
        let print = match amendment {
            Amendment::Override { policy, key, .. } => plan.override_subject(policy, key),
            Amendment::Mode { .. } => None,
        };
        let print = print.map(short);
        let mut fields = vec![("policy", amendment.policy())];
        fields.extend(print.as_deref().map(|print| ("key", print)));
        self.say(what, &fields);
    }

    fn say(&self, what: &str, fields: &[(&str, &str)]) {
        let mut all = vec![("scope", self.scope.name()), ("action", what)];
        all.extend(fields);
        let about: Vec<String> =
            fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let message = format!("admin ({}): {what}{}", self.scope.name(), about.concat());
        log::say(Level::Info, "admin", &message, &all);
    }
}

const fn kind(amendment: &Amendment) -> &'static str {
    match amendment {
        Amendment::Override { .. } => "override",
        Amendment::Mode { .. } => "mode",
    }
}

/// `15m`, `2h`, `7d`.
fn expiry(text: &str) -> Result<Span, Refusal> {
    let longest = Notice::LONGEST;
    let refused = |expected: &str| wrong("expires_in", Value::from(text), expected);
    let span: Span = text
        .parse()
        .map_err(|_| refused(&format!("a time such as 15m or 2h, at most {longest}")))?;
    if span.is_zero() || span > longest {
        return Err(refused(&format!("more than nothing, at most {longest}")));
    }
    Ok(span)
}

/// The store has to answer for anything that all instances should know.
fn away(error: StoreError) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}
