//! Claims: what a paper says, beside what is measured here, and whether it holds.
//!
//! A relative change is measured seed by seed (the same workload under both policies) and averaged; its interval is
//! Student's, 95 %, over the seeds. A claim holds where the average does; the interval says how surely.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::error::{Error, nearest};
use crate::plan::{Cell, Plan};
use crate::spec::{ClaimSpec, HoldsSpec, Source};
use crate::table::{Known, metric, metric_names};

/// What came of a claim.
pub struct Measured<'a> {
    /// The claim.
    pub claim: &'a ClaimSpec,
    /// Seeds (and variants) that it rests on.
    pub pairs: usize,
    /// The average, and half its 95 % interval; none where nothing was measured.
    pub value: Option<(f64, f64)>,
}

impl Measured<'_> {
    /// Whether any cell of the plan is about it.
    pub fn is_asked(&self, plan: &Plan) -> bool {
        plan.cells.iter().any(|cell| cell.label == self.claim.of && at(cell, self.claim))
    }

    /// Whether it holds; none where nothing was measured.
    pub fn holds(&self) -> Option<bool> {
        self.value.map(|(mean, _)| within(self.claim.holds, mean))
    }

    /// Whether the whole interval says the same.
    fn surely(&self) -> bool {
        let Some((mean, half)) = self.value else { return false };
        let same = within(self.claim.holds, mean);
        within(self.claim.holds, mean - half) == same && within(self.claim.holds, mean + half) == same
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(), self.surely()) {
            (None, _) => "not measured",
            (Some(true), true) => "holds",
            (Some(true), false) => "holds, not surely",
            (Some(false), true) => "FAILS",
            (Some(false), false) => "FAILS, not surely",
        }
    }
}

fn within(holds: HoldsSpec, x: f64) -> bool {
    match holds {
        HoldsSpec::AtMost(most) => x <= most,
        HoldsSpec::AtLeast(least) => x >= least,
        HoldsSpec::Between(least, most) => least <= x && x <= most,
    }
}

/// Checks that claims name policies, metrics and values of the sweep that there are.
///
/// # Errors
/// The first that does not.
pub(crate) fn check(source: &Source, claims: &[ClaimSpec], cells: &[Cell], cut: bool) -> Result<(), Error> {
    for (index, claim) in claims.iter().enumerate() {
        let place = |field: &str| format!("claims.{index}.{field}");
        let labels = || cells.iter().map(|cell| cell.label.as_str());
        for (field, label) in [("of", Some(&claim.of)), ("against", claim.against.as_ref())] {
            if let Some(label) = label.filter(|label| !labels().any(|known| known == label.as_str())) {
                let error = source.error(&place(field), &format!("no policy is called `{label}`"), "this policy");
                let mut all: Vec<&str> = labels().collect();
                all.sort_unstable();
                all.dedup();
                return Err(match nearest(label, labels()) {
                    None => error.hint(format!("there is {}", all.join(", "))),
                    near => hinted(error, near),
                });
            }
        }
        if metric(&claim.metric).is_none() {
            let error = source.error(&place("metric"), &format!("no metric `{}`", claim.metric), "this metric");
            return Err(hinted(error, nearest(&claim.metric, metric_names())));
        }
        for path in claim.at.keys() {
            if !cut && !cells.iter().any(|cell| cell.variant.iter().any(|(known, _)| known == path)) {
                let message = format!("`{path}` is not swept");
                return Err(source.error(&place("at"), &message, "here"));
            }
        }
        // The cut of a test may leave values of the sweep out.
        if !cut && !cells.iter().any(|cell| at(cell, claim)) {
            return Err(source.error(&place("at"), "the sweep never has these values", "here"));
        }
    }
    Ok(())
}

fn hinted(error: Error, near: Option<&str>) -> Error {
    match near {
        Some(near) => error.hint(format!("is `{near}` meant?")),
        None => error,
    }
}

/// Measures every claim of a plan.
pub fn measure<'a>(plan: &'a Plan, known: &[Known]) -> Vec<Measured<'a>> {
    plan.claims.iter().map(|claim| one(plan, known, claim)).collect()
}

fn one<'a>(plan: &Plan, known: &[Known], claim: &'a ClaimSpec) -> Measured<'a> {
    let Some(get) = metric(&claim.metric) else { return Measured { claim, pairs: 0, value: None } };
    let of = |cell: &Cell| match known.iter().zip(&plan.cells).find(|(_, other)| other.id == cell.id) {
        Some((Known::Done(summary), _)) => Some(get(summary)).filter(|x| x.is_finite()),
        _ => None,
    };
    let mut values = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.label == claim.of && at(cell, claim)) {
        let Some(own) = of(cell) else { continue };
        match &claim.against {
            None => values.push(own),
            Some(label) => {
                let twin =
                    |other: &&Cell| other.label == *label && other.seed == cell.seed && other.variant == cell.variant;
                if let Some(other) = plan.cells.iter().find(twin).and_then(of).filter(|other| *other != 0.0) {
                    values.push(own / other - 1.0);
                }
            }
        }
    }
    Measured { claim, pairs: values.len(), value: mean_and_half(&values) }
}

