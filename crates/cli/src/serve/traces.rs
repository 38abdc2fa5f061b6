//! Sends the traces of `serve` to an OpenTelemetry collector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tidegate_server::log::{self, LogLevel};
use tidegate_server::trace::{SamplingRatio, TraceCollector, Tracer};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client;

/// The options for traces.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceArgs {
    /// Send traces of requests to this OpenTelemetry collector, over gRPC: http://host:4317,
    /// https://host:4317, or off. OTEL_EXPORTER_OTLP_ENDPOINT works too
    #[arg(long, env = "TIDEGATE_OTLP", value_name = "URL")]
    otlp: Option<String>,
    /// The share of the traces that begin here to record, from 0 to 1; callers decide about their
    /// own
    #[arg(long, env = "TIDEGATE_OTLP_RATIO", value_name = "RATIO", default_value = "1",
        value_parser = str::parse::<SamplingRatio>)]
    otlp_ratio: SamplingRatio,
}

/// A collector, and which traces it is sent.
pub(super) struct TraceExportConfig {
    collector: TraceCollector,
    ratio: SamplingRatio,
    service: String,
}

impl TraceArgs {
    /// The collector to send traces to; `None` unless one is configured.
    pub(super) fn open(&self) -> anyhow::Result<Option<TraceExportConfig>> {
        let collector: Option<TraceCollector> = match self.otlp.as_deref() {
            Some("off") => None,
            Some(url) => Some(url.parse().map_err(|why| anyhow!("--otlp {why}"))?),
            None => standard_collector(),
        };
        let Some(collector) = collector else { return Ok(None) };
        let collector = match collector.is_secure() {
            true => collector.verified_by(client::trusted_roots().with_no_client_auth()),
            false => collector,
        };
        let service =
            nonempty_variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "tidegate".to_owned());
        Ok(Some(TraceExportConfig { collector, ratio: self.otlp_ratio, service }))
    }
}

/// The collector in OpenTelemetry's standard variables. They may be meant for other programs, so an
/// unsupported value is logged and does not stop the server from starting.
fn standard_collector() -> Option<TraceCollector> {
    let url = nonempty_variable(STANDARD)?;
    if nonempty_variable("OTEL_SDK_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
        return None;
    }
    let collector = match nonempty_variable(PROTOCOL).as_deref() {
        None | Some("grpc") => url.parse().map_err(|why| format!("{STANDARD} {why}")),
        Some(other) => Err(format!("{PROTOCOL} is {other:?}: expected grpc")),
    };
    let collector = collector.map_err(|why: String| {
        let message = format!("no traces: {why}; set --otlp to a collector's URL, or to off");
        log::emit(LogLevel::Warn, "traces", &message, &[]);
    });
    collector.ok()
}

fn nonempty_variable(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

impl TraceExportConfig {
    /// Starts sending, on the current runtime.
    pub(super) fn start(self) -> (Tracer, TraceExportTask) {
        let (tracer, exporter) = Tracer::new(self.ratio, &self.service);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task =
            tokio::spawn(exporter.run(self.collector, async move { stopped.notified().await }));
        (tracer, TraceExportTask { stop, task })
    }
}

impl fmt::Display for TraceExportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collector, ratio, .. } = self;
        write!(f, "{collector}; {ratio} of those that begin here")
    }
}

/// A running export of traces.
pub(super) struct TraceExportTask {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl TraceExportTask {
    /// Sends the remaining traces, unless the collector takes too long.
    pub(super) async fn finish(self) {
        self.stop.notify_one();
        let _ = timeout(FLUSH_TIMEOUT, self.task).await;
    }
}

const STANDARD: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
