//! Claims: what a paper says, beside what is measured here, and two verdicts: whether our own bound holds, and whether the
//! published figure lies within the measured interval.
//!
//! A relative change is measured run by run (the same workload under both policies) and averaged; its interval is
//! Student's, 95 %, over the seeds. Where a claim averages values of the sweep (`over`), they are averaged within each seed
//! first. Seeds whose results are the same in every respect, as those of a deterministic policy on a trace, count once.

mod expected;
mod render;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_plan::spec::{FigureSpec, HoldsSpec, Source};
use sandtable_plan::{Cell, Claim, Plan};

use crate::metric;
use crate::stats::{Estimate, estimate};
use crate::status::CellStatus;

pub use expected::{Expected, ExpectedFailures};
pub use render::{ClaimRow, data, render, scope};
pub use render::{in_words, notes, table};

/// Checks that there are the metrics that claims name; `source` is their spec's.
///
/// # Errors
/// A metric that there is not, with its place.
pub fn check(source: &Source, claims: &[Claim]) -> Result<(), Error> {
    let Some(claim) = claims.iter().find(|claim| metric::find(&claim.spec.metric).is_none()) else { return Ok(()) };
    let (name, place) = (&claim.spec.metric, format!("claims.{}.metric", claim.index));
    let error = source.error(&place, &format!("no metric `{name}`"), "this metric");
    Err(match nearest(name, metric::names()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    })
}

/// What was measured of a claim.
pub struct Measured<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The mean over the seeds; `None` where nothing was measured.
    pub estimate: Option<Estimate>,
    /// Runs that a policy failed to finish, in words.
    pub failed: Vec<String>,
    /// Runs without a result.
    pub missing: usize,
    /// Runs whose result has no such figure, in words.
    pub without: Vec<String>,
    /// Runs in which a policy left jobs unfinished or refused them, in words: times of the others say nothing of it.
    pub starved: Vec<String>,
    /// Seeds left out since their results are those of another seed.
    pub repeated: usize,
}

/// Whether our bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds or not; and how far the runs settle it.
    Judged(bool, Surety),
    /// A policy failed: what the other runs say is not the claim's.
    CellsFailed,
    /// A policy left jobs unfinished or refused them: times of the others are not the claim's.
    JobsUnfinished,
    /// Some runs have no result, or no such figure.
    Incomplete,
    /// No run has a result.
    NotMeasured,
}

/// How far the runs settle whether a bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surety {
    /// The whole interval is on one side of the bound.
    Sure,
    /// The interval has values on both sides: the claim is inconclusive.
    Unsure,
    /// One run: there is no interval.
    OneRun,
}

impl Verdict {
    /// As tables print it.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Judged(true, Surety::Sure) => "holds",
            Verdict::Judged(true, Surety::Unsure) => "inconclusive, mean holds",
            Verdict::Judged(true, Surety::OneRun) => "holds, one run",
            Verdict::Judged(false, Surety::Sure) => "FAILS",
            Verdict::Judged(false, Surety::Unsure) => "inconclusive, mean fails",
            Verdict::Judged(false, Surety::OneRun) => "FAILS, one run",
            Verdict::CellsFailed => "CELLS FAILED",
            Verdict::JobsUnfinished => "JOBS UNFINISHED",
            Verdict::Incomplete => "incomplete",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// How the published or reference figure compares with what is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureAgreement {
    /// There is no published figure, or nothing was measured.
    NoFigure,
    /// The figure lies within the measured interval; of a range, any part does.
    Agrees,
    /// The figure lies outside; the measured change is in its direction (or an absolute value is of its sign) and smaller.
    Smaller,
    /// As `Smaller`, but larger.
    Larger,
    /// The measured change is in the other direction.
    Opposite,
    /// The figure lies outside of the interval, and 0 inside: no change is shown.
    NotShown,
    /// One run has no interval: the relative difference from the figure; between changes, the difference of the two.
    OneRun(f64),
}

impl FigureAgreement {
    fn of(figure: FigureSpec, relative: bool, measured: Estimate) -> FigureAgreement {
        let (from, to) = figure.ends();
        let Some((low, high)) = measured.interval() else {
            let nearest = measured.mean.clamp(from, to);
            let difference = measured.mean - nearest;
            return FigureAgreement::OneRun(if relative || nearest == 0.0 {
                difference
            } else {
                difference / nearest.abs()
            });
        };
        let middle = (from + to) / 2.0;
        match () {
            () if low <= to && from <= high => FigureAgreement::Agrees,
            () if relative && low <= 0.0 && 0.0 <= high => FigureAgreement::NotShown,
            () if measured.mean.signum() != middle.signum() => FigureAgreement::Opposite,
            () if measured.mean.abs() < middle.abs() => FigureAgreement::Smaller,
            () => FigureAgreement::Larger,
        }
    }
}

