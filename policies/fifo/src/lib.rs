//! FIFO: jobs start in the order of submission and are never preempted.
//!
//! Both readings of the name in the literature are here, as `backfill`: with `none` a job that finds no place blocks
//! those behind it; with `skip` it does not (Tiresias' `fjf`, PAI's FIFO); `easy` lets jobs jump it where estimates
//! say that it starts no later for that.

use sandtable_policy::{
    Abilities, About, Backfill, Backlog, Batch, Cluster, Config, Event, JobPhase, Kind, Knowledge, Param, Placement,
    Policy, PolicyError, Setup,
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
            uses: Abilities::empty(),
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "backfill",
                    kind: Kind::Choice(Backfill::WORDS),
                    default: "\"none\"",
                    about: "What happens behind a job that finds no place: it blocks, is skipped, or is jumped where estimates allow (EASY).",
                },
                Param {
                    name: "placement",
                    kind: Kind::Choice(Placement::WORDS),
                    default: "\"packed\"",
                    about: "Which GPUs a gang gets: best fit, the fewest nodes or wait, or any.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let backfill = Backfill::named(config.choice("backfill"));
        if backfill == Backfill::Easy && !setup.knowledge.contains(Knowledge::REMAINING) {
            return Err(PolicyError::Unsupported("backfill \"easy\" needs to be told `remaining`".into()));
        }
        Ok(Fifo { backlog: Backlog::default(), backfill, place: Placement::named(config.choice("placement")) })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            let id = match event {
                Event::JobArrived(info) => info.id,
                Event::JobChanged(change) if change.phase == JobPhase::Queued => change.job,
                _ => continue,
            };
            let job = cluster.job(id);
            self.backlog.push(job, job.submitted);
        }
        self.backlog.start(cluster, self.place, self.backfill);
        Ok(())
    }
}

sandtable_policy::export!(Fifo);
