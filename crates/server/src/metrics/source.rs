//! Metrics of others, for the same page.

use std::fmt;
use std::sync::Arc;

use tidegate::Plan;

use super::text::MetricText;

/// Somebody who counts, such as the gateway.
pub trait MetricSource: fmt::Debug + Send + Sync {
    /// What is counted, as it is now and under this plan.
    fn families(&self, plan: &Arc<Plan>) -> Vec<MetricFamily>;
}

/// A metric, and all its samples.
#[derive(Clone, Debug)]
pub struct MetricFamily {
    /// Its name.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Labels and values. As everywhere, nothing of a request is in them.
    pub samples: Vec<(Vec<(&'static str, String)>, u64)>,
}

pub(super) fn write(family: &MetricFamily, text: &mut MetricText) {
    let mut samples = text.family(family.name, family.kind, family.help);
    for (labels, value) in &family.samples {
        let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        samples.sample(&labels, value);
    }
}
