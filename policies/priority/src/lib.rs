//! Priority classes: jobs of a higher priority come first, those of one priority in the order of submission; by default they take
//! the GPUs of jobs of a lower one.
//!
//! This is what Kubernetes' PriorityClass and Slurm's partitions with preemption do, over counts of GPUs: the jobs that come first share
//! the cluster, the others stop. A job of the same priority is never preempted for one submitted later.

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, FixedOrder, Job, Knowledge, Placement, Policy, PolicyError,
    Reason, Setup,
};

/// The policy.
pub struct Priority(FixedOrder);

/// Ids follow submissions, so the id orders jobs of one priority.
fn key(job: &Job) -> u64 {
    (i64::from(i32::MAX) - i64::from(job.priority)) as u64
}

impl Policy for Priority {
    fn about() -> About {
        About {
            name: "priority",
            about: "higher priority first, then the order of submission; preempts jobs of a lower priority",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Placement::follows(),
            needs: Knowledge::empty(),
            params: &FixedOrder::PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        FixedOrder::new(config, setup, key).map(Priority)
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.0.take_in(batch, cluster);
        self.0.pass(cluster);
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        self.0.why(job, cluster)
    }
}

sandtable_policy::export!(Priority);

#[cfg(test)]
mod tests {
    use super::Priority;
    use sandtable_policy::testing::{SMALL, TINY, completion_times, refusal};

    #[test]
    fn jobs_of_one_priority_start_in_the_order_of_submission() {
        assert_eq!(completion_times::<Priority>("{}", TINY.0, TINY.1), [5000, 6000]);
        let fifo = completion_times::<Priority>(r#"{"preempt": false, "backfill": "none"}"#, SMALL.0, SMALL.1);
        assert_eq!(fifo, [6000, 6990, 15980, 7470, 7060]);
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        assert!(refusal::<Priority>(r#"{"preempt": 1}"#).starts_with("`preempt`: expected true or false"));
    }
}
