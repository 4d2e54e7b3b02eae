//! Tables for a paper: LaTeX with `booktabs`, the best of each metric in bold.

use std::fmt::Write as _;

use sandtable_core::frame::{ColumnKind, Frame};
use sandtable_results::metric::{Better, METRICS};

use crate::Gathered;

/// Tables of more columns than this are as wide as a page of two columns.
const NARROW: usize = 6;

/// The tables of claims and of metrics, one after the other; each is to be taken from the file by itself, or the file is included whole.
pub fn tex(gathered: &Gathered) -> String {
    let mut out = String::from("% Made by `sandtable report`. In the preamble: \\usepackage{booktabs}\n");
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

fn table(out: &mut String, frame: &Frame, caption: &str, label: &str) {
    let words = frame.names();
    let shown: Vec<(&str, ColumnKind)> = frame.shown().collect();
    let rows: Vec<Vec<(String, Option<f64>)>> = frame.texts().collect();
    let star = if shown.len() > NARROW { "*" } else { "" };
    let align: String = shown.iter().map(|(_, kind)| if *kind == ColumnKind::Words { 'l' } else { 'r' }).collect();
    let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
    let _ = write!(
        out,
        "\n\\begin{{table{star}}}\n  \\centering\n  \\caption{{{}}}\n  \\label{{tab:{label}}}\n  \\begin{{tabular}}{{{align}}}\n    \\toprule\n",
        escaped(caption)
    );
    out.push_str(&line(frame.heads().iter().map(|head| escaped(head)).collect()));
    out.push_str("    \\midrule\n");
    // Those of one point of the sweep are compared: all words but the first, the policy's label.
    let point = |row: &[(String, Option<f64>)]| {
        row.iter().take(words).skip(1).map(|(text, _)| text.clone()).collect::<Vec<_>>()
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
    for row in &rows {
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
                && beside.iter().any(|other| rows[*other][at].1 == best && rows[*other][at].0 == *text)
                && beside.iter().any(|other| std::ptr::eq(&rows[*other], row));
            let text = escaped(text);
            if is_best { format!("\\textbf{{{text}}}") } else { text }
        };
        out.push_str(&line(row.iter().enumerate().map(cell).collect()));
    }
    let _ = write!(out, "    \\bottomrule\n  \\end{{tabular}}\n\\end{{table{star}}}\n");
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
        assert_eq!(rows[3], "a\\_b & 1.2 & \\textbf{90.0 s} & \\textbf{75.0 \\%} \\\\");
    }
}
