//! Metrics that another crate adds to the metrics page.

use super::text::MetricText;

/// A metric, and all its samples.
#[derive(Clone, Debug)]
pub struct MetricFamily {
    /// The name of the metric.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// The meaning of the metric, in a sentence.
    pub help: &'static str,
    /// Labels and values. Labels must not contain anything from a request.
    pub samples: Vec<(Vec<(&'static str, String)>, u64)>,
}

pub(super) fn write(family: &MetricFamily, text: &mut MetricText) {
    let mut samples = text.family(family.name, family.kind, family.help);
    for (labels, value) in &family.samples {
        let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        samples.sample(&labels, value);
    }
}
