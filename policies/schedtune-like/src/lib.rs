//! SchedTune-like: a job takes the GPUs on which it is foretold to be done first, among those whose memory is foretold to hold
//! it (after Albahar et al., CCGrid 2022, of which only the abstract was at hand: the rule is a reconstruction).
//!
//! First come, first served; a job that finds no place is passed over. Of places that promise the same, the one with the
//! most memory in use is taken. A job that ran out of memory all the same gets empty GPUs from then on.

use sandtable_policy::{
    Abilities, About, Batch, Cluster, ColocationQueue, Config, GpuId, GpuTypeId, Job, JobId, Kind, Knowledge, NodeId,
    PairSpeeds, Param, Place, Policy, PolicyError, Quantity, Setup, host,
};
use std::collections::BTreeMap;

/// Assumed of a job beside others where nothing is foretold.
const NO_IDEA_SPEED: f64 = 0.5;

/// The policy.
pub struct SchedTuneLike {
    queue: ColocationQueue,
    foretold: Foretold,
}

/// What predictors have said.
struct Foretold {
    /// Memory counts as so many times what is foretold.
    margin: f64,
    /// MiB by type and what can be told apart of jobs; NaN: unknown.
    memory: BTreeMap<(GpuTypeId, u64), f64>,
    speeds: PairSpeeds,
}

impl Policy for SchedTuneLike {
    fn about() -> About {
        About {
            name: "schedtune-like",
            about: "shared GPUs by foretold memory and completion (after SchedTune, CCGrid 2022, of which only the abstract was at hand)",
            uses: Abilities::SHARE,
            needs: Knowledge::REMAINING | Knowledge::MEMORY | Knowledge::PAIR_SPEED,
            params: &[
                Param {
                    name: "margin",
                    kind: Kind::Number { min: 0.0, max: 10.0 },
                    default: "0.1",
                    about: "Part of the foretold memory that a job may need beyond it.",
                },
                ColocationQueue::MAX_SHARE,
                ColocationQueue::HEAD_PATIENCE,
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        let margin = 1.0 + config.number("margin");
        let foretold = Foretold { margin, memory: BTreeMap::new(), speeds: PairSpeeds::default() };
        Ok(SchedTuneLike { queue: ColocationQueue::new(config), foretold })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.queue.take_in(&batch.events, cluster);
        let foretold = &mut self.foretold;
        self.queue.pass(cluster, |cluster, job, places| foretold.choose(cluster, cluster.job(job), places));
        Ok(())
    }
}

/// A GPU that takes a job, and what it promises.
struct Seat {
    gpu: GpuId,
    speed: f64,
    /// MiB that its residents are foretold to need.
    used: f64,
}

impl Foretold {
    /// The place with the least foretold completion; ties by the most memory in use, then by node.
    fn choose(&mut self, cluster: &Cluster, job: &Job, places: Vec<Place>) -> Option<(NodeId, Vec<GpuId>)> {
        let mut best: Option<(f64, f64, NodeId, Vec<GpuId>)> = None;
        let mut left: BTreeMap<GpuTypeId, f64> = BTreeMap::new();
        for place in places {
            let gpu_type = cluster.node_type(place.node);
            let seats = self.seats(cluster, job, &place);
            let Some(slowest) = seats.last().map(|seat| seat.speed).filter(|_| seats.len() == job.gpus as usize) else {
                continue;
            };
            let left = *left
                .entry(gpu_type)
                .or_insert_with(|| host::estimate(Quantity::Remaining, vec![job.id], vec![gpu_type])[0]);
            // One of unknown length is as long everywhere.
            let done = if left.is_nan() { 1.0 } else { left } / slowest;
            let used = seats.iter().map(|seat| seat.used).sum::<f64>();
            let better =
                |(other, most, ..): &(f64, f64, NodeId, Vec<GpuId>)| done < *other || (done == *other && used > *most);
            if best.as_ref().is_none_or(better) {
                let mut gpus: Vec<GpuId> = seats.iter().map(|seat| seat.gpu).collect();
                gpus.sort_unstable();
                best = Some((done, used, place.node, gpus));
            }
        }
        best.map(|(_, _, node, gpus)| (node, gpus))
    }

    /// As many GPUs of a place as the job asks for, or fewer if no more have the memory: those that slow it down the least, then
    /// the most used.
    fn seats(&mut self, cluster: &Cluster, job: &Job, place: &Place) -> Vec<Seat> {
        let gpu_type = cluster.node_type(place.node);
        let card = match cluster.memory_of(gpu_type) {
            0 => f64::INFINITY,
            mib => f64::from(mib),
        };
        let own = self.memory(gpu_type, job, card);
        let mut seats: Vec<Seat> = Vec::with_capacity(place.eligible.len());
        for gpu in &place.eligible {
            let residents = cluster.residents(*gpu);
            let used: f64 = residents.iter().map(|id| self.memory(gpu_type, cluster.job(*id), card)).sum();
            // What is foretold to fit on no card is tried on an empty one: a prediction may be wrong.
            if !residents.is_empty() && used + own > card {
                continue;
            }
            let speed = self.speed(cluster, gpu_type, job, residents);
            seats.push(Seat { gpu: *gpu, speed, used });
        }
        seats.sort_by(|a, b| b.speed.total_cmp(&a.speed).then(b.used.total_cmp(&a.used)).then(a.gpu.cmp(&b.gpu)));
        seats.truncate(job.gpus as usize);
        seats
    }

    /// MiB that a job may need, its margin included; all of the card where nothing is foretold.
    fn memory(&mut self, gpu_type: GpuTypeId, job: &Job, card: f64) -> f64 {
        let known = self.memory.entry((gpu_type, job.likeness()));
        let mib = *known.or_insert_with(|| host::estimate(Quantity::Memory, vec![job.id], vec![gpu_type])[0]);
        if mib.is_nan() { card } else { mib * self.margin }
    }

    fn speed(&mut self, cluster: &Cluster, gpu_type: GpuTypeId, job: &Job, residents: &[JobId]) -> f64 {
        let speed = self.speeds.of(cluster, gpu_type, job, residents);
        if speed.is_nan() { NO_IDEA_SPEED } else { speed.max(f64::MIN_POSITIVE) }
    }
}

sandtable_policy::export!(SchedTuneLike);