impl Measured<'_> {
    /// Whether our bound holds, and how surely.
    pub fn verdict(&self) -> Verdict {
        if !self.failed.is_empty() {
            return Verdict::CellsFailed;
        }
        if !self.starved.is_empty() {
            return Verdict::JobsUnfinished;
        }
        let Some(estimate) = self.estimate else {
            return if self.without.is_empty() { Verdict::NotMeasured } else { Verdict::Incomplete };
        };
        if self.missing > 0 || !self.without.is_empty() {
            return Verdict::Incomplete;
        }
        let bound = self.claim.spec.holds;
        let holds = within(bound, estimate.mean);
        let surety = match estimate.interval() {
            None => Surety::OneRun,
            Some((low, high)) if settled(bound, low, high) => Surety::Sure,
            Some(_) => Surety::Unsure,
        };
        Verdict::Judged(holds, surety)
    }

    /// Whether our bound holds; `None` where the runs don't say, or don't settle it.
    pub fn holds(&self) -> Option<bool> {
        match self.verdict() {
            Verdict::Judged(_, Surety::Unsure) => None,
            Verdict::Judged(holds, _) => Some(holds),
            _ => None,
        }
    }

    /// How the published figure, or else the reference, compares with what is measured.
    pub fn agreement(&self) -> FigureAgreement {
        let spec = &self.claim.spec;
        let figure = spec.published.or(spec.reference.as_ref().map(|reference| reference.value));
        match (figure, self.estimate) {
            (Some(figure), Some(measured)) => FigureAgreement::of(figure, spec.against.is_some(), measured),
            _ => FigureAgreement::NoFigure,
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

/// Whether a bound holds at every value of an interval, or at none.
fn settled(holds: HoldsSpec, low: f64, high: f64) -> bool {
    match holds {
        HoldsSpec::AtMost(bound) => (low <= bound) == (high <= bound),
        HoldsSpec::AtLeast(bound) => (low >= bound) == (high >= bound),
        HoldsSpec::Between(least, most) => (least <= low && high <= most) || high < least || most < low,
    }
}

/// Measures every claim of a plan.
pub fn measure<'a>(plan: &'a Plan, known: &[CellStatus]) -> Vec<Measured<'a>> {
    let place = |cell: &'a Cell| (cell.label.as_str(), cell.seed, cell.variant.as_slice());
    let results: Results<'_> = plan.cells.iter().map(place).zip(known).collect();
    plan.claims.iter().map(|claim| one(plan, &results, claim)).collect()
}

/// What is known of each cell, by policy, seed and values of the sweep.
type Results<'a> = BTreeMap<(&'a str, u64, &'a [(String, String)]), &'a CellStatus>;

fn one<'a>(plan: &Plan, results: &Results<'_>, claim: &'a Claim) -> Measured<'a> {
    let mut measured = Measured {
        claim,
        estimate: None,
        failed: Vec::new(),
        missing: 0,
        without: Vec::new(),
        starved: Vec::new(),
        repeated: 0,
    };
    let spec = &claim.spec;
    let Some(metric) = metric::find(&spec.metric) else { return measured };
    let stated = |cell: &&Cell| claim.at.iter().all(|value| cell.variant.contains(value));
    // By seed: what its runs yield, and what tells them from another seed's.
    let mut seeds: BTreeMap<u64, (Vec<f64>, Vec<String>, bool)> = BTreeMap::new();
    for cell in plan.cells.iter().filter(|cell| cell.label == spec.of).filter(stated) {
        let mut values = Vec::new();
        let (runs, prints, whole) = seeds.entry(cell.seed).or_insert_with(|| (Vec::new(), Vec::new(), true));
        for side in [Some(spec.of.as_str()), spec.against.as_deref()].into_iter().flatten() {
            let known = results.get(&(side, cell.seed, cell.variant.as_slice())).copied();
            let which = || format!("{} {} seed {}", side, cell.variant_text(), cell.seed).replace("  ", " ");
            match known {
                Some(CellStatus::Done(summary)) => {
                    prints.push(serde_json::to_string(summary).unwrap_or_default());
                    if metric.is_of_completed() && summary.left_by_policy() > 0 {
                        let (left, jobs) = (summary.left_by_policy(), summary.jobs);
                        measured.starved.push(format!("{}: {left} of {jobs} jobs", which()));
                    }
                    match metric.of(summary) {
                        x if x.is_finite() => values.push(x),
                        _ => measured.without.push(which()),
                    }
                }
                Some(CellStatus::Failed(failure)) => measured.failed.push(format!("{}: {}", which(), failure.kind)),
                Some(CellStatus::Missing | CellStatus::TimedOut) | None => measured.missing += 1,
            }
        }
        match (values.as_slice(), spec.against.is_some()) {
            ([own], false) => runs.push(*own),
            ([own, other], true) if own == other => runs.push(0.0),
            ([own, other], true) if *other != 0.0 => runs.push(own / other - 1.0),
            ([_, _], true) => {
                measured.without.push(format!("{} seed {}: no ratio to 0", cell.label, cell.seed));
                *whole = false;
            }
            _ => *whole = false,
        }
    }
    let (mut means, mut seen) = (Vec::new(), BTreeSet::new());
    for (runs, prints, _) in seeds.into_values().filter(|(runs, _, whole)| *whole && !runs.is_empty()) {
        match seen.insert(prints) {
            true => means.push(runs.iter().sum::<f64>() / runs.len() as f64),
            false => measured.repeated += 1,
        }
    }
    measured.estimate = estimate(&means);
    measured
}

#[cfg(test)]
mod tests;
