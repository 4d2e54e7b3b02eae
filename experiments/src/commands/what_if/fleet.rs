//! What becomes of all jobs together under each policy, and what a change makes of it.

use std::collections::BTreeMap;

use sandtable_core::display::{Unit, span};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_results::forecast::{Forecast, quantile};
use sandtable_results::stats::{Estimate, estimate};

/// The runs of a policy.
pub(super) struct Runs<'a> {
    pub(super) head: String,
    pub(super) policy: &'a str,
    pub(super) changed: bool,
    /// Whether it is what the cluster did: only starts are known.
    pub(super) recorded: bool,
    /// For how long they go on, seconds, where they end early.
    pub(super) length: Option<f64>,
    /// Running jobs that are preempted, in the mean over seeds.
    pub(super) stopped: f64,
    /// The jobs that wait: since when they could have started, seconds from now on, and what came of them.
    pub(super) jobs: BTreeMap<&'a str, (f64, &'a Forecast)>,
}

/// A quantity of a run: of what came of jobs, and since when each could have started.
type Of = fn(&[(f64, (f64, f64, u32))]) -> f64;

/// Waits in ascending order.
fn waits(jobs: &[(f64, (f64, f64, u32))]) -> Vec<f64> {
    let mut waits: Vec<f64> = jobs.iter().map(|(eligible, (start, ..))| start - eligible).collect();
    waits.sort_by(f64::total_cmp);
    waits
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What becomes of jobs together, and whether it is of those alone that end.
const QUANTITIES: [(&str, &str, bool, Of); 4] = [
    ("wait_mean_s", "mean wait", false, |jobs| mean(&waits(jobs))),
    ("wait_p95_s", "p95 wait", false, |jobs| quantile(&waits(jobs), 0.95).unwrap_or(f64::NAN)),
    ("jct_mean_s", "mean JCT", true, |jobs| {
        mean(&jobs.iter().map(|(eligible, (_, end, _))| end - eligible).collect::<Vec<_>>())
    }),
    ("preemptions", "preemptions", false, |jobs| {
        jobs.iter().map(|(_, (.., count))| f64::from(*count)).sum::<f64>() + 0.0
    }),
];

impl<'a> Runs<'a> {
    /// What the cluster did.
    pub(super) fn recorded(jobs: BTreeMap<&'a str, (f64, &'a Forecast)>) -> Runs<'a> {
        let head = "what happened".to_string();
        Runs { head, policy: "", changed: false, recorded: true, length: None, stopped: f64::NAN, jobs }
    }

    /// A quantity by seed, of the jobs that start, and end where that matters, on the other side too where there is one; of no job it is not known.
    fn by_seed(&self, (ends, of): (bool, Of), both: Option<&Runs<'_>>) -> Vec<f64> {
        let seeds = self.jobs.values().map(|(_, forecast)| forecast.by_seed.len()).max().unwrap_or(0);
        let value = |seed: usize| {
            let over = |runs: &Runs<'_>, job: &str| {
                let of = runs.jobs.get(job).and_then(|(_, forecast)| forecast.by_seed.get(seed));
                of.is_some_and(|(start, end, _)| start.is_finite() && (!ends || end.is_finite()))
            };
            let there = |job: &str| over(self, job) && both.is_none_or(|other| over(other, job));
            let jobs = self.jobs.iter().filter(|(job, _)| there(job));
            let jobs: Vec<_> = jobs.map(|(_, (eligible, forecast))| (*eligible, forecast.by_seed[seed])).collect();
            of(&jobs)
        };
        (0..seeds).map(value).filter(|value| value.is_finite()).collect()
    }

    /// Jobs that never start, or not before the runs end, in the mean over seeds.
    fn never(&self) -> f64 {
        let share = |forecast: &Forecast| {
            let never = forecast.starts.iter().filter(|start| start.is_infinite()).count();
            never as f64 / forecast.starts.len().max(1) as f64
        };
        self.jobs.values().map(|(_, forecast)| share(forecast)).sum()
    }
}

/// A row a policy, of the jobs that wait: means over seeds, and of a change the mean difference under the same seeds, of the jobs that are on both sides
/// and start there; with 95 % intervals.
pub(super) fn table(all: &[Runs<'_>]) -> Frame {
    let changed = all.iter().any(|runs| runs.changed);
    let mut columns = vec![
        Column::words("policy"),
        Column::of("jobs", Unit::Count).head("jobs that wait"),
        Column::of("never", Unit::Count).head(match all.iter().find_map(|runs| runs.length) {
            Some(length) => format!("start after {}", span(length)),
            None => "never start".into(),
        }),
    ];
    for (name, head, ..) in QUANTITIES {
        columns.push(Column::words(name).head(head));
        if changed {
            columns.push(Column::words("change").head("by the change"));
        }
    }
    columns.push(Column::words("stopped").head("running jobs preempted"));
    let mut frame = Frame::new(columns);
    for runs in all {
        let mut row: Vec<Value> = vec![runs.head.clone().into(), (runs.jobs.len() as u64).into()];
        let never = if runs.recorded { Value::Unknown } else { runs.never().into() };
        row.push(never);
        let before = all.iter().find(|other| other.policy == runs.policy && !other.changed).filter(|_| runs.changed);
        for (name, _, ends, of) in QUANTITIES {
            let of = (ends, of);
            let shown = |mean: f64, half: Option<f64>| match (name, half) {
                ("preemptions", None) => format!("{mean:.1}"),
                ("preemptions", Some(half)) => format!("{mean:.1} ± {half:.1}"),
                (_, None) => span(mean),
                (_, Some(half)) => Unit::Seconds.interval(mean, half),
            };
            let text = |of: Estimate| shown(of.mean, of.half.is_finite().then_some(of.half));
            let known = !runs.recorded || name.starts_with("wait");
            let found = estimate(&runs.by_seed(of, None)).filter(|_| known);
            row.push(found.map_or(Value::Unknown, |of| text(of).into()));
            if changed {
                let pair = before.map(|before| (runs.by_seed(of, Some(before)), before.by_seed(of, Some(runs))));
                let differences: Vec<f64> = pair
                    .into_iter()
                    .flat_map(|(after, before)| after.into_iter().zip(before))
                    .map(|(a, b)| a - b)
                    .collect();
                row.push(estimate(&differences).map_or(Value::Unknown, |of| text(of).into()));
            }
        }
        row.push(match runs.stopped {
            unknown if unknown.is_nan() => Value::Unknown,
            0.0 => "0".into(),
            stopped => format!("{stopped:.1}").into(),
        });
        frame.push(row);
    }
    frame
}

/// How a forecast agrees with what happened.
pub(in crate::commands) struct Accuracy {
    pub(in crate::commands) head: String,
    /// Of each job of which both are known: the forecast's P10, P50 and P90, and when it really started; seconds from now on.
    pub(in crate::commands) jobs: Vec<([f64; 3], f64)>,
    /// Whether P10 and P90 are of draws.
    pub(in crate::commands) drawn: bool,
}

/// A row a forecast: how far its P50 is off, and how many real starts are between P10 and P90.
pub(in crate::commands) fn accuracy(all: &[Accuracy]) -> Frame {
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
        // Of what a forecast never starts it is not known how far it is off.
        let at = |share: f64| quantile(&off, share).filter(|off| off.is_finite()).map_or(Value::Unknown, Value::Number);
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
