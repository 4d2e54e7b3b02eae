//! Runs whose jobs wait for others, and runs that end early.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sandtable_hardware::{Costs, Duration, Instant, JobId};
use sandtable_runtime::inputs::{After, Condition, Happens};
use sandtable_runtime::{JobOutcome, Unfinished};

use super::{case, simulate, simulate_with};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// What waits for others is submitted when they have begun or ended, and else not.
    #[test]
    fn what_waits_for_others_comes_after_them((case, conditions) in (case(), 1..4usize)) {
        let plus = |of: usize| Duration::from_secs((case.seed + of as u64) % 3 * 7);
        let what = |of: usize| if (case.seed as usize + of).is_multiple_of(2) { Happens::Started } else { Happens::Ended };
        let condition = |of: usize| Condition { job: JobId::at(of), what: what(of), plus: plus(of) };
        // Each third waits for those before it; of two for any of them.
        let waits = |job: usize| (JobId::at(job), After {
            all: (job.saturating_sub(conditions)..job).map(condition).collect(),
            any: job.is_multiple_of(2),
        });
        let after: BTreeMap<JobId, After> = (1..case.jobs.len()).step_by(3).map(waits).collect();
        let run = simulate_with(&case, None, after.clone());
        let rows: Vec<_> = run.ledger.rows().collect();
        for (job, waits) in &after {
            let met = waits.all.iter().map(|of| {
                let row = &rows[of.job.index()];
                // A job that the policy refuses ends without a beginning.
                let at = if of.what == Happens::Started { row.first_start } else { row.end };
                at.map(|at| at + of.plus)
            });
            let met: Vec<Option<Instant>> = met.collect();
            let ready = if waits.any { met.iter().flatten().min() } else { met.iter().flatten().max() };
            let holds = if waits.any { ready.is_none() } else { met.iter().any(Option::is_none) };
            match (rows[job.index()].first_start, ready) {
                (Some(start), Some(ready)) => prop_assert!(!holds && start >= *ready),
                (Some(_), None) => prop_assert!(false, "it began, and what it waits for never happened"),
                (None, _) => {}
            }
            if holds && run.fault.is_none() {
                prop_assert_eq!(&rows[job.index()].outcome, &JobOutcome::Unfinished(Unfinished::NeverSubmitted));
            }
        }
    }

    /// Up to its last instant a run is the one that goes on: all jobs start and end then as they do there.
    #[test]
    fn a_run_that_ends_early_is_the_beginning_of_one_that_does_not((case, part) in (case(), 1..100u64)) {
        let whole = simulate(&case);
        let last = whole.ledger.rows().filter_map(|row| row.end.or(row.first_start)).max().unwrap_or(Instant::START);
        let until = Instant::at(last.since_start() * part / 100);
        let early = simulate_with(&case, Some(until), BTreeMap::new());
        prop_assert!(early.fault.is_none() || whole.fault.is_some());
        if early.fault.is_none() {
            let by = |at: Option<Instant>, late: Duration| at.filter(|at| *at + late <= until);
            // Where epochs end on ticks, a job's end is known when its GPUs are free: `linger` and half a tick later.
            let Costs { linger, epochs_end_on: tick, .. } = case.costs;
            let late = if tick.is_zero() { Duration::ZERO } else { linger + tick };
            for (early, whole) in early.ledger.rows().zip(whole.ledger.rows()) {
                let on_time = Duration::ZERO;
                prop_assert_eq!(by(early.first_start, on_time), by(whole.first_start, on_time));
                prop_assert_eq!(by(early.end, late), by(whole.end, late));
                // What it knows beside that is no other end than that of the whole run.
                prop_assert!(early.end.is_none_or(|end| by(whole.end, on_time) == Some(end)));
            }
        }
    }
}
