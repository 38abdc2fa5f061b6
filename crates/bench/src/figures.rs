//! Records what a run has measured: `--record` writes docs/figures/NAME.json, and the documents take
//! their figures from there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Serialize;

/// Where the documents look for figures.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures");

/// The figures of a run, in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Figure>);

#[derive(Debug)]
struct Figure {
    id: String,
    unit: &'static str,
    values: FigureRange,
    /// By the peer.
    ratios: BTreeMap<&'static str, FigureRange>,
}

impl Figures {
    /// Adds a measurement, and its ratio to each peer. Measurements with the same id become a range.
    pub(crate) fn add(
        &mut self,
        id: impl Into<String>,
        unit: &'static str,
        value: f64,
        ratios: impl IntoIterator<Item = (&'static str, f64)>,
    ) {
        let id = id.into();
        let place = self.0.iter().position(|figure| figure.id == id).unwrap_or(self.0.len());
        if place == self.0.len() {
            let (values, ratios) = (FigureRange::default(), BTreeMap::new());
            self.0.push(Figure { id, unit, values, ratios });
        }
        if let Some(figure) = self.0.get_mut(place) {
            figure.values.add(value);
            for (peer, ratio) in ratios {
                figure.ratios.entry(peer).or_default().add(ratio);
            }
        }
    }

    /// Writes the figures of a benchmark. The file describes one run: what this run has not measured
    /// is gone from it.
    pub(crate) fn write(&self, benchmark: &str, folder: &Path) -> anyhow::Result<()> {
        ensure!(!self.0.is_empty(), "{benchmark}: there is nothing to record");
        let path = folder.join(format!("{benchmark}.json"));
        let text = self.text(&command(std::env::args().skip(1)), &today()?, &machine()?)?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        eprintln!("{}", path.display());
        Ok(())
    }

    /// A line for each figure, so that a difference shows what has changed.
    fn text(&self, command: &str, date: &str, machine: &str) -> anyhow::Result<String> {
        let rows = self.0.iter().map(|figure| {
            let ratios = figure.ratios.iter().map(|(peer, ratio)| (*peer, ratio.text()));
            let row = FigureRow {
                id: &figure.id,
                value: figure.values.text(),
                unit: figure.unit,
                ratios: ratios.collect(),
            };
            Ok(format!("    {}", serde_json::to_string(&row)?))
        });
        let rows = rows.collect::<anyhow::Result<Vec<_>>>()?.join(",\n");
        let [command, date, machine] =
            [command, date, machine].map(|text| serde_json::Value::from(text).to_string());
        Ok(format!(
            "{{\n  \"command\": {command},\n  \"date\": {date},\n  \"machine\": {machine},\n  \
             \"figures\": [\n{rows}\n  ]\n}}\n"
        ))
    }
}

/// A figure in the file.
#[derive(Serialize)]
struct FigureRow<'a> {
    id: &'a str,
    value: String,
    unit: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ratios: BTreeMap<&'a str, String>,
}

/// The lowest and the highest of some measurements.
#[derive(Clone, Copy, Debug)]
struct FigureRange {
    low: f64,
    high: f64,
}

impl Default for FigureRange {
    fn default() -> Self {
        Self { low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl FigureRange {
    fn add(&mut self, value: f64) {
        (self.low, self.high) = (self.low.min(value), self.high.max(value));
    }

    fn text(self) -> String {
        let (low, high) = (number(self.low), number(self.high));
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// A number with as many digits as a measurement deserves: three, but none after the point from ten
/// on, and at most two below.
fn number(value: f64) -> String {
    if value < 10.0 {
        return format!("{value:.2}");
    }
    let (mut whole, mut scale) = (value.round() as u64, 1);
    while whole / scale >= 1_000 {
        scale *= 10;
    }
    whole = (whole + scale / 2) / scale * scale;
    let digits = whole.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The command that repeats the run.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let arguments = arguments.filter(|argument| !argument.starts_with("--record"));
    ["./scripts/bench".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

fn today() -> anyhow::Result<String> {
    let output = Command::new("date").args(["-u", "+%F"]).output().context("date")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The number of cores and the processor's model, and nothing that tells one machine from another.
fn machine() -> anyhow::Result<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let models = info.lines().filter(|line| line.starts_with("model name"));
    let model = models.clone().next().and_then(|line| line.split_once(": ")).context("a model")?.1;
    Ok(format!("{} cores, {}", models.count(), model.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_with_the_same_id_become_a_range() {
        let mut figures = Figures::default();
        figures.add("check", "per second", 127_400.0, [("bare", 1.041)]);
        figures.add("memory", "bytes", 45.2, []);
        figures.add("check", "per second", 101_600.0, [("bare", 0.888), ("crab", 27.4)]);
        let text = figures.text("./scripts/bench http", "2026-01-02", "2 cores, X").unwrap();
        assert_eq!(
            text,
            r#"{
  "command": "./scripts/bench http",
  "date": "2026-01-02",
  "machine": "2 cores, X",
  "figures": [
    {"id":"check","value":"102,000 to 127,000","unit":"per second","ratios":{"bare":"0.89 to 1.04","crab":"27"}},
    {"id":"memory","value":"45","unit":"bytes"}
  ]
}
"#
        );
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn numbers_have_at_most_three_digits_that_mean_something() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.894, "0.89"),
            (9.5, "9.50"),
            (27.4, "27"),
            (999.7, "1,000"),
            (1_149.0, "1,150"),
            (2_196_432.0, "2,200,000"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn the_command_is_the_one_that_repeats_the_run() {
        let arguments = ["far", "--record=/tmp/x", "--seconds", "4"].map(str::to_owned);
        assert_eq!(command(arguments.into_iter()), "./scripts/bench far --seconds 4");
    }

    #[test]
    fn a_file_is_named_after_its_benchmark() {
        let folder = std::env::temp_dir().join(format!("figures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut figures = Figures::default();
        assert!(figures.write("http", &folder).is_err(), "nothing was measured");
        figures.add("check", "per second", 1.0, []);
        figures.write("http", &folder).unwrap();
        let text = std::fs::read_to_string(folder.join("http.json")).unwrap();
        assert!(text.contains(r#""machine": ""#) && text.contains(" cores, "), "{text}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
