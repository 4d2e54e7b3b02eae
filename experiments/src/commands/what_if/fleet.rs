//! What becomes of all jobs together under each policy, and what a change makes of it.

use sandtable_core::display::{Unit, span};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_results::forecast::quantile;
use sandtable_results::stats::{Estimate, estimate};
use sandtable_runtime::Summary;

/// The runs of a policy: one a seed; none where one failed.
pub(super) struct Runs {
    pub(super) head: String,
    pub(super) policy: String,
    pub(super) changed: bool,
    pub(super) by_seed: Vec<Option<Box<Summary>>>,
}

/// A quantity of a run.
type Of = fn(&Summary) -> f64;

const QUANTITIES: [(&str, &str, Of); 4] = [
    ("wait_mean_s", "mean wait", |summary| summary.first_wait.mean),
    ("wait_p95_s", "p95 wait", |summary| summary.first_wait.p95),
    ("jct_mean_s", "mean JCT", |summary| summary.jct.mean),
    ("preemptions", "preemptions", |summary| summary.preemptions as f64),
];

/// A row a policy: means over seeds, and of a change the mean difference of the same seeds, with 95 % intervals.
pub(super) fn table(all: &[Runs]) -> Frame {
    let mut columns = vec![Column::words("policy")];
    let changed = all.iter().any(|runs| runs.changed);
    for (name, head, _) in QUANTITIES {
        columns.push(Column::words(name).head(head));
        if changed {
            columns.push(Column::words("change").head("by the change"));
        }
    }
    let mut frame = Frame::new(columns);
    for runs in all {
        let mut row: Vec<Value> = vec![runs.head.clone().into()];
        let before = all.iter().find(|other| other.policy == runs.policy && !other.changed).filter(|_| runs.changed);
        for (name, _, of) in QUANTITIES {
            let shown = |mean: f64, half: Option<f64>| match (name, half) {
                ("preemptions", None) => format!("{mean:.1}"),
                ("preemptions", Some(half)) => format!("{mean:.1} ± {half:.1}"),
                (_, None) => span(mean),
                (_, Some(half)) => Unit::Seconds.interval(mean, half),
            };
            let text = |of: Estimate| shown(of.mean, of.half.is_finite().then_some(of.half));
            let values: Vec<f64> = runs.by_seed.iter().flatten().map(|summary| of(summary)).collect();
            row.push(estimate(&values).map_or(Value::Unknown, |of| text(of).into()));
            if changed {
                let pairs = before.into_iter().flat_map(|before| runs.by_seed.iter().zip(&before.by_seed));
                let differences: Vec<f64> =
                    pairs.filter_map(|(after, before)| Some(of(after.as_ref()?) - of(before.as_ref()?))).collect();
                row.push(estimate(&differences).map_or(Value::Unknown, |of| text(of).into()));
            }
        }
        frame.push(row);
    }
    frame
}

/// How a forecast agrees with what happened.
pub(super) struct Accuracy {
    pub(super) head: String,
    /// Of each job of which both are known: the forecast's P10, P50 and P90, and when it really started; seconds from now on.
    pub(super) jobs: Vec<([f64; 3], f64)>,
    /// Whether P10 and P90 are of draws.
    pub(super) drawn: bool,
}

/// A row a forecast: how far its P50 is off, and how many real starts are between P10 and P90.
pub(super) fn accuracy(all: &[Accuracy]) -> Frame {
    let mut frame = Frame::new([
        Column::words("forecast"),
        Column::of("jobs", Unit::Count),
        Column::of("median_off_s", Unit::Seconds).head("P50 off: median"),
        Column::of("p90_off_s", Unit::Seconds).head("90th percentile"),
        Column::of("early", Unit::Share).head("started before P50"),
        Column::of("within", Unit::Share).head("between P10 and P90"),
    ]);
    for of in all {
        let mut off: Vec<f64> = of.jobs.iter().map(|([_, p50, _], real)| (p50 - real).abs()).collect();
        off.sort_by(f64::total_cmp);
        let at = |share: f64| quantile(&off, share).map_or(Value::Unknown, Value::Number);
        let share = |is: fn(&([f64; 3], f64)) -> bool| {
            let count = of.jobs.iter().filter(|job| is(job)).count();
            if of.jobs.is_empty() { Value::Unknown } else { (count as f64 / of.jobs.len() as f64).into() }
        };
        let within = share(|([p10, _, p90], real)| (p10..=p90).contains(&real));
        frame.push([
            of.head.clone().into(),
            (of.jobs.len() as u64).into(),
            at(0.5),
            at(0.9),
            share(|([_, p50, _], real)| real < p50),
            if of.drawn { within } else { Value::Unknown },
        ]);
    }
    frame
}
