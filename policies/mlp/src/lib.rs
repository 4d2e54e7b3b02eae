//! MLP: a neural network gives each job that waits a score, and the highest score comes first; nothing is preempted.
//!
//! The network is trained elsewhere; its weights are a file that the experiment names, in the form of [`Network`]. All jobs that wait are
//! scored anew at each call at which one of them could start. A network with `slots` decides in turns (`sandtable-turns`), as an agent of `sandtable env` does.

mod network;

use sandtable_policy::driver::needed;
use sandtable_policy::{
    About, Backfill, Batch, Cadence, Cluster, Config, Job, JobId, Kind, Knowledge, Param, Placement, Policy,
    PolicyError, Reason, Setup, Shapes,
};

use network::InTurns;
pub use network::Network;
use sandtable_turns::{Input, Known, View, in_turns, still_waiting};

/// The policy.
pub struct Mlp {
    network: Network,
    /// What it is shown where it decides in turns.
    view: Option<View>,
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
        let nodes = &setup.topology.nodes;
        let bad = |why: String| PolicyError::BadConfig(format!("weights: {why}"));
        let network = Network::read(&setup.weights, nodes.len()).map_err(bad)?;
        if network.inputs.contains(&Input::Seconds) {
            needed("input \"seconds\" of mlp", Knowledge::REMAINING, setup.knowledge)?;
        }
        let backfill = if config.choice("backfill") == "none" { Backfill::None } else { Backfill::Skip };
        if backfill == Backfill::None && network.slots.is_some() {
            return Err(bad("a network with `slots` says itself what waits: `backfill` is for one without".into()));
        }
        let view = network.slots.map(|slots| View::new(&network.inputs, slots, nodes));
        Ok(Mlp {
            network,
            view,
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
        still_waiting(&mut self.waiting, batch, cluster);
        self.head = None;
        if let Some(view) = &self.view {
            let mut agent = InTurns { network: &self.network, view };
            return in_turns(&mut agent, view, &mut self.waiting, cluster, self.place);
        }
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
        let known = Known::of(cluster, self.waiting.len());
        let score = |(id, seconds): (&JobId, f64)| {
            let job = cluster.job(*id);
            let inputs = self.network.inputs.iter().map(|input| known.of_job(*input, job, cluster.now(), seconds));
            let score = self.network.outputs(inputs.collect())[0];
            // Which NaN it would be is the machine's.
            (if score.is_nan() { f64::NEG_INFINITY } else { score }, *id)
        };
        let mut scored: Vec<(f64, JobId)> = self.waiting.iter().zip(seconds).map(score).collect();
        scored.sort_unstable_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
        scored.into_iter().map(|(_, id)| id).collect()
    }
}

sandtable_policy::export!(Mlp);
