//! Claims as tables: in words for people, and as data.

use sandtable_core::display::percent;
use sandtable_core::frame::{Column, Frame};
use sandtable_plan::spec::{ClaimSpec, FigureSpec, HoldsSpec};
use serde::Serialize;
use serde_json::json;

use super::{Claim, FigureAgreement, Measured, Surety, Verdict};

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
    /// What the authors' code gave, or `-`.
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

/// A table of claims; the column of references is left out where no claim has one.
pub fn table(rows: &[ClaimRow]) -> Frame {
    let referenced = rows.iter().any(|row| row.reference != "-");
    let mut frame = Frame::new([
        Column::words("claim"),
        Column::words("of"),
        Column::words("metric"),
        Column::number("published"),
        Column::number("reference").in_text(referenced),
        Column::number("measured"),
        Column::number("interval").head("95 % CI"),
        Column::count("runs"),
        Column::words("bound").head("our bound"),
        Column::words("verdict"),
        Column::words("figure"),
    ]);
    for row in rows {
        frame.push([
            (&row.says).into(),
            (&row.of).into(),
            (&row.metric).into(),
            (&row.published).into(),
            (&row.reference).into(),
            (&row.measured).into(),
            (&row.interval).into(),
            row.runs.into(),
            (&row.bound).into(),
            (&row.verdict).into(),
            (&row.agreement).into(),
        ]);
    }
    frame
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
        (FigureAgreement::NoFigure, _) => "no figure".into(),
        (FigureAgreement::Agrees, _) => "agrees".into(),
        (FigureAgreement::Smaller, true) => "same direction, smaller".into(),
        (FigureAgreement::Larger, true) => "same direction, larger".into(),
        (FigureAgreement::Smaller, false) => "smaller".into(),
        (FigureAgreement::Larger, false) => "larger".into(),
        (FigureAgreement::Opposite, _) => "opposite".into(),
        (FigureAgreement::NotShown, _) => "no change shown".into(),
        (FigureAgreement::OneRun(difference), true) => format!("one run: {:+.1} points", difference * 100.0),
        (FigureAgreement::OneRun(difference), false) => format!("one run: {:+.1} %", difference * 100.0),
    }
}

/// The policies of a claim and the values of the sweep.
pub fn scope(claim: &Claim) -> String {
    let versus = claim.spec.against.as_ref().map_or(String::new(), |against| format!(" vs {against}"));
    // A value may take several lines of the spec.
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
pub fn in_words(one: &Measured<'_>) -> ClaimRow {
    let spec = &one.claim.spec;
    let (measured, interval) = match one.estimate {
        Some(estimate) => (person(spec, estimate.mean), half(spec, estimate.half)),
        None => ("-".into(), "-".into()),
    };
    let mut notes = lines("failed", &one.failed);
    notes.extend(lines("jobs left unfinished or refused", &one.starved));
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
pub fn notes(rows: &[ClaimRow]) -> Vec<String> {
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

/// Claims as a table for people, and what a reader must know of them.
pub fn render(measured: &[Measured<'_>]) -> String {
    let rows: Vec<ClaimRow> = measured.iter().map(in_words).collect();
    let notes: String = notes(&rows).into_iter().map(|note| note + "\n").collect();
    table(&rows).text() + &notes
}

/// Claims with what programs read of them.
pub fn data(measured: &[Measured<'_>]) -> Frame {
    let ends = |figure: FigureSpec| match figure {
        FigureSpec::Value(x) => json!(x),
        FigureSpec::Range(from, to) => json!([from, to]),
    };
    let names = [
        "claim",
        "of",
        "against",
        "metric",
        "at",
        "over",
        "published",
        "reference",
        "reference_by",
        "measured",
        "half_interval_95",
        "runs",
        "repeated",
        "failed",
        "missing",
        "bound",
        "holds",
        "verdict",
        "agreement",
    ];
    let mut frame = Frame::new(names.map(Column::words));
    for one in measured {
        let spec = &one.claim.spec;
        let at: std::collections::BTreeMap<&str, &str> =
            one.claim.at.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        frame.push([
            (&spec.says).into(),
            (&spec.of).into(),
            spec.against.as_ref().into(),
            (&spec.metric).into(),
            json!(at).into(),
            json!(spec.over).into(),
            spec.published.map(ends).into(),
            spec.reference.as_ref().map(|one| ends(one.value)).into(),
            spec.reference.as_ref().map(|one| &one.by).into(),
            one.estimate.map(|estimate| estimate.mean).into(),
            one.estimate.and_then(|estimate| estimate.interval().map(|_| estimate.half)).into(),
            one.estimate.map_or(0, |estimate| estimate.runs).into(),
            one.repeated.into(),
            json!(one.failed).into(),
            one.missing.into(),
            bound(spec).into(),
            one.holds().into(),
            one.verdict().words().into(),
            agreement(one).into(),
        ]);
    }
    frame
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
