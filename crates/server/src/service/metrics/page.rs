//! The page of `GET /metrics`: all metrics in the Prometheus text format.

use std::sync::atomic::Ordering;

use tidegate::config::PlannedPolicy;
use tidegate::{DecisionSource, Plan, Store, StoreUsage};

use super::family::write;
use super::text::{ExactSeconds, MetricText};
use super::{MetricOutcome, ProcessUsage};
use crate::App;
use crate::net::seats::EvictionKind;
use crate::service::limit_names::limit_names;

/// Writes the page. Its length depends on the number of policies, not on requests.
pub(crate) async fn page<S: Store>(app: &App<S>) -> String {
    let (plan, usage) = (app.limiter().plan(), app.usage().await);
    let mut text = MetricText::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.family("tidegate_build_info", "gauge", "Build information.").sample(&version, 1);
    decisions(app, &plan, &mut text);
    policies(&plan, &mut text);
    store(app, &usage, &mut text);
    configuration(app, &mut text);
    connections(app, &mut text);
    traces(app, &mut text);
    // Metrics of an extension, such as the gateway.
    let families = app.extensions().metric_families(&plan);
    families.iter().for_each(|family| write(family, &mut text));
    process(app, &mut text);
    text.into_string()
}

fn decisions<S: Store>(app: &App<S>, plan: &Plan, text: &mut MetricText) {
    let metrics = app.metrics();
    let counters: Vec<_> =
        plan.policies().iter().filter_map(|policy| metrics.policy(policy.name())).collect();
    let mut family = text.family(
        "tidegate_decisions_total",
        "counter",
        "Decisions of each policy, by outcome and by source: the store, or a fallback without it.",
    );
    for counters in &counters {
        for (outcome, source) in each_kind() {
            // The usual series exist from the beginning, so that the first increase is a rate.
            let is_usual = matches!(outcome, MetricOutcome::Allowed | MetricOutcome::Denied);
            let count = counters.of(outcome, source);
            if count > 0 || (is_usual && source == DecisionSource::Store) {
                let (outcome, source) = (outcome.name(), source.name());
                family.sample(
                    &[("policy", &counters.name), ("outcome", outcome), ("source", source)],
                    count,
                );
            }
        }
    }
    let mut family = text.family(
        "tidegate_early_returns_total",
        "counter",
        "Denied requests of clients that retried before their Retry-After had passed; approximate, \
         since not every client is remembered.",
    );
    for counters in &counters {
        family.sample(&[("policy", &counters.name)], counters.early());
    }
    let mut family = text.family(
        "tidegate_ad_hoc_decisions_total",
        "counter",
        "Decisions by limits that came with the request, such as CL.THROTTLE, by outcome and source.",
    );
    for (outcome, source) in each_kind() {
        let count = metrics.ad_hoc().of(outcome, source);
        if count > 0 || (outcome, source) == (MetricOutcome::Allowed, DecisionSource::Store) {
            family.sample(&[("outcome", outcome.name()), ("source", source.name())], count);
        }
    }
    text.single(
        "tidegate_unmatched_total",
        "counter",
        "Requests that matched no policy.",
        metrics.unmatched(),
    );
    refused(app, text);
    text.histogram(
        "tidegate_decision_seconds",
        "Duration of decisions, for a random one in sixteen; decisions made together count with \
         their mean.",
        &metrics.latency(),
    );
}

fn refused<S: Store>(app: &App<S>, text: &mut MetricText) {
    let mut family = text.family(
        "tidegate_refused_total",
        "counter",
        "Requests that were refused without a decision, by kind of listener and reason.",
    );
    for (listener, reason, count) in app.metrics().refused().samples() {
        family.sample(&[("listener", listener), ("reason", reason)], count);
    }
}

/// All pairs of an outcome and a source: one series each.
fn each_kind() -> impl Iterator<Item = (MetricOutcome, DecisionSource)> {
    MetricOutcome::ALL
        .into_iter()
        .flat_map(|outcome| DecisionSource::ALL.iter().map(move |source| (outcome, *source)))
}

/// Writes what the plan says. The decisions of its policies are in [`decisions`].
fn policies(plan: &Plan, text: &mut MetricText) {
    let mut family = text.family(
        "tidegate_policy_limit",
        "gauge",
        "Capacity of each limit of a policy, without tiers and overrides.",
    );
    for policy in plan.policies() {
        for (rule, name) in policy.rules().iter().zip(limit_names(policy.rules())) {
            let labels = [("policy", policy.name()), ("limit", &*name)];
            family.sample(&labels, rule.limit.capacity());
        }
    }
    let mut family = text.family(
        "tidegate_policy_info",
        "gauge",
        "Mode of each policy, and what it does while the store is unavailable.",
    );
    for policy in plan.policies() {
        let (mode, fallback) = (policy.mode().name(), policy.on_store_error().name());
        let labels = [("policy", policy.name()), ("mode", mode), ("on_store_error", fallback)];
        family.sample(&labels, 1);
    }
    let overrides: usize = plan.policies().iter().map(PlannedPolicy::override_count).sum();
    text.single("tidegate_overrides", "gauge", "Keys with limits of their own.", overrides);
}

