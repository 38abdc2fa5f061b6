//! `GET /metrics`: everything that is counted, for Prometheus.

use std::sync::atomic::Ordering;

use tidegate::config::PlannedPolicy;
use tidegate::{DecisionSource, Plan, Store, StoreUsage};

use super::source::write;
use super::text::{ExactSeconds, MetricText};
use super::{MetricOutcome, ProcessUsage};
use crate::App;
use crate::limit_names::limit_names;
use crate::seats::EvictionKind;

/// The page. Its length depends on the number of policies, not on what was asked.
pub(crate) async fn page<S: Store>(app: &App<S>) -> String {
    let (plan, usage) = (app.limiter().plan(), app.usage().await);
    let mut text = MetricText::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.family("tidegate_build_info", "gauge", "Which program this is.").sample(&version, 1);
    decisions(app, &plan, &mut text);
    policies(&plan, &mut text);
    store(app, &usage, &mut text);
    configuration(app, &mut text);
    connections(app, &mut text);
    traces(app, &mut text);
    app.metric_source()
        .into_iter()
        .flat_map(|it| it.families(&plan))
        .for_each(|it| write(&it, &mut text));
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
        "Requests, by what each policy that was asked said about them and by who decided.",
    );
    for counters in &counters {
        for (outcome, source) in each_kind() {
            // The usual two are there from the beginning, so that a rate has somewhere to start.
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
        "Denied requests of clients that had been told to wait and came back too early; about, \
         since not every client is remembered.",
    );
    for counters in &counters {
        family.sample(&[("policy", &counters.name)], counters.early());
    }
    let mut family = text.family(
        "tidegate_ad_hoc_decisions_total",
        "counter",
        "Requests that brought their limit along, such as CL.THROTTLE, by outcome and who decided.",
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
        "Requests that no policy was about.",
        metrics.unmatched(),
    );
    refused(app, text);
    text.histogram(
        "tidegate_decision_seconds",
        "How long a decision took, of one in sixteen drawn by chance; the mean of those made together.",
        &metrics.latency(),
    );
}

fn refused<S: Store>(app: &App<S>, text: &mut MetricText) {
    let mut family = text.family(
        "tidegate_refused_total",
        "counter",
        "Requests that got no decision, by the kind of their listener and by why.",
    );
    for (listener, reason, count) in app.metrics().refused().samples() {
        family.sample(&[("listener", listener), ("reason", reason)], count);
    }
}

fn each_kind() -> impl Iterator<Item = (MetricOutcome, DecisionSource)> {
    MetricOutcome::ALL
        .into_iter()
        .flat_map(|it| DecisionSource::ALL.iter().map(move |source| (it, *source)))
}

fn policies(plan: &Plan, text: &mut MetricText) {
    let mut family = text.family(
        "tidegate_policy_limit",
        "gauge",
        "What each limit of a policy holds, apart from tiers and overrides.",
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
        "How each policy is meant: obeyed or watched, and what it does without the store.",
    );
    for policy in plan.policies() {
        let (mode, falls) = (policy.mode().name(), policy.on_store_error().name());
        family.sample(&[("policy", policy.name()), ("mode", mode), ("on_store_error", falls)], 1);
    }
    let overrides: usize = plan.policies().iter().map(PlannedPolicy::override_count).sum();
    text.single("tidegate_overrides", "gauge", "Keys that have limits of their own.", overrides);
}

