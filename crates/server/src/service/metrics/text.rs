//! The Prometheus text format.

use std::fmt::{Display, Write as _};

use tidegate::{Histogram, HistogramSnapshot};

/// A page of metrics, to which families of samples are appended.
#[derive(Debug, Default)]
pub(super) struct MetricText(String);

impl MetricText {
    /// Begins a family; all its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) -> FamilyWriter<'_> {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        FamilyWriter { text: &mut self.0, name: name.to_owned() }
    }

    /// A family of one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The same, if there is a value.
    pub(super) fn optional(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        value: Option<impl Display>,
    ) {
        if let Some(value) = value {
            self.single(name, kind, help, value);
        }
    }

    /// A family of one histogram.
    pub(super) fn histogram(&mut self, name: &str, help: &str, durations: &HistogramSnapshot) {
        self.family(name, "histogram", help);
        let mut below = 0_u64;
        for (bound, count) in Histogram::BOUNDS.iter().zip(&durations.counts) {
            below = below.saturating_add(*count);
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{}\"}} {below}", ExactSeconds(*bound));
        }
        let count = durations.count();
        let _ = writeln!(self.0, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "{name}_sum {}", ExactSeconds(durations.sum_nanos));
        let _ = writeln!(self.0, "{name}_count {count}");
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// A family whose samples are being written.
pub(super) struct FamilyWriter<'t> {
    text: &'t mut String,
    name: String,
}

impl FamilyWriter<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", EscapedLabel(value));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// Nanoseconds as seconds, exactly: without a float, and without trailing zeros.
pub(super) struct ExactSeconds(pub(super) u64);

impl Display for ExactSeconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let digits = format!("{rest:09}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            digits => write!(f, "{whole}.{digits}"),
        }
    }
}

struct EscapedLabel<'a>(&'a str);

impl Display for EscapedLabel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_escaped_and_seconds_exact() {
        let mut text = MetricText::default();
        let mut family = text.family("a_total", "counter", "Things.");
        family.sample(&[], 1);
        family.sample(&[("policy", "a\"b\\c\nd"), ("source", "x")], 2);
        text.optional("b", "gauge", "None.", None::<u64>);
        text.single("c_seconds", "gauge", "Time.", ExactSeconds(1_500_000));
        let expected = "\
# HELP a_total Things.
# TYPE a_total counter
a_total 1
a_total{policy=\"a\\\"b\\\\c\\nd\",source=\"x\"} 2
# HELP c_seconds Time.
# TYPE c_seconds gauge
c_seconds 0.0015
";
        assert_eq!(text.into_string(), expected);
        assert_eq!(ExactSeconds(2_000_000_000).to_string(), "2");
        assert_eq!(ExactSeconds(250).to_string(), "0.00000025");
    }
}
