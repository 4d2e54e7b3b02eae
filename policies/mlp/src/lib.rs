//! MLP: a neural network gives each job that waits a score, and the highest score comes first; nothing is preempted.
//!
//! The network is trained elsewhere; its weights are a file that the experiment names, in the form of [`Network`]. All jobs that wait are
//! scored anew at each call at which one of them could start.

mod network;

use sandtable_policy::driver::needed;
use sandtable_policy::{
    About, Backfill, Batch, Cadence, Cluster, Config, GpuTypeId, Job, JobId, Kind, Knowledge, NEVER, Param, Placement,
    Policy, PolicyError, Reason, Setup, Shapes,
};

pub use network::{Input, Network};

/// The policy.
pub struct Mlp {
    network: Network,
    /// Jobs that wait, by id.
    waiting: Vec<JobId>,
    /// The job behind which the latest call started no other; none: there was no such.
    head: Option<JobId>,
    backfill: Backfill,
    place: Placement,
}

impl Policy for Mlp {
    fn about() -> About {
        About {
            name: "mlp",
            about: "the job to which a neural network gives the highest score comes first, never preempts",
            uses: Placement::follows(),
            needs: Knowledge::WEIGHTS,
            params: &[
                Param {
                    kind: Kind::Choice(&["none", "skip"]),
                    about: "What happens behind a job that finds no place: it blocks, or is skipped.",
                    ..Backfill::PARAM
                },
                Placement::PARAM,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let network = Network::read(&setup.weights).map_err(|why| PolicyError::BadConfig(format!("weights: {why}")))?;
        if network.inputs.contains(&Input::Seconds) {
            needed("input \"seconds\" of mlp", Knowledge::REMAINING, setup.knowledge)?;
        }
        let backfill = if config.choice("backfill") == "none" { Backfill::None } else { Backfill::Skip };
        Ok(Mlp {
            network,
            waiting: Vec::new(),
            head: None,
            backfill,
            place: Placement::named(config.choice("placement")),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.waiting.extend(batch.events.iter().flat_map(|event| cluster.queued_by(event)).map(|job| job.id));
        self.waiting.sort_unstable();
        self.waiting.dedup();
        self.waiting.retain(|id| cluster.get(*id).is_some_and(Job::waits));
        self.head = None;
        let mut shapes = Shapes::default();
        if !self.waiting.iter().any(|id| shapes.place(self.place, cluster, cluster.job(*id)).is_some()) {
            return Ok(());
        }
        let mut shapes = Shapes::default();
        for id in self.ranked(cluster) {
            match shapes.place(self.place, cluster, cluster.job(id)) {
                Some(gpus) => cluster.start(id, gpus),
                None if self.backfill == Backfill::None => {
                    self.head = Some(id);
                    break;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        match self.head {
            Some(head) if head != job.id => Reason::Behind(head),
            _ => cluster.why(job),
        }
    }
}

impl Mlp {
    /// Jobs that wait, the highest score first; among equals by id. One whose score is no number comes last.
    fn ranked(&self, cluster: &Cluster) -> Vec<JobId> {
        let seconds = match self.network.inputs.contains(&Input::Seconds) {
            true => cluster.remaining(&self.waiting),
            false => vec![f64::NAN; self.waiting.len()],
        };
        let types = 0..cluster.types() as GpuTypeId;
        let (free, up) = types.fold((0, 0), |(free, up), kind| {
            (free + u64::from(cluster.free_gpus(kind)), up + u64::from(cluster.up_gpus(kind)))
        });
        let (free, queue) = (free as f64 / up.max(1) as f64, libm::log1p(self.waiting.len() as f64));
        let log_seconds = |micros: u64| libm::log1p(micros as f64 / 1e6);
        let value = |input: &Input, job: &Job, seconds: f64| match input {
            Input::Gpus => libm::log1p(f64::from(job.gpus)),
            Input::Seconds if seconds.is_nan() => log_seconds(NEVER),
            Input::Seconds => libm::log1p(seconds),
            Input::Waited => log_seconds(job.waited(cluster.now())),
            Input::Priority => f64::from(job.priority),
            Input::Due => log_seconds(job.deadline.map_or(NEVER, |at| at.saturating_sub(cluster.now()))),
            Input::Free => free,
            Input::Queue => queue,
        };
        let score = |(id, seconds): (&JobId, f64)| {
            let job = cluster.job(*id);
            let inputs = self.network.inputs.iter().map(|input| value(input, job, seconds));
            let score = self.network.score(inputs.collect());
            // Which NaN it would be is the machine's.
            (if score.is_nan() { f64::NEG_INFINITY } else { score }, *id)
        };
        let mut scored: Vec<(f64, JobId)> = self.waiting.iter().zip(seconds).map(score).collect();
        scored.sort_unstable_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
        scored.into_iter().map(|(_, id)| id).collect()
    }
}

sandtable_policy::export!(Mlp);
