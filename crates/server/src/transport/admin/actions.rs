//! The actions of operators. Each is logged with the operator, their address and scope, the action, the
//! policy, and the mark of the key.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::config::{Amendment, PolicyMode};
use tidegate::{Cost, RequestCharges, SettingEntry, SharedSettings, Span, Store, StoreError};

use super::AdminConfig;
use super::body::{self, AdminBody, BodyMember, MemberKind, optional, required};
use super::subject::{self, AdminSubject};
use super::tokens::AdminScope;
use super::views::ok;
use crate::App;
use crate::service::log::{self, LogLevel};
use crate::transport::http::HttpResponse;
use crate::transport::http::diagnosis::wrong_member;
use crate::transport::http::refusal::HttpRefusal;

/// The operator who performs an action.
pub(super) struct AdminCaller<S> {
    pub(super) app: Arc<App<S>>,
    pub(super) scope: AdminScope,
    /// The token's name or the certificate's subject.
    pub(super) who: String,
    pub(super) from: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetOverrideBody {
    policy: String,
    key: String,
    #[serde(deserialize_with = "body::one_or_many")]
    limits: Vec<String>,
    expires_in: String,
}

impl AdminBody for SetOverrideBody {
    const MEMBERS: &'static [BodyMember] = &[
        required("policy", MemberKind::Text),
        required("key", MemberKind::Text),
        required("limits", MemberKind::Limits),
        required("expires_in", MemberKind::Text),
    ];
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsetOverrideBody {
    policy: String,
    key: String,
}

impl AdminBody for UnsetOverrideBody {
    const MEMBERS: &'static [BodyMember] =
        &[required("policy", MemberKind::Text), required("key", MemberKind::Text)];
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetModeBody {
    mode: String,
    expires_in: Option<String>,
}

impl AdminBody for SetModeBody {
    const MEMBERS: &'static [BodyMember] =
        &[required("mode", MemberKind::Text), optional("expires_in", MemberKind::Text)];
}

impl<S: Store + SharedSettings + 'static> AdminCaller<S> {
    pub(super) async fn set_override(&self, bytes: &[u8]) -> Result<HttpResponse, HttpRefusal> {
        let SetOverrideBody { policy, key, limits, expires_in } = body::read(bytes)?;
        let lasts = expiry(&expires_in)?;
        self.set(Amendment::Override { policy, key, limits }, lasts).await
    }

    pub(super) async fn unset_override(&self, bytes: &[u8]) -> Result<HttpResponse, HttpRefusal> {
        let UnsetOverrideBody { policy, key } = body::read(bytes)?;
        self.unset(Amendment::Override { policy, key, limits: Vec::new() }).await
    }

    pub(super) async fn set_mode(
        &self,
        policy: &str,
        bytes: &[u8],
    ) -> Result<HttpResponse, HttpRefusal> {
        let SetModeBody { mode, expires_in } = body::read(bytes)?;
        let Some(mode) = PolicyMode::ALL.iter().find(|known| known.name() == mode) else {
            return Err(wrong_member("mode", Value::from(mode), "enforce, shadow or off"));
        };
        let lasts = expires_in.as_deref().map_or(Ok(SettingEntry::LONGEST), expiry)?;
        self.set(Amendment::Mode { policy: policy.to_owned(), mode: *mode }, lasts).await
    }

    pub(super) async fn unset_mode(&self, policy: &str) -> Result<HttpResponse, HttpRefusal> {
        let policy = policy.to_owned();
        self.unset(Amendment::Mode { policy, mode: PolicyMode::default() }).await
    }

    /// Checks an amendment against the file in effect, and then publishes it to all instances.
    async fn set(&self, amendment: Amendment, lasts: Span) -> Result<HttpResponse, HttpRefusal> {
        subject::policy(&self.app.limiter().plan(), amendment.policy())?;
        let (app, tried) = (Arc::clone(&self.app), amendment.clone());
        let outcome = tokio::task::spawn_blocking(move || app.try_amendment(&tried)).await;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => return Err(HttpRefusal::invalid(None, problem)),
            Err(_) => return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping")),
        }
        self.app.post_amendment(&amendment, lasts).await.map_err(store_unavailable)?;
        self.log_amendment(&format!("{} set for {lasts}", kind(&amendment)), &amendment);
        Ok(ok(&json!({ "policy": amendment.policy(), "expires_in_secs": lasts.as_secs_ceil() })))
    }

    async fn unset(&self, amendment: Amendment) -> Result<HttpResponse, HttpRefusal> {
        if !self.app.remove_amendment(&amendment).await.map_err(store_unavailable)? {
            let detail = format!("there is no such {}", kind(&amendment));
            return Err(HttpRefusal::new(StatusCode::NOT_FOUND, detail));
        }
        self.log_amendment(&format!("{} removed", kind(&amendment)), &amendment);
        Ok(ok(&json!({ "policy": amendment.policy(), "removed": true })))
    }

