//! Prints a table that a person can read and paste.

/// Aligned columns with a header, as Markdown. Nothing if there are no rows.
pub(crate) fn print(title: &str, header: &[String], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    println!("\n## {title}\n");
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.chain([&header[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        println!("| {} |", padded.collect::<Vec<_>>().join(" | "));
    };
    line(header);
    let dashes = widths.iter().enumerate().map(|(column, width)| match column {
        0 => "-".repeat(*width),
        _ => format!("{}:", "-".repeat(width.saturating_sub(1))),
    });
    line(&dashes.collect::<Vec<_>>());
    rows.iter().for_each(|row| line(row));
}
