//! FIFO: jobs start in the order of submission and are never preempted.
//!
//! Both readings of the name in the literature are here, as `backfill`: with `none` a job that finds no place blocks
//! those behind it; with `skip` it does not (Tiresias' `fjf`, PAI's FIFO); `easy` lets jobs jump it where estimates
//! say that it starts no later for that.

use sandtable_policy::{
    About, Backfill, Backlog, Batch, Cadence, Cluster, Config, Job, Knowledge, Param, Placement, Policy, PolicyError,
    Reason, Setup,
};

/// The policy.
pub struct Fifo {
    backlog: Backlog,
    backfill: Backfill,
    place: Placement,
}

impl Policy for Fifo {
    fn about() -> About {
        About {
            name: "fifo",
            about: "first in, first out, never preempts; backfill none, skip (Tiresias' fjf) or easy",
            uses: Placement::follows(),
            needs: Knowledge::empty(),
            params: &[Param { default: "\"none\"", ..Backfill::PARAM }, Placement::PARAM],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let backfill = Backfill::named(config.choice("backfill"));
        if backfill == Backfill::Easy && !setup.knowledge.contains(Knowledge::REMAINING) {
            return Err(PolicyError::Unsupported("backfill \"easy\" needs to be told `remaining`".into()));
        }
        Ok(Fifo { backlog: Backlog::default(), backfill, place: Placement::named(config.choice("placement")) })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for job in batch.events.iter().flat_map(|event| cluster.queued_by(event)) {
            self.backlog.push(job, job.submitted);
        }
        self.backlog.start(cluster, self.place, self.backfill);
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        self.backlog.why(job, cluster, self.backfill)
    }
}

sandtable_policy::export!(Fifo);

#[cfg(test)]
mod tests {
    use super::Fifo;
    use sandtable_policy::testing::{SMALL, TINY, completion_times, refusal};

    #[test]
    fn a_job_that_does_not_fit_blocks_those_behind_it() {
        assert_eq!(completion_times::<Fifo>("{}", TINY.0, TINY.1), [5000, 6000]);
        assert_eq!(completion_times::<Fifo>("{}", SMALL.0, SMALL.1), [6000, 6990, 15980, 7470, 7060]);
    }

    #[test]
    fn or_is_skipped() {
        let times = completion_times::<Fifo>("{\"backfill\": \"skip\"}", SMALL.0, SMALL.1);
        assert_eq!(times, [6000, 9990 + 20, 9000, 6470, 100]);
    }

    #[test]
    fn easy_lets_a_job_jump_only_where_the_head_does_not_wait_for_it() {
        // The head of four GPUs waits for job 0; job 2 outlasts that, job 3 and job 4 do not.
        let times = completion_times::<Fifo>("{\"backfill\": \"easy\"}", SMALL.0, SMALL.1);
        assert_eq!(times, [6000, 6990, 15980, 500, 590]);
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        assert_eq!(refusal::<Fifo>("{\"backfil\": \"skip\"}"), "no parameter `backfil`: it has backfill, placement");
        let why = "`backfill`: expected one of \"none\", \"skip\", \"easy\", found 1";
        assert_eq!(refusal::<Fifo>("{\"backfill\": 1}"), why);
    }
}
