//! Distribution functions of jobs, a line a policy.

use sandtable_core::display::Unit;
use sandtable_results::schema::JobRecord;

use super::Runs;
use crate::plot::{Axis, Figure, Line};

/// Places of an axis at which a function is told.
const PLACES: usize = 200;

/// What slowdown takes the shortest jobs for, in seconds.
const SHORTEST: f64 = 10.0;

/// What is told of a job.
struct JobQuantity {
    id: &'static str,
    title: &'static str,
    x: &'static str,
    axis: Axis,
    of: fn(&JobRecord) -> Option<f64>,
    whose: &'static str,
}

const ALL: &[JobQuantity] = &[
    JobQuantity {
        id: "jct",
        title: "Job completion time",
        x: "completion time",
        axis: Axis::LogSeconds,
        of: JobRecord::jct,
        whose: "Jobs that completed",
    },
    JobQuantity {
        id: "waiting",
        title: "Time to the first start",
        x: "time until its policy first starts it",
        axis: Axis::LogSeconds,
        of: JobRecord::wait,
        whose: "Jobs that were ever started; where jobs are preempted GPUs can come later than that",
    },
    JobQuantity {
        id: "slowdown",
        title: "Slowdown",
        x: "completion time over time with progress",
        axis: Axis::Log,
        of: slowdown,
        whose: "Jobs that completed; the time with progress counts as 10 s at least",
    },
    JobQuantity {
        id: "rho",
        title: "Finish-time fairness ρ",
        x: "completion time over that with a fair share",
        axis: Axis::Log,
        of: JobRecord::rho,
        whose: "Jobs that completed; a fair share is one of the cluster among all that were there meanwhile (Themis)",
    },
];

/// Completion time over the time in which a job made progress that lasted, at least 1.
pub(super) fn slowdown(job: &JobRecord) -> Option<f64> {
    Some((job.jct()? / job.productive_s.f64().max(SHORTEST)).max(1.0))
}

pub(super) fn figures(all: &[Runs<'_>], at: &str) -> Vec<(Figure, String)> {
    let seeds = all.iter().map(|runs| runs.all.len()).max().unwrap_or(0);
    let runs = if seeds > 1 { format!("over {seeds} seeds") } else { "of one seed".into() };
    let one = |told: &JobQuantity| {
        let values = |of: &Runs<'_>| {
            let jobs = of.all.iter().flat_map(|run| &run.jobs);
            (of.label.to_string(), jobs.filter_map(told.of).collect())
        };
        let values: Vec<(String, Vec<f64>)> = all.iter().map(values).collect();
        let caption =
            format!("{}, {runs}; where the axis counts by factors, those of 0 are the part at its edge.", told.whose);
        (distribution(told, at, values), caption)
    };
    ALL.iter().map(one).collect()
}

/// A distribution function by policy, over every seed, told at places that all lines share.
fn distribution(told: &JobQuantity, at: &str, mut all: Vec<(String, Vec<f64>)>) -> Figure {
    let positive = || all.iter().flat_map(|(_, values)| values).copied().filter(|x| *x > 0.0);
    let (least, most) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    let places: Vec<f64> = match most > least {
        true => {
            let step = libm::log(most / least) / (PLACES - 1) as f64;
            let place = |number: usize| least * libm::exp(step * number as f64);
            (0..PLACES - 1).map(place).chain([most]).collect()
        }
        // All are the same: a step at it.
        false => [least, 2.0 * least].into_iter().filter(|_| most > 0.0).collect(),
    };
    all.iter_mut().for_each(|(_, values)| values.sort_unstable_by(f64::total_cmp));
    let line = |(name, values): &(String, Vec<f64>)| {
        let part = |x: f64| values.partition_point(|value| *value <= x) as f64 / values.len() as f64;
        let known = places.iter().filter(|_| !values.is_empty());
        Line { name: name.clone(), points: known.map(|x| (*x, part(*x))).collect(), half: Vec::new(), runs: Vec::new() }
    };
    Figure {
        id: told.id.into(),
        title: told.title.into(),
        at: at.into(),
        x: told.x.into(),
        y: "part of the jobs".into(),
        axis: told.axis.clone(),
        unit: Unit::Times,
        steps: false,
        part: true,
        y_range: Some((0.0, 1.0)),
        lines: all.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_at_one_for_every_policy_and_begins_with_those_of_zero() {
        let all = vec![
            ("a".to_string(), vec![0.0, 10.0, 1000.0, 1000.0]),
            ("b".to_string(), vec![10.0]),
            ("c".to_string(), vec![]),
        ];
        let figure = distribution(&ALL[1], "", all);
        let ends = |at: usize| (figure.lines[at].points.first().copied(), figure.lines[at].points.last().copied());
        assert_eq!(ends(0), (Some((10.0, 0.5)), Some((1000.0, 1.0))));
        assert_eq!(ends(1), (Some((10.0, 1.0)), Some((1000.0, 1.0))));
        assert_eq!(ends(2), (None, None));
    }
}
