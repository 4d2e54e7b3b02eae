//! Rows of text as aligned columns.

use comfy_table::{CellAlignment, Table, presets};

/// Columns under the first row's names, numbers to the right.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    rows.iter().for_each(|row| {
        table.add_row(row);
    });
    let numeric = |at: usize| {
        // A number and at most its unit: a sentence may begin with a number too.
        let is_number = |cell: &String| {
            let digit = cell.starts_with(|first: char| first.is_ascii_digit());
            cell == "-" || (digit && cell.split_whitespace().count() <= 2)
        };
        rows.iter().skip(1).filter_map(|row| row.get(at)).all(is_number)
    };
    for at in 0..rows.first().map_or(0, Vec::len) {
        if let Some(column) = table.column_mut(at)
            && numeric(at)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

/// A table without the padding at its edges.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_string() + "\n").collect()
}
