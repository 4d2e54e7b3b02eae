//! FIFO: jobs start in the order of submission and are never preempted.
//!
//! Both readings of the name in the literature are here, as `backfill`: with `none` a job that finds no place blocks
//! those behind it; with `skip` it does not (Tiresias' `fjf`, PAI's FIFO); `easy` lets jobs jump it where estimates
//! say that it starts no later for that, `conservative` where that holds for every job before them. With `lines: "by-type"` each partition
//! of a cluster, named by its type of GPU, has a line of its own.

use sandtable_policy::{
    About, Backfill, Backlog, Batch, Cadence, Cluster, Config, Job, Knowledge, Lines, Param, Placement, Policy,
    PolicyError, Reason, Setup,
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
            about: "first in, first out, never preempts; backfill none, skip (Tiresias' fjf), easy or conservative",
            uses: Placement::follows(),
            needs: Knowledge::empty(),
            params: &[
                Param { default: "\"none\"", ..Backfill::PARAM },
                Backfill::DEPTH,
                Lines::PARAM,
                Placement::PARAM,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let (backlog, backfill) = (Backlog::new(Lines::named(config.choice("lines"))), Backfill::new(config, setup)?);
        Ok(Fifo { backlog, backfill, place: Placement::named(config.choice("placement")) })
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
    use sandtable_policy::Draws;
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

    /// Where estimates are true a plan never changes: in the order of submission each job has the earliest time from which there are GPUs for
    /// it. GPUs by second.
    fn planned(gpus: u32, jobs: &[(u64, u32, u64)]) -> Vec<u64> {
        let mut free = vec![gpus; 200_000];
        let ends = jobs.iter().map(|(submitted, gpus, seconds)| {
            let fits = |at: &usize| free[*at..*at + *seconds as usize].iter().all(|free| free >= gpus);
            let at = (*submitted as usize..).find(fits).expect("a time");
            free[at..at + *seconds as usize].iter_mut().for_each(|free| *free -= gpus);
            at as u64 + seconds - submitted
        });
        ends.collect()
    }

    #[test]
    fn conservative_plans_every_job_at_the_earliest_time_that_the_plans_before_it_leave() {
        let mut draws = Draws::new(7);
        for _ in 0..300 {
            let mut at = 0;
            let mut job = || {
                at += draws.below(40) as u64;
                (at, 1 + draws.below(8) as u32, 1 + draws.below(100) as u64)
            };
            let jobs: Vec<(u64, u32, u64)> = (0..40).map(|_| job()).collect();
            let found = completion_times::<Fifo>("{\"backfill\": \"conservative\"}", &[1; 8], &jobs);
            assert_eq!(found, planned(8, &jobs), "{jobs:?}");
        }
    }

    #[test]
    fn what_is_behind_the_depth_waits() {
        // The gang waits for both GPUs, the next for the gang; the last could run meanwhile.
        let jobs = [(0, 1, 100), (1, 2, 50), (2, 2, 50), (3, 1, 20)];
        let at = |depth: &str| {
            let with = format!("{{\"backfill\": \"conservative\", \"depth\": {depth}}}");
            completion_times::<Fifo>(&with, &[2], &jobs)
        };
        assert_eq!(at("3"), [100, 149, 198, 20]);
        assert_eq!(at("2"), [100, 149, 198, 217]);
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        assert_eq!(
            refusal::<Fifo>("{\"backfil\": \"skip\"}"),
            "no parameter `backfil`: it has backfill, depth, lines, placement"
        );
        let why = "`backfill`: expected one of \"none\", \"skip\", \"easy\", \"conservative\", found 1";
        assert_eq!(refusal::<Fifo>("{\"backfill\": 1}"), why);
    }
}
