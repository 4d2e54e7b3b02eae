//! Tables for a paper: LaTeX with `booktabs`, the best of each metric in bold.

use std::fmt::Write as _;

use sandtable_core::frame::{ColumnKind, Frame, parts};
use sandtable_results::metric::{Better, METRICS};

use crate::Gathered;

/// Characters of a table, in small type, that fit into a column of a page of two columns (3.3 in), and into both (7 in).
const COLUMN: usize = 54;
const BOTH: usize = 114;

/// Blanks between columns, in characters.
const BETWEEN: usize = 2;

/// Words longer than this are broken into lines.
const LONG: usize = 32;

/// No column of names is made narrower than this to leave room for what they name.
const NARROWEST: usize = 8;

/// The width of a character of small type, in points.
const CHARACTER: f64 = 4.2;

/// Lines that fit on a page: longer tables come in parts.
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

/// A column of a table.
struct Shown {
    /// Where it stands in the rows.
    at: usize,
    head: String,
    /// As LaTeX has it.
    align: String,
    /// In characters.
    width: usize,
    /// Characters of its longest cell.
    widest: usize,
    /// Lines of its longest cell.
    lines: usize,
}

impl Shown {
    /// Breaks its cells into lines of so many characters.
    fn narrow(&mut self, width: usize) {
        self.align = format!("p{{{:.0}pt}}", width as f64 * CHARACTER);
        self.width = width;
        self.lines = self.widest.div_ceil(width.max(1)).max(1);
    }
}

/// The columns of a table; what each row would say of the point of the sweep, where all say the same, is for the caption.
fn columns(frame: &Frame) -> (Vec<Shown>, Option<String>) {
    let rows: Vec<Vec<String>> = frame.texts().map(|row| row.into_iter().map(|(text, _)| text).collect()).collect();
    let shown: Vec<(&str, ColumnKind)> = frame.shown().collect();
    let (mut all, mut point) = (Vec::new(), None);
    for (at, (head, (name, kind))) in frame.heads().into_iter().zip(shown).enumerate() {
        let texts = || rows.iter().filter_map(|row| row.get(at));
        let first = texts().next();
        if name == "variant" && texts().all(|text| Some(text) == first) {
            point = first.filter(|text| !text.is_empty()).cloned();
            continue;
        }
        let widest = texts().map(|text| text.chars().count()).max().unwrap_or(0);
        let is_long = kind == ColumnKind::Words && widest > LONG;
        let width = widest.max(head.chars().count());
        let align = if kind == ColumnKind::Words { "l".into() } else { "r".into() };
        let mut shown = Shown { at, head: escaped(&head), align, width, widest, lines: 1 };
        if is_long {
            shown.narrow(LONG);
        }
        all.push(shown);
    }
    (all, point)
}

/// A table that fits on pages of two columns: columns that do not fit beside each other come below, each time after what their
/// rows are called, and rows that do not fit on a page come in another part, since no table breaks over it.
fn table(out: &mut String, frame: &Frame, caption: &str, label: &str) {
    let rows = marked(frame);
    let (mut columns, point) = columns(frame);
    let caption = point.map_or(caption.to_string(), |point| format!("{caption} At {point}."));
    let names = columns.iter().take_while(|column| column.at < frame.names()).count();
    let sum = |columns: &[Shown]| columns.iter().map(|column| column.width + BETWEEN).sum::<usize>();
    let is_wide = sum(&columns) > COLUMN + BETWEEN;
    if sum(&columns) > BOTH + BETWEEN {
        // Each part has all names of its rows, and room for others.
        while sum(&columns[..names]) > BOTH / 2
            && let Some(widest) = columns[..names].iter_mut().max_by_key(|column| column.width)
            && widest.width > NARROWEST
        {
            widest.narrow(widest.width - 1);
        }
    }
    let widths: Vec<usize> = columns.iter().map(|column| column.width).collect();
    let below = parts(&widths, names, if is_wide { BOTH } else { COLUMN });
    let lines = columns.iter().map(|column| column.lines).max().unwrap_or(1);
    let pages = rows.len().div_ceil((PAGE / below.len().max(1) / lines).max(1)).max(1);
    // Of alike length: no last part of two rows.
    let each = rows.len().div_ceil(pages).max(1);
    let mut rows = rows.chunks(each);
    for page in 1..=pages {
        let caption = if pages == 1 { caption.clone() } else { format!("{caption} Part {page} of {pages}.") };
        let label = if page == 1 { label.to_string() } else { format!("{label}-{page}") };
        let star = if is_wide { "*" } else { "" };
        let _ = write!(
            out,
            "\n\\begin{{table{star}}}\n  \\centering\n  \\footnotesize\n  \\setlength{{\\tabcolsep}}{{3pt}}\n  \\caption{{{}}}\n  \\label{{tab:{label}}}\n",
            escaped(&caption)
        );
        let rows = rows.next().unwrap_or_default();
        for (at, part) in below.iter().enumerate() {
            out.push_str(if at > 0 { "\n  \\medskip\n\n" } else { "" });
            tabular(out, &part.iter().map(|at| &columns[*at]).collect::<Vec<_>>(), rows);
        }
        let _ = writeln!(out, "\\end{{table{star}}}");
    }
}

