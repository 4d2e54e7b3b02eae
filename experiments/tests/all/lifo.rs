//! LIFO: the job that came last starts first.
use sandtable_policy::{
    Abilities, About, Backfill, Backlog, Batch, Cluster, Config, Event, JobPhase, Kind, Knowledge, Param, Placement,
    Policy, PolicyError, Setup,
};

pub struct Lifo {
    backlog: Backlog,
    place: Placement,
}

impl Policy for Lifo {
    fn about() -> About {
        About {
            name: "lifo",
            about: "last in, first out",
            uses: Abilities::empty(),
            needs: Knowledge::empty(),
            params: &[Param {
                name: "placement",
                kind: Kind::Choice(Placement::WORDS),
                default: "\"packed\"",
                about: "Which GPUs a gang gets.",
            }],
        }
    }
    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(Lifo { backlog: Backlog::default(), place: Placement::named(config.choice("placement")) })
    }
    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            let id = match event {
                Event::JobArrived(arrival) => arrival.job,
                Event::JobChanged(change) if change.phase == JobPhase::Queued => change.job,
                _ => continue,
            };
            let job = cluster.job(id);
            self.backlog.push(job, u64::MAX - job.submitted);
        }
        self.backlog.start(cluster, self.place, Backfill::Skip);
        Ok(())
    }
}

sandtable_policy::export!(Lifo);
