//! The jobs of a cluster as they are now, and why those wait that do.

use std::collections::BTreeMap;

use sandtable_core::display::span;
use sandtable_inputs::state::{Dependent, KnownJob};
use sandtable_inputs::trace::Row;
use sandtable_plan::StateJobs;
use sandtable_results::forecast::{Forecast, quantile};

/// A job as it is now.
pub(super) struct Now<'a> {
    pub(super) row: &'a Row,
    pub(super) waits: bool,
    /// Since when it could have started, seconds from now on: mostly negative.
    pub(super) eligible_s: f64,
    pub(super) why: Option<Why>,
    pub(super) planned_s: Option<f64>,
}

/// Why a job waits.
pub(super) struct Why {
    /// In the words of a document, `behind`, or `none`.
    pub(super) code: String,
    /// For people.
    pub(super) text: String,
    /// The jobs whose ends make room for it.
    pub(super) after: Vec<String>,
}

impl Why {
    fn of(code: &str, text: &str) -> Why {
        Why { code: code.into(), text: text.into(), after: Vec::new() }
    }
}

/// The jobs of a cluster as they are now, by name.
pub(super) fn standing<'a>(jobs: &'a StateJobs, forecasts: &BTreeMap<String, Forecast>) -> BTreeMap<&'a str, Now<'a>> {
    let modelled = &jobs.modelled;
    let running = modelled.running();
    let median = |values: &[f64]| quantile(values, 0.5).unwrap_or(f64::INFINITY);
    let mut reasons = modelled.reasons(|job| forecasts.get(job).map_or(f64::INFINITY, |of| median(&of.ends)));
    let after: BTreeMap<&str, &Dependent> = modelled.after.iter().map(|waits| (waits.job.as_str(), waits)).collect();
    let mut all = BTreeMap::new();
    for row in &modelled.rows {
        let (name, known) = (row.name.as_str(), modelled.known.get(row.name.as_str()));
        let waits = !running.contains(name);
        let later = row.submit.saturating_since(modelled.at).as_secs_f64();
        let mut reason = || {
            if let Some(waits) = after.get(name) {
                return dependent(waits);
            }
            let said = known.and_then(KnownJob::said);
            if later > 0.0 && said.as_ref().is_none_or(|(code, _)| *code == "not-before") {
                return Why::of("not-before", &format!("not before {}", text(later)));
            }
            if let Some((code, text)) = said {
                return Why::of(code, &text);
            }
            let starts = forecasts.get(name).is_some_and(|of| median(&of.starts).is_finite());
            // Where it starts later, its nodes are there later.
            if let Some(waits) = reasons.waits(row).filter(|waits| waits.code == "never" && starts) {
                return Why::of("reservation", &format!("{} now", waits.text));
            }
            if let Some(waits) = reasons.waits(row) {
                return Why { code: waits.code.into(), text: waits.text, after: waits.after };
            }
            if let Some(word) = known.and_then(KnownJob::unknown_word) {
                return Why::of("unknown", &format!("has room; the cluster says {word}"));
            }
            match forecasts.get(name).is_some_and(|of| median(&of.starts) < 1.0) {
                true => Why::of("none", "has room"),
                false if !jobs.queues.is_empty() => {
                    Why::of("behind", "has room; behind others, or its queue has its share")
                }
                false => Why::of("behind", "has room; behind others"),
            }
        };
        let why = waits.then(&mut reason);
        let eligible_s = later - modelled.at.saturating_since(row.submit).as_secs_f64();
        all.insert(name, Now { row, waits, eligible_s, why, planned_s: known.and_then(|known| known.planned_s) });
    }
    all
}

/// Why a job waits that waits for others.
fn dependent(waits: &Dependent) -> Why {
    let mut after: Vec<String> = waits.all.iter().map(|until| until.job.clone()).collect();
    after.dedup();
    let some = after.iter().take(3).cloned().collect::<Vec<_>>().join(if waits.any { " or " } else { ", " });
    let more = after.len().saturating_sub(3);
    let text = if more > 0 { format!("other jobs: {some} and {more} more") } else { format!("other jobs: {some}") };
    Why { code: "dependency".into(), text, after }
}

/// A time from now on, for people; where runs go on for so long only, what did not come by then is no more than that.
pub(super) fn text_within(seconds: f64, length: Option<f64>) -> String {
    match (seconds.is_infinite(), length) {
        (true, Some(length)) => format!("after {}", span(length)),
        _ => text(seconds),
    }
}

/// A time from now on, for people.
pub(super) fn text(seconds: f64) -> String {
    match seconds {
        never if never.is_infinite() => "never".into(),
        at if at.abs() < 1.0 => "now".into(),
        at => span(at),
    }
}
