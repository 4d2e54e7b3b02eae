//! Tables for a paper: LaTeX with `booktabs`, the best of each metric in bold.

use std::fmt::Write as _;

use sandtable_core::frame::{ColumnKind, Frame};
use sandtable_results::metric::{Better, METRICS};

use crate::Gathered;

/// Tables of more columns than this are as wide as a page of two columns.
const NARROW: usize = 6;

/// Rows that fit on a page: longer tables come in parts.
const PAGE: usize = 45;

/// What a preamble needs.
const HEAD: &str = "% Made by `sandtable`. In the preamble: \\usepackage{booktabs}\n";

/// The tables of claims and of metrics, one after the other; each is to be taken from the file by itself, or the file is included whole.
pub fn tex(gathered: &Gathered) -> String {
    let mut out = String::from(HEAD);
    if !gathered.claims.is_empty() {
        let claims = sandtable_results::claim::table(&gathered.claims);
        table(&mut out, &claims, &format!("{}: claims, as measured.", gathered.title), "claims");
    }
    let caption = format!("{}: means over seeds, with 95\\,% intervals.", gathered.title);
    table(&mut out, &gathered.metrics.table, &caption, "metrics");
    if !gathered.queues.table.is_empty() {
        table(&mut out, &gathered.queues.table, &format!("{}: queues.", gathered.title), "queues");
    }
    out
}

/// One table as a file of its own.
pub fn tex_table(frame: &Frame, caption: &str, label: &str) -> String {
    let mut out = String::from(HEAD);
    table(&mut out, frame, caption, label);
    out
}

/// A table in as many parts as it takes pages, since none breaks over a page of two columns.
fn table(out: &mut String, frame: &Frame, caption: &str, label: &str) {
    let rows = marked(frame);
    let parts = rows.len().div_ceil(PAGE).max(1);
    // Of alike length: no last part of two rows.
    let each = rows.len().div_ceil(parts).max(1);
    let mut rows = rows.chunks(each);
    for part in 1..=parts {
        let caption = if parts == 1 { caption.to_string() } else { format!("{caption} Part {part} of {parts}.") };
        let label = if part == 1 { label.to_string() } else { format!("{label}-{part}") };
        float(out, frame, rows.next().unwrap_or_default(), &caption, &label);
    }
}

/// Rows below their heads.
fn float(out: &mut String, frame: &Frame, rows: &[Vec<String>], caption: &str, label: &str) {
    let shown: Vec<ColumnKind> = frame.shown().map(|(_, kind)| kind).collect();
    let star = if shown.len() > NARROW { "*" } else { "" };
    let align: String = shown.iter().map(|kind| if *kind == ColumnKind::Words { 'l' } else { 'r' }).collect();
    let line = |cells: &[String]| format!("    {} \\\\\n", cells.join(" & "));
    let _ = write!(
        out,
        "\n\\begin{{table{star}}}\n  \\centering\n  \\caption{{{}}}\n  \\label{{tab:{label}}}\n  \\begin{{tabular}}{{{align}}}\n    \\toprule\n",
        escaped(caption)
    );
    out.push_str(&line(&frame.heads().iter().map(|head| escaped(head)).collect::<Vec<_>>()));
    out.push_str("    \\midrule\n");
    rows.iter().for_each(|row| out.push_str(&line(row)));
    let _ = write!(out, "    \\bottomrule\n  \\end{{tabular}}\n\\end{{table{star}}}\n");
}

