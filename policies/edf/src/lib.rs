//! EDF: the job whose deadline is earliest comes first; jobs without a deadline come last, by submission.
//!
//! With `admission` it refuses jobs, as ElasticFlow (Gu et al., ASPLOS 2023) does with elastic ones; here jobs keep their size.

mod admission;

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, FixedOrder, Job, Kind, Knowledge, Param, Placement, Policy,
    PolicyError, Reason, Setup,
};

use crate::admission::{Admission, Rule};

/// The policy.
pub struct Edf {
    order: FixedOrder,
    admission: Option<Admission>,
}

/// Ids follow submissions, so the id orders jobs of one deadline.
fn key(job: &Job) -> u64 {
    job.deadline.unwrap_or(u64::MAX)
}

const ADMISSION: Param = Param {
    name: "admission",
    kind: Kind::Choice(Rule::WORDS),
    default: "\"all\"",
    about: "Which jobs are refused: none; those that wait and could not meet their deadline if they started now; or, as they come, those that would miss their deadline or make another job miss its own, if all GPUs that are up were one pool and preemption free (both need `remaining`, on the first type that a job allows; a job of unknown length is not refused, nor by `feasible` one that was there before the policy took over). The time that `feasible` takes grows with the square of the jobs with deadlines.",
};

impl Policy for Edf {
    fn about() -> About {
        About {
            name: "edf",
            about: "earliest deadline first, preempts; admission by deadlines as a parameter",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::REFUSE | Placement::follows(),
            needs: Knowledge::empty(),
            params: const {
                &{
                    let [preempt, backfill, depth, lines, place, draining] = FixedOrder::PARAMS;
                    [preempt, backfill, depth, lines, place, draining, ADMISSION]
                }
            },
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let admission = Rule::named(config.choice("admission")).map(Admission::new);
        if admission.is_some() && !setup.knowledge.contains(Knowledge::REMAINING) {
            let found = config.choice("admission");
            return Err(PolicyError::Unsupported(format!("admission {found:?} needs to be told `remaining`")));
        }
        Ok(Edf { order: FixedOrder::new(config, setup, key)?, admission })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.order.take_in(batch, cluster);
        if let Some(admission) = &mut self.admission {
            for id in admission.refused(batch, cluster) {
                self.order.remove(cluster.job(id));
                cluster.refuse(id);
            }
        }
        self.order.pass(cluster);
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        self.order.why(job, cluster)
    }
}

sandtable_policy::export!(Edf);

#[cfg(test)]
mod tests {
    use super::Edf;
    use sandtable_policy::testing::{TINY, completion_times, refusal};

    #[test]
    fn jobs_without_a_deadline_start_in_the_order_of_submission() {
        for admission in ["all", "hopeful", "feasible"] {
            let config = format!("{{\"admission\": {admission:?}}}");
            assert_eq!(completion_times::<Edf>(&config, TINY.0, TINY.1), [5000, 6000]);
        }
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        assert!(refusal::<Edf>(r#"{"admission": "some"}"#).starts_with("`admission`: expected one of"));
    }
}