fn store<S: Store>(app: &App<S>, usage: &StoreUsage, text: &mut MetricText) {
    let report = app.limiter().store_report();
    text.histogram(
        "tidegate_store_seconds",
        "Response time of a remote store; a call without a response in time counts with the time that \
         it waited.",
        &report.latency,
    );
    let mut family = text.family(
        "tidegate_store_errors_total",
        "counter",
        "Decisions that the store could not make, by kind of error.",
    );
    for (kind, count) in &report.errors {
        family.sample(&[("kind", kind.name())], count);
    }
    text.single(
        "tidegate_store_breaker_open",
        "gauge",
        "Whether calls to the store are suspended, because it did not respond.",
        u8::from(!report.is_available),
    );
    text.optional("tidegate_keys", "gauge", "Keys in the store.", usage.keys);
    text.optional(
        "tidegate_max_keys",
        "gauge",
        "Most keys that the store can hold.",
        usage.max_keys,
    );
    if let Some(all) = usage.overflowed {
        overflowed(app, all, text);
    }
    text.optional(
        "tidegate_store_memory_bytes",
        "gauge",
        "Memory of the counters, or of the whole store if it is a separate process.",
        usage.bytes,
    );
    text.optional(
        "tidegate_store_max_memory_bytes",
        "gauge",
        "Limit of tidegate_store_memory_bytes.",
        usage.max_bytes,
    );
    text.optional(
        "tidegate_store_may_evict",
        "gauge",
        "Whether the store drops counters when its memory is full.",
        usage.may_evict.map(u64::from),
    );
}

/// Writes the charges that overflowed, by policy. `all` is the store's total. What no policy
/// accounts for gets an empty label: it belongs to limits that came with requests.
fn overflowed<S: Store>(app: &App<S>, all: u64, text: &mut MetricText) {
    let mut family = text.family(
        "tidegate_overflowed_total",
        "counter",
        "Charges of new keys that shared a counter because the store was full, by policy; the label is \
         empty if the limit came with the request.",
    );
    let mut overflows = app.overflows();
    for policy in app.limiter().plan().policies() {
        family.sample(&[("policy", policy.name())], overflows.of(policy.name()).unwrap_or(0));
    }
    family.sample(&[("policy", "")], overflows.others(all));
}

fn configuration<S: Store>(app: &App<S>, text: &mut MetricText) {
    let (done, refused) = app.reload_counts();
    let mut family = text.family(
        "tidegate_config_reloads_total",
        "counter",
        "Reloads of the configuration, by result.",
    );
    family.sample(&[("result", "done")], done);
    family.sample(&[("result", "refused")], refused);
    text.single(
        "tidegate_config_refused",
        "gauge",
        "Whether the newest configuration was refused.",
        u8::from(app.reload_problem().is_some()),
    );
    text.single(
        "tidegate_amendments",
        "gauge",
        "Overrides and modes that were set at run time.",
        app.amendments().len(),
    );
}

/// Writes the use of seats: each open connection of a listener has one.
fn connections<S: Store>(app: &App<S>, text: &mut MetricText) {
    let pools = app.seat_pools();
    if pools.is_empty() {
        return;
    }
    let mut family = text.family(
        "tidegate_connections",
        "gauge",
        "Open connections, by the address of the listener.",
    );
    for (listener, pool) in &pools {
        family.sample(&[("listener", listener)], pool.taken());
    }
    let mut family = text.family(
        "tidegate_connections_made_way_total",
        "counter",
        "Connections that were closed in favour of others when all seats were taken, by state.",
    );
    for (listener, pool) in &pools {
        for kind in EvictionKind::ALL {
            let labels = [("listener", &**listener), ("state", kind.name())];
            family.sample(&labels, pool.evictions(kind));
        }
    }
    let mut family = text.family(
        "tidegate_connections_refused_total",
        "counter",
        "Connections that were refused: all seats were taken, and too many connections waited for one.",
    );
    for (listener, pool) in &pools {
        family.sample(&[("listener", listener)], pool.refused());
    }
}

/// Writes the fate of trace spans.
fn traces<S: Store>(app: &App<S>, text: &mut MetricText) {
    let Some(tracer) = app.tracer() else { return };
    let counts = tracer.counts();
    let mut family = text.family(
        "tidegate_spans_total",
        "counter",
        "Spans: exported to a collector, dropped because the queue was full, or lost because no \
         collector accepted them.",
    );
    for (result, count) in
        [("exported", &counts.exported), ("dropped", &counts.dropped), ("lost", &counts.lost)]
    {
        family.sample(&[("result", result)], count.load(Ordering::Relaxed));
    }
}

/// Writes the process metrics, under the standard names of Prometheus client libraries.
fn process<S: Store>(app: &App<S>, text: &mut MetricText) {
    let process = ProcessUsage::now();
    text.optional(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of this process.",
        process.resident_bytes,
    );
    text.optional(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of this process.",
        process.cpu_nanos.map(ExactSeconds),
    );
    text.optional("process_open_fds", "gauge", "Open file descriptors.", process.open_fds);
    text.optional("process_max_fds", "gauge", "Limit of open file descriptors.", process.max_fds);
    text.single(
        "process_start_time_seconds",
        "gauge",
        "Start time of this process, as a Unix timestamp.",
        app.metrics().started().as_micros() / 1_000_000,
    );
}