fn store<S: Store>(app: &App<S>, usage: &StoreUsage, text: &mut MetricText) {
    let report = app.limiter().store_report();
    text.histogram(
        "tidegate_store_seconds",
        "How long a store at the other end of a wire took to answer; what got no answer in time is \
         here with the time that it waited.",
        &report.latency,
    );
    let mut family = text.family(
        "tidegate_store_errors_total",
        "counter",
        "Decisions that the store could not make, by why.",
    );
    for (kind, count) in &report.errors {
        family.sample(&[("kind", kind.name())], count);
    }
    text.single(
        "tidegate_store_breaker_open",
        "gauge",
        "Whether the store is not asked at the moment, since it did not answer.",
        u8::from(!report.is_available),
    );
    text.optional("tidegate_keys", "gauge", "Keys in the store.", usage.keys);
    text.optional("tidegate_max_keys", "gauge", "Keys that the store may hold.", usage.max_keys);
    if let Some(all) = usage.overflowed {
        overflowed(app, all, text);
    }
    text.optional(
        "tidegate_store_memory_bytes",
        "gauge",
        "Memory of the counters, or of a store that is a process of its own.",
        usage.bytes,
    );
    text.optional(
        "tidegate_store_max_memory_bytes",
        "gauge",
        "What that memory may grow to.",
        usage.max_bytes,
    );
    text.optional(
        "tidegate_store_may_evict",
        "gauge",
        "Whether the store drops counters when its memory is full.",
        usage.may_evict.map(u64::from),
    );
}

/// By policy. What is left came with requests.
fn overflowed<S: Store>(app: &App<S>, all: u64, text: &mut MetricText) {
    let mut family = text.family(
        "tidegate_overflowed_total",
        "counter",
        "Charges of new keys that shared a counter because there was no room for them, by policy; \
         of none, if their limit came with the request.",
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
        "Changes of the configuration, by what became of them.",
    );
    family.sample(&[("result", "done")], done);
    family.sample(&[("result", "refused")], refused);
    text.single(
        "tidegate_config_refused",
        "gauge",
        "Whether the configuration that would be in use was refused.",
        u8::from(app.reload_problem().is_some()),
    );
    text.single(
        "tidegate_amendments",
        "gauge",
        "Overrides and modes that were set while the server runs.",
        app.amendments().len(),
    );
}

fn connections<S: Store>(app: &App<S>, text: &mut MetricText) {
    let rooms = app.seat_pools();
    if rooms.is_empty() {
        return;
    }
    let mut family = text.family(
        "tidegate_connections",
        "gauge",
        "Open connections, by the address that they came to.",
    );
    for (listener, room) in &rooms {
        family.sample(&[("listener", listener)], room.taken());
    }
    let mut family = text.family(
        "tidegate_connections_made_way_total",
        "counter",
        "Connections that were closed because others found no room, by what they were doing.",
    );
    for (listener, room) in &rooms {
        for how in EvictionKind::ALL {
            let labels = [("listener", &**listener), ("state", how.name())];
            family.sample(&labels, room.evictions(how));
        }
    }
    let mut family = text.family(
        "tidegate_connections_refused_total",
        "counter",
        "Connections that were closed on arrival: all seats were taken, and too many waited for one.",
    );
    for (listener, room) in &rooms {
        family.sample(&[("listener", listener)], room.refused());
    }
}

fn traces<S: Store>(app: &App<S>, text: &mut MetricText) {
    let Some(tracer) = app.tracer() else { return };
    let counts = tracer.counts();
    let mut family = text.family(
        "tidegate_spans_total",
        "counter",
        "Traced requests: a collector has them, there was no room for them, or they were sent and \
         no collector took them.",
    );
    for (result, count) in
        [("exported", &counts.exported), ("dropped", &counts.dropped), ("lost", &counts.lost)]
    {
        family.sample(&[("result", result)], count.load(Ordering::Relaxed));
    }
}

/// Under the names that all programs use in Prometheus.
fn process<S: Store>(app: &App<S>, text: &mut MetricText) {
    let process = ProcessUsage::now();
    text.optional(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of this process.",
        process.resident_bytes,
    );
    text.optional(
        "process_cpu_seconds_total",
        "counter",
        "Processor time of this process.",
        process.cpu_nanos.map(ExactSeconds),
    );
    text.optional("process_open_fds", "gauge", "Open file descriptors.", process.open_fds);
    text.optional("process_max_fds", "gauge", "Allowed file descriptors.", process.max_fds);
    text.single(
        "process_start_time_seconds",
        "gauge",
        "When this process began.",
        app.metrics().started().as_micros() / 1_000_000,
    );
}