fn at(cell: &Cell, claim: &ClaimSpec) -> bool {
    claim.at.iter().all(|(path, wanted)| {
        let found = cell.variant.iter().find(|(known, _)| known == path).map(|(_, value)| value.as_str());
        let number = |text: &str| text.parse::<f64>().ok();
        match (found, wanted) {
            (Some(found), Value::Number(wanted)) => number(found) == wanted.as_f64(),
            (Some(found), Value::String(wanted)) => found.trim_matches('"') == wanted,
            (Some(found), Value::Bool(wanted)) => found == if *wanted { "true" } else { "false" },
            (Some(_), _) => false,
            (None, _) => false,
        }
    })
}

/// The mean, and half of its 95 % interval.
pub(crate) fn mean_and_half(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    if values.len() == 1 {
        return Some((mean, f64::INFINITY));
    }
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((mean, student(values.len() - 1) * (squares / (count - 1.0) / count).sqrt()))
}

/// The 97.5th percentile of Student's t; beyond the table Cornish and Fisher's expansion, exact to three digits there.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom.checked_sub(1).and_then(|at| TABLE.get(at)) {
        Some(t) => *t,
        None => {
            let (z, n) = (1.959_964_f64, freedom as f64);
            let (z3, z5) = (z * z * z, z * z * z * z * z);
            z + (z3 + z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// A figure for people: a change in percent, anything else as it is.
fn person(claim: &ClaimSpec, x: f64) -> String {
    if claim.against.is_some() { format!("{:+.1} %", x * 100.0) } else { format!("{x:.4}") }
}

fn half(claim: &ClaimSpec, x: f64) -> String {
    match (x.is_finite(), claim.against.is_some()) {
        (false, _) => "one seed".into(),
        (true, true) => format!("± {:.1}", x * 100.0),
        (true, false) => format!("± {x:.4}"),
    }
}

fn scope(claim: &ClaimSpec) -> String {
    let versus = claim.against.as_ref().map_or(String::new(), |against| format!(" vs {against}"));
    let at: Vec<String> = claim.at.iter().map(|(path, value)| format!("{path}={value}")).collect();
    format!("{}{versus} {}", claim.of, at.join(" ")).trim_end().to_string()
}

/// Claims as a table for people.
pub fn render(measured: &[Measured<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["claim", "of", "metric", "published", "measured", "95 %", "runs", "verdict"]);
    for one in measured {
        let claim = one.claim;
        let published = claim.published.map_or("direction".to_string(), |x| person(claim, x));
        let (mean, interval) = match one.value {
            Some((mean, spread)) => (person(claim, mean), half(claim, spread)),
            None => ("-".into(), "-".into()),
        };
        let row = [&claim.says, &scope(claim), &claim.metric, &published, &mean, &interval];
        let mut cells: Vec<String> = row.into_iter().cloned().collect();
        cells.extend([one.pairs.to_string(), one.verdict().to_string()]);
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(3).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    crate::table::lines(&table)
}

/// A claim for a report.
pub(crate) fn in_words(one: &Measured<'_>) -> crate::report::ClaimRow {
    let claim = one.claim;
    let (measured, interval) = match one.value {
        Some((mean, spread)) => (person(claim, mean), half(claim, spread)),
        None => ("-".into(), "-".into()),
    };
    crate::report::ClaimRow {
        says: claim.says.clone(),
        of: scope(claim),
        metric: claim.metric.clone(),
        published: claim.published.map_or("direction".to_string(), |x| person(claim, x)),
        measured,
        interval,
        runs: one.pairs,
        verdict: one.verdict().to_string(),
        holds: match one.holds() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        },
    }
}

/// Claims as JSON lines.
pub fn json_lines(measured: &[Measured<'_>]) -> String {
    let line = |one: &Measured<'_>| {
        let claim = one.claim;
        let (mean, half) = one.value.unzip();
        let object = json!({
            "claim": claim.says, "of": claim.of, "against": claim.against, "metric": claim.metric, "at": claim.at,
            "published": claim.published, "measured": mean, "half_interval_95": half.filter(|x| x.is_finite()),
            "seeds": one.pairs, "holds": one.holds(),
        });
        object.to_string() + "\n"
    };
    measured.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let (mean, half) = mean_and_half(&[1.0, 2.0, 3.0]).expect("values");
        assert_eq!(mean, 2.0);
        assert!((half - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        // Published percentiles for 19 and 30 degrees of freedom.
        assert!((student(19) - 2.093).abs() < 1e-3 && (student(30) - 2.042).abs() < 1e-3);
        assert_eq!(mean_and_half(&[]), None);
        assert_eq!(mean_and_half(&[0.5]), Some((0.5, f64::INFINITY)));
    }

    #[test]
    fn a_claim_holds_by_its_mean_and_says_how_surely() {
        let text = "Claim(says: \"s\", of: \"a\", against: \"b\", metric: \"jct_mean_s\", holds: AtMost(-0.1))";
        let options = ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
        let claim: ClaimSpec = options.from_str(text).expect("a claim");
        let verdict = |value| Measured { claim: &claim, pairs: 3, value }.verdict();
        assert_eq!(verdict(Some((-0.2, 0.05))), "holds");
        assert_eq!(verdict(Some((-0.2, 0.15))), "holds, not surely");
        assert_eq!(verdict(Some((0.0, 0.05))), "FAILS");
        assert_eq!(verdict(Some((-0.05, 0.1))), "FAILS, not surely");
        assert_eq!(verdict(None), "not measured");
    }
}
