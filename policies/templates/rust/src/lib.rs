//! NAME: first come, first served; a job that finds no place blocks those behind it.
//!
//! Everything that a policy knows comes in through `new` and `decide`: it has no clock, no file and no network. The SDK keeps
//! the mirror of the cluster; its documentation is `cargo doc --open`.

use sandtable_policy::{
    About, Backfill, Backlog, Batch, Cluster, Config, Kind, Knowledge, Param, Placement, Policy, PolicyError, Setup,
};

/// The policy between calls.
pub struct Mine {
    waiting: Backlog,
    backfill: Backfill,
}

impl Policy for Mine {
    fn about() -> About {
        About {
            name: "NAME",
            about: "first come, first served, in Rust",
            uses: Placement::follows(),
            needs: Knowledge::empty(),
            params: &[Param {
                name: "skip",
                kind: Kind::Flag,
                default: "false",
                about: "Whether jobs may pass one that finds no place.",
            }],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        let backfill = if config.flag("skip") { Backfill::Skip } else { Backfill::None };
        Ok(Mine { waiting: Backlog::default(), backfill })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for job in batch.events.iter().flat_map(|event| cluster.queued_by(event)) {
            // The order in which jobs are looked at; ties go to the lower id.
            self.waiting.push(job, job.submitted);
        }
        self.waiting.start(cluster, Placement::Packed, self.backfill);
        Ok(())
    }
}

sandtable_policy::export!(Mine);

#[cfg(test)]
mod tests {
    use super::Mine;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn a_job_that_finds_no_place_blocks_those_behind_it() {
        // Two GPUs; jobs as submission, GPUs and run time.
        let jobs = [(0, 1, 100), (1, 2, 100), (2, 1, 10)];
        assert_eq!(completion_times::<Mine>("{}", &[2], &jobs), [100, 199, 208]);
        assert_eq!(completion_times::<Mine>("{\"skip\": true}", &[2], &jobs), [100, 199, 10]);
    }
}
