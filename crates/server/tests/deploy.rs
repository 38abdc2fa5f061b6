//! Dashboards and rules in deploy/ refer to metrics that exist, and the rules do what they promise.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tidegate::config::PolicySource;
use tidegate::{
    Charge, MemoryStore, Promise, SettleResult, Span, Store, StoreError, StoreUsage, Verdicts,
};
use tidegate_server::{App, ListenerConfig, Server, Transport};

fn deploy(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy(path)).unwrap()
}

/// An in-memory store that reports every kind of usage that any store reports.
struct Knowing(MemoryStore);

impl Store for Knowing {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        self.0.settle(charges, deadline, out)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.reset(charge).await
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        let usage = self.0.usage().await?;
        Ok(StoreUsage { bytes: Some(1), max_bytes: Some(2), may_evict: Some(false), ..usage })
    }
}

/// The names of all samples.
async fn samples() -> BTreeSet<String> {
    let text = "policies: [{ name: a, key: [user], limits: [1/s] }]";
    let source = PolicySource::new("limits.yaml", text).unwrap();
    let app = Arc::new(App::load(&source, Knowing(MemoryStore::new())).unwrap());
    let mut server = Server::new(Arc::clone(&app), ListenerConfig::default(), NonZeroUsize::MIN);
    server.open(Transport::Http, &"127.0.0.1:0".parse().unwrap(), None).unwrap();
    let page = app.metrics_page().await;
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned);
    names.collect()
}

/// Words of an expression that are names of our metrics.
fn metrics_in(expression: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let words = expression.split(|c| !is_part(c));
    let ours = words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_"));
    // There is no gateway here; its own tests cover these.
    let ours = ours.filter(|word| !word.starts_with("tidegate_upstream_"));
    ours.map(str::to_owned).collect()
}

fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if ["expr", "query"].contains(&name.as_str()) => {
                        found.push(text.clone());
                    }
                    _ => expressions(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_dashboard_uses_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("grafana/tidegate.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let used: BTreeSet<String> = found.iter().flat_map(|it| metrics_in(it)).collect();
    let known = samples().await;
    assert!(used.len() > 15, "{used:?}");
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?} of {known:?}");
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    assert!(panels.iter().all(|panel| panel["targets"][0]["expr"].is_string()));
}

#[tokio::test]
async fn the_rules_use_metrics_that_exist_and_each_alert_is_documented_and_tested() {
    let (rules, tests) = (read("prometheus/rules.yaml"), read("prometheus/rules.test.yaml"));
    let known = samples().await;
    for metric in metrics_in(&rules) {
        assert!(known.contains(&metric), "{metric} of {known:?}");
    }
    let operations = read("../docs/operations.md");
    let alerts = |text: &str, mark: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.split_once(mark));
        let names = lines.map(|(_, rest)| rest.trim().split(',').next().unwrap().to_owned());
        names.collect()
    };
    let named = alerts(&rules, "- alert:");
    assert!(named.len() > 10, "{named:?}");
    assert_eq!(named, alerts(&tests, "alertname:"));
    for alert in &named {
        assert!(operations.contains(&format!("#### {alert}\n")), "{alert} is not documented");
        assert!(rules.contains(&format!("docs/operations.md#{}", alert.to_lowercase())));
    }
}

#[tokio::test]
async fn every_metric_is_documented() {
    let operations = read("../docs/operations.md");
    for sample in samples().await {
        let name = sample.trim_end_matches("_bucket").trim_end_matches("_count");
        let name = name.trim_end_matches("_sum");
        assert!(operations.contains(&format!("`{name}")), "{name} is not documented");
    }
}

#[test]
fn promtool_agrees_and_each_condition_fires_its_alert() {
    let Some(promtool) = tidegate_testkit::peer("promtool") else { return };
    for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "rules.test.yaml"]] {
        let output = Command::new(&promtool)
            .args(arguments)
            .current_dir(deploy("prometheus"))
            .output()
            .unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}
