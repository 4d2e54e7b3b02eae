//! Tables as people read them: aligned columns, as wide as they are or as a terminal is.

use std::sync::atomic::{AtomicUsize, Ordering};

use comfy_table::{CellAlignment, Table, presets};

use super::{ColumnKind, Frame};

/// Blanks between columns.
const BETWEEN: usize = 2;

static WIDTH: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Has the text of tables fit so many characters from now on, as those of a terminal. A table that is wider is written in parts below each other, each of which
/// begins with what its rows are called.
pub fn fit(width: usize) {
    WIDTH.store(width, Ordering::Relaxed);
}

pub(super) fn width() -> usize {
    WIDTH.load(Ordering::Relaxed)
}

impl Frame {
    /// Aligned columns, with their heads or without.
    pub(super) fn aligned(&self, headed: bool, width: usize) -> String {
        let mut rows: Vec<Vec<String>> = headed.then(|| self.heads()).into_iter().collect();
        rows.extend(self.texts().map(|row| row.into_iter().map(|(text, _)| text).collect()));
        let kinds: Vec<ColumnKind> = self.shown().map(|(_, kind)| kind).collect();
        let all: Vec<usize> = (0..kinds.len()).collect();
        let whole = table(&rows, &kinds, &all);
        let widths: Vec<usize> = whole.column_max_content_widths().into_iter().map(usize::from).collect();
        let parts = parts(&widths, self.names(), width);
        match parts.as_slice() {
            [] | [_] => lines(&whole),
            parts => parts.iter().map(|part| lines(&table(&rows, &kinds, part))).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// The columns of each part of a table that is to be so wide, of columns of these widths, in characters: the first of each are the names of its rows, but at most half
/// of the width.
pub fn parts(widths: &[usize], names: usize, width: usize) -> Vec<Vec<usize>> {
    let sum =
        |columns: &[usize]| columns.iter().map(|at| widths.get(*at).map_or(0, |own| own + BETWEEN)).sum::<usize>();
    let mut heads: Vec<usize> = (0..names).collect();
    while heads.len() > 1 && sum(&heads) > width / 2 {
        heads.pop();
    }
    let mut parts: Vec<Vec<usize>> = vec![heads.clone()];
    for (at, own) in widths.iter().enumerate().skip(heads.len()) {
        let is_full = |part: &Vec<usize>| part.len() > heads.len() && sum(part).saturating_add(*own) > width;
        match parts.last_mut().filter(|part| !is_full(part)) {
            Some(part) => part.push(at),
            None => parts.push([heads.as_slice(), &[at]].concat()),
        }
    }
    parts
}

fn table(rows: &[Vec<String>], kinds: &[ColumnKind], columns: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in rows {
        table.add_row(columns.iter().filter_map(|at| row.get(*at)));
    }
    for (place, at) in columns.iter().enumerate() {
        if let Some(shown) = table.column_mut(place).filter(|_| kinds[*at] != ColumnKind::Words) {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The lines without the padding at their edges.
fn lines(table: &Table) -> String {
    table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_string() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_is_written_in_parts() {
        let counts = ["one", "two", "three", "four"].map(Column::count);
        let mut table = Frame::new([&[Column::words("policy"), Column::words("at")][..], &counts].concat());
        table.push(["fifo".into(), "load=0.9".into(), 1u64.into(), 2u64.into(), 3u64.into(), 4u64.into()]);
        let whole = "policy  at        one  two  three  four\nfifo    load=0.9    1    2      3     4\n";
        assert_eq!(table.aligned(true, 39), whole);
        assert_eq!(
            table.aligned(true, 38),
            "policy  at        one  two  three\nfifo    load=0.9    1    2      3\n\npolicy  at        four\nfifo    load=0.9     4\n"
        );
        // Names that leave no room for what they name: the first of them is enough.
        assert_eq!(
            table.aligned(true, 20),
            "policy  at\nfifo    load=0.9\n\npolicy  one  two\nfifo      1    2\n\npolicy  three  four\nfifo        3     4\n"
        );
        assert!(table.aligned(true, 1).lines().count() == 14);
        assert_eq!(Frame::new([]).aligned(true, 1), Frame::new([]).aligned(true, 100));
    }
}
