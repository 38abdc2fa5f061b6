//! Which limiter is judged, and how it is called.

use std::sync::Arc;

use anyhow::{Context, bail};
use tidegate::Span;
use tidegate_judge::{
    AdmittedBy, AnswerField, HttpTemplate, LimiterTarget, RespTemplate, RlsTemplate,
};

/// Where the limiter is. Several of one kind are instances of one limiter.
#[derive(Debug, clap::Args)]
pub(crate) struct JudgeTargetArgs {
    /// Call this URL; {key} and {cost} are filled in
    #[arg(long, value_name = "URL", help_heading = "Limiter")]
    http: Vec<String>,
    /// Call Envoy's rate limit service at this address
    #[arg(long, value_name = "ADDRESS", help_heading = "Limiter")]
    grpc: Vec<String>,
    /// Send --send to this address, in the Redis protocol
    #[arg(long, value_name = "ADDRESS", requires = "send", help_heading = "Limiter")]
    resp: Vec<String>,
    /// Run this command, which answers {"id", "key", "cost"} with {"id", "allowed", "remaining",
    /// "retry_after"}, one line of JSON each
    #[arg(long, value_name = "COMMAND", help_heading = "Limiter")]
    command: Vec<String>,
    /// The method for --http; by default POST with a body and GET without one
    #[arg(long, value_name = "NAME", requires = "http", help_heading = "Limiter")]
    method: Option<String>,
    /// A header for --http, such as "x-user: {key}"
    #[arg(long = "header", value_name = "FIELD", requires = "http", help_heading = "Limiter")]
    headers: Vec<String>,
    /// The body for --http
    #[arg(long, value_name = "TEXT", requires = "http", help_heading = "Limiter")]
    body: Option<String>,
    /// Where an answer says whether it admits: a JSON pointer such as /allowed. By default the status
    #[arg(long, value_name = "POINTER", requires = "http", help_heading = "Limiter")]
    allowed: Option<String>,
    /// The statuses of a denial
    #[arg(
        long,
        value_name = "STATUS",
        default_value = "429",
        value_delimiter = ',',
        help_heading = "Limiter"
    )]
    denied_status: Vec<u16>,
    /// Where an answer says what is left: a JSON pointer or the name of a header
    #[arg(long, value_name = "FIELD", requires = "http", help_heading = "Limiter")]
    remaining: Option<String>,
    /// Where a denial says how long to wait: a JSON pointer or the name of a header
    #[arg(long, value_name = "FIELD", requires = "http", help_heading = "Limiter")]
    retry_after: Option<String>,
    /// The unit of that
    #[arg(long, value_name = "SPAN", default_value = "1s", help_heading = "Limiter")]
    retry_unit: Span,
    /// The domain for --grpc
    #[arg(long, value_name = "NAME", default_value = "", help_heading = "Limiter")]
    domain: String,
    /// The descriptor for --grpc: entries separated by commas
    #[arg(long, value_name = "ENTRIES", default_value = "key={key}", help_heading = "Limiter")]
    descriptor: String,
    /// The command for --resp: CL.THROTTLE {key} 15 30 60 {cost}, the same with THROTTLE, or
    /// RL.CHECK policy {key} {cost}
    #[arg(long, value_name = "WORDS", requires = "resp", help_heading = "Limiter")]
    send: Option<String>,
}

impl JudgeTargetArgs {
    pub(super) fn targets(&self) -> anyhow::Result<Vec<LimiterTarget>> {
        let kinds = [&self.http, &self.grpc, &self.resp, &self.command];
        if kinds.into_iter().filter(|kind| !kind.is_empty()).count() > 1 {
            bail!("expected one of --http, --grpc, --resp and --command");
        }
        let http = self.http.iter().map(|url| self.http(url));
        let grpc = self.grpc.iter().map(|address| self.rls(address));
        let resp = self.resp.iter().map(|address| {
            let words = self.send.as_deref().unwrap_or_default();
            Ok(LimiterTarget::Resp(Arc::new(RespTemplate::new(address, words)?)))
        });
        let command = self.command.iter().map(|it| Ok(LimiterTarget::Command(it.clone())));
        http.chain(grpc).chain(resp).chain(command).collect()
    }

    /// Whether a call can cost more than 1.
    pub(super) fn takes_a_cost(&self) -> bool {
        let texts = self.http.iter().chain(&self.headers).chain(&self.body).chain(&self.send);
        let mut texts = texts.filter(|text| text.contains("{cost}"));
        !self.command.is_empty() || !self.grpc.is_empty() || texts.next().is_some()
    }

    fn http(&self, url: &str) -> anyhow::Result<LimiterTarget> {
        let method = self.method.as_deref();
        let method = method.unwrap_or(if self.body.is_some() { "POST" } else { "GET" });
        let headers = self.headers.iter().map(|field| {
            let (name, value) = field
                .split_once(':')
                .with_context(|| format!("{field:?}: expected name: value"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        let place = |field: &Option<String>| field.as_deref().map(AnswerField::from);
        Ok(LimiterTarget::Http(Arc::new(HttpTemplate {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: headers.collect::<anyhow::Result<_>>()?,
            body: self.body.clone(),
            admitted_by: self.allowed.clone().map_or(AdmittedBy::Status, AdmittedBy::Pointer),
            denied: self.denied_status.clone(),
            remaining: place(&self.remaining),
            retry_after: place(&self.retry_after),
            retry_unit: i64::try_from(self.retry_unit.as_micros())?,
        })))
    }

    fn rls(&self, address: &str) -> anyhow::Result<LimiterTarget> {
        let entries = self.descriptor.split(',').map(|entry| {
            let (name, value) =
                entry.split_once('=').with_context(|| format!("{entry:?}: expected name=value"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        Ok(LimiterTarget::Rls(Arc::new(RlsTemplate {
            address: address.trim_start_matches("http://").to_owned(),
            domain: self.domain.clone(),
            entries: entries.collect::<anyhow::Result<_>>()?,
        })))
    }
}
