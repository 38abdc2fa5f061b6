//! Where `serve` sends its traces.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tidegate_server::log::{self, Level};
use tidegate_server::trace::{Collector, Ratio, Tracer};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client;

/// Its command-line options.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceFlags {
    /// Send traces of requests to this OpenTelemetry collector, over gRPC: http://host:4317,
    /// https://host:4317, or off. OTEL_EXPORTER_OTLP_ENDPOINT works too
    #[arg(long, env = "TIDEGATE_OTLP", value_name = "URL")]
    otlp: Option<String>,
    /// The share of traces to record of those that begin here, from 0 to 1; callers decide about
    /// their own
    #[arg(long, env = "TIDEGATE_OTLP_RATIO", value_name = "RATIO", default_value = "1",
        value_parser = str::parse::<Ratio>)]
    otlp_ratio: Ratio,
}

/// A collector, and what it is sent.
pub(super) struct Traces {
    collector: Collector,
    ratio: Ratio,
    service: String,
}

impl TraceFlags {
    /// Nothing unless somebody asked for traces.
    pub(super) fn open(&self) -> anyhow::Result<Option<Traces>> {
        let collector: Option<Collector> = match self.otlp.as_deref() {
            Some("off") => None,
            Some(url) => Some(url.parse().map_err(|why| anyhow!("--otlp {why}"))?),
            None => standard(),
        };
        let Some(collector) = collector else { return Ok(None) };
        let collector = match collector.is_secure() {
            true => collector.verified_by(client::trust().with_no_client_auth()),
            false => collector,
        };
        let service = said("OTEL_SERVICE_NAME").unwrap_or_else(|| "tidegate".to_owned());
        Ok(Some(Traces { collector, ratio: self.otlp_ratio, service }))
    }
}

/// The settings that every program with OpenTelemetry reads. They may be meant for others: anything
/// we cannot do is reported, and is no reason not to start.
fn standard() -> Option<Collector> {
    let url = said(STANDARD)?;
    if said("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
        return None;
    }
    let collector = match said(PROTOCOL).as_deref() {
        None | Some("grpc") => url.parse().map_err(|why| format!("{STANDARD} {why}")),
        Some(other) => Err(format!("{PROTOCOL} is {other:?}: expected grpc")),
    };
    let told = collector.map_err(|why: String| {
        let message = format!("no traces: {why}; --otlp says where a collector is, or off");
        log::say(Level::Warn, "traces", &message, &[]);
    });
    told.ok()
}

fn said(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

impl Traces {
    /// Starts sending, on the current runtime.
    pub(super) fn start(self) -> (Tracer, Exporting) {
        let (tracer, exporter) = Tracer::new(self.ratio, &self.service);
        let stop = Arc::new(Notify::new());
        let told = Arc::clone(&stop);
        let task = tokio::spawn(exporter.run(self.collector, async move { told.notified().await }));
        (tracer, Exporting { stop, task })
    }
}

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collector, ratio, .. } = self;
        write!(f, "{collector}; {ratio} of those that begin here")
    }
}

/// Traces are being sent.
pub(super) struct Exporting {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Exporting {
    /// Sends what is left, if the collector takes it soon.
    pub(super) async fn finish(self) {
        self.stop.notify_one();
        let _ = timeout(GOODBYE, self.task).await;
    }
}

const STANDARD: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const GOODBYE: Duration = Duration::from_secs(2);
