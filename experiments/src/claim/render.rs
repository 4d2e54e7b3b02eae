//! Claims in words: for the terminal, for reports, and as JSON lines.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::json;

use super::{Agreement, Claim, Measured, Surety, Verdict};
use crate::metric::percent;
use crate::spec::{ClaimSpec, FigureSpec, HoldsSpec};

/// A claim in words, a text a column.
#[derive(Clone, Serialize)]
pub struct ClaimRow {
    /// The sentence.
    pub says: String,
    /// The policies, and the values of the sweep.
    pub of: String,
    /// The metric.
    pub metric: String,
    /// What a publication prints, or `-`.
    pub published: String,
    /// What somebody's code gave, or `-`.
    pub reference: String,
    /// Whose code; empty without a reference.
    pub by: String,
    /// What is measured.
    pub measured: String,
    /// Its interval.
    pub interval: String,
    /// Independent runs.
    pub runs: usize,
    /// Our bound.
    pub bound: String,
    /// Whether it holds.
    pub verdict: String,
    /// `yes`, `no`, `inconclusive` or `unknown`.
    pub holds: &'static str,
    /// How the published figure, or the reference, compares with what is measured.
    pub agreement: String,
    /// What a reader must know of its runs: failures, gaps, repetitions.
    pub notes: Vec<String>,
}

/// The columns of a table of claims; that of references is left out where none has one.
const HEAD: [&str; 11] = [
    "claim",
    "of",
    "metric",
    "published",
    "reference",
    "measured",
    "95 % CI",
    "runs",
    "our bound",
    "verdict",
    "figure",
];

impl ClaimRow {
    /// The texts of its columns.
    fn cells(&self) -> [&str; 11] {
        [
            &self.says,
            &self.of,
            &self.metric,
            &self.published,
            &self.reference,
            &self.measured,
            &self.interval,
            "",
            &self.bound,
            &self.verdict,
            &self.agreement,
        ]
    }
}

/// The head and the rows of a table of claims.
pub(crate) fn table(rows: &[ClaimRow]) -> (Vec<String>, Vec<Vec<String>>) {
    let referenced = rows.iter().any(|row| row.reference != "-");
    let shown = |at: &usize| referenced || HEAD[*at] != "reference";
    let columns: Vec<usize> = (0..HEAD.len()).filter(shown).collect();
    let texts = |row: &ClaimRow| {
        let cells = row.cells();
        let text = |at: &usize| if HEAD[*at] == "runs" { row.runs.to_string() } else { cells[*at].to_string() };
        columns.iter().map(text).collect()
    };
    (columns.iter().map(|at| HEAD[*at].to_string()).collect(), rows.iter().map(texts).collect())
}

/// A figure for people: a change in percent, anything else as it is.
fn person(spec: &ClaimSpec, x: f64) -> String {
    match spec.against.is_some() {
        true => percent(x, true),
        false if x.abs() >= 100.0 => format!("{x:.1}"),
        false => format!("{x:.4}"),
    }
}

fn figure(spec: &ClaimSpec, figure: Option<FigureSpec>) -> String {
    match figure {
        None => "-".into(),
        Some(FigureSpec::Value(x)) => person(spec, x),
        Some(FigureSpec::Range(from, to)) => format!("{} to {}", person(spec, from), person(spec, to)),
    }
}

fn half(spec: &ClaimSpec, x: f64) -> String {
    match (x.is_finite(), spec.against.is_some()) {
        (false, _) => "one run".into(),
        (true, true) => format!("± {:.1}", x * 100.0),
        (true, false) if x >= 100.0 => format!("± {x:.1}"),
        (true, false) => format!("± {x:.4}"),
    }
}

fn bound(spec: &ClaimSpec) -> String {
    match spec.holds {
        HoldsSpec::AtMost(most) => format!("at most {}", person(spec, most)),
        HoldsSpec::AtLeast(least) => format!("at least {}", person(spec, least)),
        HoldsSpec::Between(from, to) => format!("{} to {}", person(spec, from), person(spec, to)),
    }
}

fn agreement(one: &Measured<'_>) -> String {
    let relative = one.claim.spec.against.is_some();
    match (one.agreement(), relative) {
        (Agreement::NoFigure, _) => "no figure".into(),
        (Agreement::Agrees, _) => "agrees".into(),
        (Agreement::Smaller, true) => "same direction, smaller".into(),
        (Agreement::Larger, true) => "same direction, larger".into(),
        (Agreement::Smaller, false) => "smaller".into(),
        (Agreement::Larger, false) => "larger".into(),
        (Agreement::Opposite, _) => "opposite".into(),
        (Agreement::NotShown, _) => "no change shown".into(),
        (Agreement::OneRun(difference), true) => format!("one run: {:+.1} points", difference * 100.0),
        (Agreement::OneRun(difference), false) => format!("one run: {:+.1} %", difference * 100.0),
    }
}