/// Some columns of rows, below their heads.
fn tabular(out: &mut String, columns: &[&Shown], rows: &[Vec<String>]) {
    let align: String = columns.iter().map(|column| column.align.as_str()).collect();
    let line = |cells: Vec<&str>| format!("    {} \\\\\n", cells.join(" & "));
    let _ = write!(out, "  \\begin{{tabular}}{{{align}}}\n    \\toprule\n");
    out.push_str(&line(columns.iter().map(|column| column.head.as_str()).collect()));
    out.push_str("    \\midrule\n");
    // Words that are broken into lines are not stretched to fill them.
    let cell = |column: &&Shown, row: &[String]| match column.align.starts_with('p') {
        true => format!("{{\\raggedright {}\\par}}", breakable(&row[column.at])),
        false => row[column.at].clone(),
    };
    for row in rows {
        let cells: Vec<String> = columns.iter().map(|column| cell(column, row)).collect();
        out.push_str(&line(cells.iter().map(String::as_str).collect()));
    }
    out.push_str("    \\bottomrule\n  \\end{tabular}\n");
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

/// An escaped text that may be broken where paths and values have no blanks.
fn breakable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(c);
        let ends = match c {
            '\\' => chars.next().is_some_and(|sign| {
                out.push(sign);
                matches!(sign, '_' | '{')
            }),
            '/' | '=' | ',' | '.' | ':' => true,
            _ => false,
        };
        if ends && chars.as_str().starts_with(|next: char| next != ' ' && next != '\\') {
            out.push_str("\\allowbreak{}");
        }
    }
    out
}

/// A text that means nothing else in LaTeX.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let begins = matches!(std::mem::replace(&mut before, c), ' ' | '(');
        match c {
            // A number below 0, and no hyphen.
            '-' if begins && chars.peek().is_some_and(char::is_ascii_digit) => out.push_str("$-$"),
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
        assert_eq!(escaped("-1.5 (-2 to 3), a-4"), "$-$1.5 ($-$2 to 3), a-4");
        // Alone at its point: it is best of nothing.
        assert_eq!(rows[3], "a\\_b & 1.2 & 90.0 s & 75.0 \\% \\\\");
    }

    #[test]
    fn a_table_that_is_wider_than_a_page_comes_in_parts_below_each_other() {
        let metrics: Vec<Column> = (0..30).map(|at| Column::count(format!("metric_{at}"))).collect();
        let mut frame = Frame::new([&[Column::words("policy"), Column::words("variant")][..], &metrics].concat());
        for policy in ["fifo", "las"] {
            let numbers = (0..30).map(|at| sandtable_core::frame::Value::from(at as u64));
            frame.push([policy.into(), "load=0.9".into()].into_iter().chain(numbers).collect::<Vec<_>>());
        }
        let out = tex_table(&frame, "All.", "all");
        assert!(out.contains("\\caption{All. At load=0.9.}") && !out.contains("variant"), "{out}");
        assert_eq!((out.matches("\\begin{table*}").count(), out.matches("\\begin{tabular}").count()), (1, 4), "{out}");
        assert_eq!(out.matches("fifo & ").count(), 4);
        assert!(out.lines().all(|line| line.len() < 150), "{out}");
        // Words that are longer than a column are broken.
        let mut frame = Frame::new([Column::words("policy"), Column::words("verdict")]);
        frame.push(["fifo".into(), "word ".repeat(20).into()]);
        let out = tex_table(&frame, "All.", "all");
        assert!(out.contains("\\begin{table}\n") && out.contains("\\begin{tabular}{lp{134pt}}"), "{out}");
        assert!(out.contains("fifo & {\\raggedright word word"), "{out}");
        assert_eq!(
            breakable("a\\_b=1.5 x, \\textbf{c/d}"),
            "a\\_\\allowbreak{}b=\\allowbreak{}1.\\allowbreak{}5 x, \\textbf{c/\\allowbreak{}d}"
        );
        // All names of the rows are in each part.
        let names = [Column::words("policy"), Column::words("queue")];
        let mut frame = Frame::new([&names[..], &metrics].concat());
        let numbers = (0..30).map(|at| sandtable_core::frame::Value::from(at as u64));
        frame.push(
            ["policy-".repeat(6).into(), "queue-".repeat(6).into()].into_iter().chain(numbers).collect::<Vec<_>>(),
        );
        let out = tex_table(&frame, "All.", "all");
        assert!(out.matches("\\begin{tabular}").count() > 3, "{out}");
        assert_eq!(out.matches("\\begin{tabular}").count(), out.matches("policy & queue & ").count(), "{out}");
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
