//! SJF: the job that takes the shortest comes first; nothing is preempted.
//!
//! How long a job takes is asked once, when it arrives (and again when a failure sends it back); a job without an
//! estimate comes last. With `backfill: "none"` the shortest job that finds no place blocks the others (Lucid's
//! simulator); with `skip` it does not (PAI's).

use sandtable_policy::{
    About, Backfill, Backlog, Batch, Cadence, Cluster, Config, Job, JobId, Knowledge, Lines, Placement, Policy,
    PolicyError, Reason, Setup,
};

/// The policy.
pub struct Sjf {
    backlog: Backlog,
    backfill: Backfill,
    place: Placement,
}

impl Policy for Sjf {
    fn about() -> About {
        About {
            name: "sjf",
            about: "shortest job first by the bound estimate of run time, never preempts",
            uses: Placement::follows(),
            needs: Knowledge::REMAINING,
            params: &[Backfill::PARAM, Backfill::DEPTH, Lines::PARAM, Placement::PARAM],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let (backlog, backfill) = (Backlog::new(Lines::named(config.choice("lines"))), Backfill::new(config, setup)?);
        Ok(Sjf { backlog, backfill, place: Placement::named(config.choice("placement")) })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let queued = batch.events.iter().flat_map(|event| cluster.queued_by(event));
        let waiting: Vec<JobId> = queued.map(|job| job.id).collect();
        let lengths = cluster.remaining(&waiting);
        for (id, seconds) in waiting.into_iter().zip(lengths) {
            let micros = if seconds.is_nan() { u64::MAX } else { (seconds * 1e6 + 0.5) as u64 };
            self.backlog.push(cluster.job(id), micros);
        }
        self.backlog.start(cluster, self.place, self.backfill);
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        self.backlog.why(job, cluster, self.backfill)
    }
}

sandtable_policy::export!(Sjf);

#[cfg(test)]
mod tests {
    use super::Sjf;
    use sandtable_policy::testing::{SMALL, TINY, completion_times, refusal};

    #[test]
    fn the_shortest_that_waits_comes_first() {
        assert_eq!(completion_times::<Sjf>("{}", TINY.0, TINY.1), [5000, 6000]);
        // Jobs of 300, 200 and 100 s wait for one GPU.
        let jobs = [(0, 1, 50), (1, 1, 300), (2, 1, 200), (3, 1, 100)];
        assert_eq!(completion_times::<Sjf>("{}", &[1], &jobs), [50, 649, 348, 147]);
    }

    #[test]
    fn blocking_is_a_parameter() {
        let times = completion_times::<Sjf>("{\"backfill\": \"none\"}", SMALL.0, SMALL.1);
        // The gang of four blocks the longer job behind it, not the shorter ones before it.
        assert_eq!(times, [6000, 6990, 15980, 500, 590]);
        assert!(refusal::<Sjf>("{\"placement\": \"best\"}").starts_with("`placement`: expected one of"));
    }
}