    pub(super) async fn reset(&self, bytes: &[u8]) -> Result<HttpResponse, HttpRefusal> {
        let subject: AdminSubject = body::read(bytes)?;
        let plan = self.app.limiter().plan();
        let charges = subject.charges(&plan, Cost::ONE)?;
        self.app.limiter().reset(&charges).await.map_err(store_unavailable)?;
        self.announce_restored("reset", &charges).await
    }

    pub(super) async fn refund(&self, bytes: &[u8]) -> Result<HttpResponse, HttpRefusal> {
        let subject: AdminSubject = body::read(bytes)?;
        let amount = subject.amount.unwrap_or(1);
        let cost = Cost::new(amount).ok().filter(|cost| !cost.is_peek());
        let cost = cost.ok_or_else(|| {
            wrong_member(
                "amount",
                amount,
                &format!("a whole number from 1 to {}", tidegate::MAX_COUNT),
            )
        })?;
        let plan = self.app.limiter().plan();
        let charges = subject.charges(&plan, cost)?;
        self.app.limiter().refund(&charges).await.map_err(store_unavailable)?;
        self.announce_restored("refund", &charges).await
    }

    /// Makes all instances drop their cached denials, logs the action, and answers.
    async fn announce_restored(
        &self,
        what: &str,
        charges: &RequestCharges<'_>,
    ) -> Result<HttpResponse, HttpRefusal> {
        // If this fails, cached denials of other instances expire within a second.
        let _ = self.app.broadcast_forget().await;
        let mut policies: Vec<&str> = Vec::new();
        for index in 0..charges.charges().len() {
            let (Some(policy), Some(subject)) = (charges.policy(index), charges.subject(index))
            else {
                continue;
            };
            if policies.last() != Some(&policy.name()) {
                policies.push(policy.name());
                let mark = self.app.metrics().top().marks().of(subject);
                self.log_action(what, &[("policy", policy.name()), ("key", &mark)]);
            }
        }
        Ok(ok(&json!({ "policies": policies, "counters": charges.charges().len() })))
    }

    /// Requests a reload from the task that follows the configuration, and waits for its answer. The
    /// outcome also appears in the log and in the status.
    pub(super) async fn reload(&self, admin: &AdminConfig) -> Result<HttpResponse, HttpRefusal> {
        let Some(reload) = admin.reload() else {
            let detail = "there is no file to reload: the server was started without --config";
            return Err(HttpRefusal::new(StatusCode::CONFLICT, detail));
        };
        self.log_action("reload", &[]);
        let answer = reload.ask_and_wait().await;
        if let Some(problem) = self.app.reload_problem().filter(|_| answer.is_some()) {
            let detail = format!("{problem}; the previous configuration stays in effect");
            return Err(HttpRefusal::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        let (reloads, refused) = self.app.reload_counts();
        let Some(answer) = answer else {
            let mut response = ok(&json!({ "reloads": reloads, "refused": refused }));
            *response.status_mut() = StatusCode::ACCEPTED;
            return Ok(response);
        };
        let read: Vec<_> = answer.read.iter().map(|path| path.display().to_string()).collect();
        let changed = answer.has_changed;
        let body =
            json!({ "reloads": reloads, "refused": refused, "read": read, "changed": changed });
        Ok(ok(&body))
    }

    /// Logs a change of an amendment. A key is logged by its mark, which peeks return as well.
    fn log_amendment(&self, what: &str, amendment: &Amendment) {
        let plan = self.app.limiter().plan();
        let subject = match amendment {
            Amendment::Override { policy, key, .. } => plan.override_subject(policy, key),
            Amendment::Mode { .. } => None,
        };
        let marks = self.app.metrics().top().marks();
        let mark = subject.map(|subject| marks.of(subject));
        let mut fields = vec![("policy", amendment.policy())];
        fields.extend(mark.as_deref().map(|mark| ("key", mark)));
        self.log_action(what, &fields);
    }

    fn log_action(&self, what: &str, fields: &[(&str, &str)]) {
        let from = self.from.map_or_else(|| "a unix socket".to_owned(), |ip| ip.to_string());
        let (who, scope) = (self.who.as_str(), self.scope.name());
        let mut all = vec![("who", who), ("from", &*from), ("scope", scope), ("action", what)];
        all.extend(fields);
        let about: Vec<String> =
            fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let about = about.concat();
        let message = format!("admin ({scope}): {what}{about}, by {who} from {from}");
        log::emit(LogLevel::Info, "admin", &message, &all);
    }
}

const fn kind(amendment: &Amendment) -> &'static str {
    match amendment {
        Amendment::Override { .. } => "override",
        Amendment::Mode { .. } => "mode",
    }
}

/// `15m`, `2h`, `7d`.
fn expiry(text: &str) -> Result<Span, HttpRefusal> {
    let longest = SettingEntry::LONGEST;
    let refused = |expected: &str| wrong_member("expires_in", Value::from(text), expected);
    let span: Span = text
        .parse()
        .map_err(|_| refused(&format!("a time such as 15m or 2h, at most {longest}")))?;
    if span.is_zero() || span > longest {
        return Err(refused(&format!("a time above 0, at most {longest}")));
    }
    Ok(span)
}

/// A change that concerns all instances fails without the store.
fn store_unavailable(error: StoreError) -> HttpRefusal {
    HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}