/// The policies of a claim and the values of the sweep.
pub fn scope(claim: &Claim) -> String {
    let versus = claim.spec.against.as_ref().map_or(String::new(), |against| format!(" vs {against}"));
    // A value may stand on several lines of the spec.
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let at = claim.at.iter().map(|(path, value)| format!(" {path}={}", line(value)));
    let over = claim.spec.over.iter().map(|path| format!(" over {path}"));
    format!("{}{versus}{}", claim.spec.of, at.chain(over).collect::<String>())
}

/// Runs in lines, the first few by name.
fn lines(what: &str, runs: &[String]) -> Vec<String> {
    const SHOWN: usize = 6;
    let mut lines: Vec<String> = runs.iter().take(SHOWN).map(|run| format!("{what}: {run}")).collect();
    if runs.len() > SHOWN {
        lines.push(format!("{what}: {} more runs", runs.len() - SHOWN));
    }
    lines
}

/// A claim in words.
pub(crate) fn in_words(one: &Measured<'_>) -> ClaimRow {
    let spec = &one.claim.spec;
    let (measured, interval) = match one.estimate {
        Some(estimate) => (person(spec, estimate.mean), half(spec, estimate.half)),
        None => ("-".into(), "-".into()),
    };
    let mut notes = lines("failed", &one.failed);
    notes.extend(lines("jobs left unfinished", &one.starved));
    notes.extend(lines("without such a figure", &one.without));
    if one.missing > 0 {
        notes.push(format!("{} runs have no result", one.missing));
    }
    if one.repeated > 0 {
        notes.push(format!("{} further seeds gave the same results and count once", one.repeated));
    }
    ClaimRow {
        says: spec.says.clone(),
        of: scope(one.claim),
        metric: spec.metric.clone(),
        published: figure(spec, spec.published),
        reference: figure(spec, spec.reference.as_ref().map(|reference| reference.value)),
        by: spec.reference.as_ref().map_or(String::new(), |reference| reference.by.clone()),
        measured,
        interval,
        runs: one.estimate.map_or(0, |estimate| estimate.runs),
        bound: bound(spec),
        verdict: one.verdict().words().to_string(),
        holds: match one.holds() {
            Some(true) => "yes",
            Some(false) => "no",
            None if one.verdict().is_inconclusive() => "inconclusive",
            None => "unknown",
        },
        agreement: agreement(one),
        notes,
    }
}

/// Lines below a table of claims: whose code gave the references, and what a reader must know of single claims.
pub(crate) fn notes(rows: &[ClaimRow]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| !row.by.is_empty()) {
        let line = format!("reference: {}", row.by);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.extend(
        rows.iter().flat_map(|row| row.notes.iter().map(move |note| format!("{}, {}: {note}", row.says, row.of))),
    );
    lines
}

/// Claims as a table for people.
pub fn render(measured: &[Measured<'_>]) -> String {
    let rows: Vec<ClaimRow> = measured.iter().map(in_words).collect();
    let (head, cells) = table(&rows);
    let mut out = Table::new();
    out.load_style(presets::NOTHING);
    let numeric: Vec<usize> = (0..head.len())
        .filter(|at| ["published", "reference", "measured", "95 % CI", "runs"].contains(&head[*at].as_str()))
        .collect();
    out.set_header(head);
    for row in cells {
        out.add_row(row);
    }
    for at in numeric {
        if let Some(column) = out.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let notes: String = notes(&rows).into_iter().map(|note| note + "\n").collect();
    crate::columns::lines(&out) + &notes
}

/// Claims as JSON lines.
pub fn json_lines(measured: &[Measured<'_>]) -> String {
    let ends = |figure: FigureSpec| match figure {
        FigureSpec::Value(x) => json!(x),
        FigureSpec::Range(from, to) => json!([from, to]),
    };
    let line = |one: &Measured<'_>| {
        let spec = &one.claim.spec;
        let at: std::collections::BTreeMap<&str, &str> =
            one.claim.at.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        let object = json!({
            "claim": spec.says, "of": spec.of, "against": spec.against, "metric": spec.metric, "at": at,
            "over": spec.over,
            "published": spec.published.map(ends),
            "reference": spec.reference.as_ref().map(|one| ends(one.value)),
            "reference_by": spec.reference.as_ref().map(|one| &one.by),
            "measured": one.estimate.map(|estimate| estimate.mean),
            "half_interval_95": one.estimate.and_then(|estimate| estimate.interval().map(|_| estimate.half)),
            "runs": one.estimate.map_or(0, |estimate| estimate.runs),
            "repeated": one.repeated, "failed": one.failed, "missing": one.missing,
            "bound": bound(spec), "holds": one.holds(), "verdict": one.verdict().words(),
            "agreement": agreement(one),
        });
        object.to_string() + "\n"
    };
    measured.iter().map(line).collect()
}

impl Verdict {
    /// Whether the interval has values on both sides of the bound.
    pub fn is_inconclusive(self) -> bool {
        matches!(self, Verdict::Judged(_, Surety::Unsure))
    }

    /// Whether `--check` passes; `lenient`: where the runs don't settle it too.
    pub fn passes(self, lenient: bool) -> bool {
        matches!(self, Verdict::Judged(true, Surety::Sure | Surety::OneRun)) || (lenient && self.is_inconclusive())
    }
}