/// The rows of a table as LaTeX, the best of each metric in bold.
fn marked(frame: &Frame) -> Vec<Vec<String>> {
    let words = frame.names();
    let shown: Vec<(&str, ColumnKind)> = frame.shown().collect();
    let rows: Vec<Vec<(String, Option<f64>)>> = frame.texts().collect();
    // Those of one point of the sweep are compared: all words but the policy's label.
    let point = |row: &[(String, Option<f64>)]| {
        let named = row.iter().zip(&shown).take(words).filter(|(_, (name, _))| *name != "policy");
        named.map(|((text, _), _)| text.clone()).collect::<Vec<_>>()
    };
    // A policy with results of fewer seeds had other jobs: it is no better than the others.
    let seeds: Vec<f64> = frame
        .columns()
        .find(|(name, ..)| *name == "seeds")
        .map_or_else(Vec::new, |(_, _, values)| values.iter().map(|value| value.number().unwrap_or(0.0)).collect());
    let beside = |row: &[(String, Option<f64>)]| {
        let all: Vec<usize> = (0..rows.len()).filter(|other| point(&rows[*other]) == point(row)).collect();
        let of = |at: &usize| seeds.get(*at).copied().unwrap_or(0.0);
        let most = all.iter().map(of).fold(0.0, f64::max);
        all.into_iter().filter(|at| of(at) == most).collect::<Vec<usize>>()
    };
    let of = |row: &Vec<(String, Option<f64>)>| {
        let beside = beside(row);
        let cell = |(at, (text, number)): (usize, &(String, Option<f64>))| {
            let better = METRICS
                .iter()
                .find(|metric| metric.name == shown[at].0)
                .map_or(Better::Neither, |metric| metric.better);
            let others = beside.iter().filter_map(|other| rows[*other][at].1);
            let best = match better {
                Better::Lower => others.reduce(f64::min),
                Better::Higher => others.reduce(f64::max),
                Better::Neither => None,
            };
            // What reads the same is as good.
            let is_best = number.is_some()
                && beside.len() > 1
                && beside.iter().any(|other| rows[*other][at].1 == best && rows[*other][at].0 == *text)
                && beside.iter().any(|other| std::ptr::eq(&rows[*other], row));
            let text = escaped(text);
            if is_best { format!("\\textbf{{{text}}}") } else { text }
        };
        row.iter().enumerate().map(cell).collect()
    };
    rows.iter().map(of).collect()
}

/// A text that means nothing else in LaTeX.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A thin space stands before units, as it was written.
            '\\' if chars.peek() == Some(&',') => {
                chars.next();
                out.push_str("\\,");
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '±' => out.push_str("$\\pm$"),
            'ρ' => out.push_str("$\\rho$"),
            'σ' => out.push_str("$\\sigma$"),
            'µ' | 'μ' => out.push_str("$\\mu$"),
            '×' => out.push_str("$\\times$"),
            '≤' => out.push_str("$\\leq$"),
            '≥' => out.push_str("$\\geq$"),
            '−' => out.push_str("$-$"),
            '–' => out.push_str("--"),
            '…' => out.push_str("\\ldots{}"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_core::display::Unit;
    use sandtable_core::frame::Column;

    #[test]
    fn the_best_of_each_point_is_in_bold_and_nothing_is_read_as_a_command() {
        let columns = [
            Column::words("policy"),
            Column::words("load"),
            Column::of("jct_mean_s", Unit::Seconds).head("JCT mean"),
            Column::of("utilisation", Unit::Share).head("utilisation"),
        ];
        let mut frame = Frame::new(columns);
        frame.push(["a_b".into(), "0.8".into(), 60.0.into(), 0.5.into()]);
        frame.push(["c&d".into(), "0.8".into(), 30.0.into(), 0.75.into()]);
        frame.push(["a_b".into(), "1.2".into(), 90.0.into(), 0.75.into()]);
        let mut out = String::new();
        table(&mut out, &frame, "50% \\input{x} of ρ", "t");
        assert!(out.contains("\\caption{50\\% \\textbackslash{}input\\{x\\} of $\\rho$}"), "{out}");
        assert!(out.contains("\\begin{tabular}{llrr}"), "{out}");
        let rows: Vec<&str> = out.lines().filter(|line| line.ends_with("\\\\")).map(str::trim).collect();
        assert_eq!(rows[1], "a\\_b & 0.8 & 60.0 s & 50.0 \\% \\\\");
        assert_eq!(rows[2], "c\\&d & 0.8 & \\textbf{30.0 s} & \\textbf{75.0 \\%} \\\\");
        // Alone at its point: it is best of nothing.
        assert_eq!(rows[3], "a\\_b & 1.2 & 90.0 s & 75.0 \\% \\\\");
    }

    #[test]
    fn a_table_longer_than_a_page_comes_in_parts_of_alike_length() {
        let mut frame = Frame::new([Column::words("policy"), Column::of("jct_mean_s", Unit::Seconds)]);
        for row in 0..100 {
            frame.push([format!("p{row}").into(), f64::from(row).into()]);
        }
        let out = tex_table(&frame, "All.", "all");
        assert_eq!(out.matches("\\begin{table}").count(), 3);
        assert!(out.contains("\\caption{All. Part 1 of 3.}") && out.contains("\\label{tab:all-3}"), "{out}");
        let rows = out.split("\\midrule").skip(1).filter_map(|part| part.split("\\bottomrule").next());
        let rows: Vec<usize> = rows.map(|part| part.matches("\\\\\n").count()).collect();
        assert_eq!(rows, [34, 34, 32]);
        // The best of all parts together.
        assert_eq!(out.matches("\\textbf").count(), 1);
        assert!(out.contains("p0 & \\textbf{"), "{out}");
    }
}
