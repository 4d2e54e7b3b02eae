//! How the queues of an experiment fared.

use sandtable_hardware::{Duration, QueueId, SECOND, queue_and_groups};
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, ratio};
use crate::ledger::Ledger;
use crate::queue_tracker::QueueIntegrals;
use crate::row::{JobRow, Outcome};

/// A queue or a group, with the queues in it. GPUs are means over the window; a GPU that several jobs share counts for each, shares of
/// one as such.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueUse {
    /// Its name.
    pub name: String,
    /// Whether other queues are in it.
    pub is_group: bool,
    /// Jobs that count.
    pub jobs: usize,
    /// Those that completed.
    pub completed: usize,
    /// Completion times of these.
    pub jct: Distribution,
    /// Their times without GPUs before the end.
    pub waiting_total: Distribution,
    /// Times that the policy took GPUs from its jobs.
    pub preemptions: u64,
    /// GPUs that its jobs held.
    pub held: f64,
    /// GPUs that it deserved: see [`deserved`](crate::deserved).
    pub deserved: f64,
    /// GPUs that it held beyond those that it is guaranteed.
    pub borrowed: f64,
    /// GPUs that it deserved and did not hold.
    pub short: f64,
    /// GPU-hours that its jobs held of GPUs that the policy took from jobs of other queues, as long as those wait.
    pub reclaimed_gpu_h: f64,
    /// GPU-hours that jobs of other queues held of GPUs that the policy took from its own, as long as those wait.
    pub given_up_gpu_h: f64,
}

impl QueueUse {
    /// Of a closed ledger, by queue; none where there are no queues.
    pub(crate) fn of(ledger: &Ledger) -> Vec<QueueUse> {
        let Some(tracker) = &ledger.queues else { return Vec::new() };
        let areas = ledger.measured.of_window(&tracker.areas, &tracker.active);
        let time = ledger.measured.in_window().time.as_micros_f64();
        let mean = |area: f64| ratio(area, time);
        let hours = |area: f64| area / SECOND.as_micros_f64() / 3600.0;
        let mut tallies: Vec<Tally> = tracker.queues.iter().map(|_| Tally::default()).collect();
        for row in ledger.rows().filter(|row| ledger.measured.window.has(row.submit)) {
            for id in row.queue.into_iter().flat_map(|queue| queue_and_groups(&tracker.queues, queue)) {
                tallies[id.index()].add(&row);
            }
        }
        let of_queue = |(at, tally): (usize, Tally)| {
            let QueueIntegrals { held, deserved, borrowed, short, reclaimed, given_up } = areas[at];
            let Tally { jobs, preemptions, jct, waiting } = tally;
            QueueUse {
                name: tracker.queues[at].name.clone(),
                is_group: tracker.queues.iter().any(|queue| queue.parent == Some(QueueId::at(at))),
                jobs,
                completed: jct.len(),
                jct: Distribution::of(jct),
                waiting_total: Distribution::of(waiting),
                preemptions,
                held: mean(held),
                deserved: mean(deserved),
                borrowed: mean(borrowed),
                short: mean(short),
                reclaimed_gpu_h: hours(reclaimed),
                given_up_gpu_h: hours(given_up),
            }
        };
        tallies.into_iter().enumerate().map(of_queue).collect()
    }
}

/// What is counted of the jobs of a queue.
#[derive(Default)]
struct Tally {
    jobs: usize,
    preemptions: u64,
    /// Of those that completed.
    jct: Vec<Duration>,
    waiting: Vec<Duration>,
}

impl Tally {
    fn add(&mut self, row: &JobRow) {
        self.jobs += 1;
        self.preemptions += u64::from(row.preemptions);
        if row.outcome == Outcome::Completed {
            let jct = row.jct();
            self.jct.push(jct);
            self.waiting.push(jct - row.held.min(jct));
        }
    }
}
