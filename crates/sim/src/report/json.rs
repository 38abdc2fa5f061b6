//! Reports as JSON, for scripts.

use serde_json::{Map, Value, json};

use super::table::{CellNumber, ReportCell, ReportTable};
use super::{Chart, FindingsReport, ReportItem, ReportSection};

impl FindingsReport {
    /// The same findings with their numbers as numbers: shares from 0 to 1, times in seconds.
    pub fn json(&self) -> Value {
        let facts: Map<String, Value> =
            self.facts.iter().map(|fact| (fact.label.clone(), value(&fact.value))).collect();
        let sections: Vec<Value> = self.sections.iter().map(section).collect();
        json!({
            "title": self.title,
            "about": self.about,
            "command": self.command,
            "facts": facts,
            "sections": sections,
        })
    }
}

fn section(section: &ReportSection) -> Value {
    let (mut tables, mut charts, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for item in &section.items {
        match item {
            ReportItem::Table(found) => tables.push(table(found)),
            ReportItem::Charts(found) => charts.extend(found.iter().map(chart)),
            ReportItem::Code(text) | ReportItem::Note(text) => {
                texts.push(Value::from(text.as_str()));
            }
        }
    }
    json!({"heading": section.heading, "tables": tables, "charts": charts, "texts": texts})
}

fn table(table: &ReportTable) -> Value {
    let rows = table.rows.iter().map(|row| {
        let cells = table.columns.iter().zip(row);
        Value::Object(cells.map(|(name, cell)| (name.clone(), value(cell))).collect())
    });
    rows.collect()
}

fn chart(chart: &Chart) -> Value {
    let series: Vec<Value> = chart
        .series
        .iter()
        .map(|series| json!({"name": series.name, "points": series.points}))
        .collect();
    json!({"title": chart.title, "series": series})
}

fn value(cell: &ReportCell) -> Value {
    match cell.value {
        None => Value::from(cell.shown()),
        Some(CellNumber::Whole(count)) => Value::from(count),
        Some(CellNumber::Fraction(number)) => Value::from(number),
    }
}
