//! Horus+: Horus with its queue parted into clusters of like jobs, and a credit that bounds how long any of them waits
//! (Yeung et al., TPDS 2022; by the first author's public simulator).

use std::collections::BTreeSet;

use sandtable_horus::queue::{Order, cluster as parted, credit, richest};
use sandtable_horus::{Stage, params, rules};
use sandtable_policy::{
    Abilities, About, Batch, Cluster, Config, Draws, Event, JobId, Kind, Knowledge, Param, Policy, PolicyError, Setup,
};

/// The policy.
pub struct HorusPlus {
    stage: Stage,
    order: Order,
    lookahead: usize,
    tick: f64,
    /// By rank, each.
    queues: Vec<BTreeSet<(u64, u64, JobId)>>,
    draws: Draws,
}

impl Policy for HorusPlus {
    fn about() -> About {
        About {
            name: "horus-plus",
            about: "Horus with clustered queues and credits (Yeung et al. 2022, by the first author's public simulator; features are normalised)",
            uses: Abilities::SHARE,
            needs: Knowledge::UTILISATION | Knowledge::MEMORY,
            params: &[
                Param {
                    name: "queues",
                    kind: Kind::Number { min: 1.0, max: 64.0 },
                    default: "3",
                    about: "Clusters into which waiting jobs are parted.",
                },
                Param {
                    name: "tick",
                    kind: Kind::Number { min: 0.001, max: 1e6 },
                    default: "60",
                    about: "Seconds that a wait is counted in.",
                },
                params::MEM_WEIGHT,
                params::OVER_PENALTY,
                params::MAX_TASKS,
                params::MEM_MARGIN,
                params::LOOKAHEAD,
                params::THETA,
                params::ORDER,
                params::COMPAT,
                params::COUNT,
                params::PEAK,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let stage = Stage::new("horus-plus", rules(config), config.number("peak"), setup)?;
        let queues = vec![BTreeSet::new(); config.number("queues") as usize];
        let (order, lookahead) = (Order::named(config.choice("order")), config.number("lookahead") as usize);
        Ok(HorusPlus { stage, order, lookahead, tick: config.number("tick"), queues, draws: Draws::new(setup.seed) })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.stage.take_in(&batch.events, cluster);
        let mut back: Vec<JobId> = Vec::new();
        for event in &batch.events {
            if let Some(job) = cluster.queued_by(event) {
                back.push(job.id);
            }
        }
        self.stage.refresh(cluster);
        if !back.is_empty() {
            let arrived = batch.events.iter().any(|event| matches!(event, Event::JobArrived(_)));
            self.recluster(cluster, &back, arrived);
        }
        while self.start_one(cluster) {}
        Ok(())
    }
}

impl HorusPlus {
    fn rank(&mut self, cluster: &Cluster, id: JobId) -> (u64, u64, JobId) {
        let job = cluster.job(id);
        let task = self.stage.task(job, job.gpu_types[0]);
        self.order.rank(task.util_avg, job.submitted, id)
    }

    /// All waiting jobs find their queues anew where one has arrived; else those that are back join the first.
    fn recluster(&mut self, cluster: &Cluster, back: &[JobId], arrived: bool) {
        if !arrived {
            for id in back {
                let rank = self.rank(cluster, *id);
                self.queues[0].insert(rank);
            }
            return;
        }
        let mut ids: Vec<JobId> = self.queues.iter().flatten().map(|rank| rank.2).collect();
        ids.extend(back);
        ids.sort_unstable();
        ids.dedup();
        let mut rows = Vec::with_capacity(ids.len());
        for id in &ids {
            let job = cluster.job(*id);
            let (task, gang) = (self.stage.task(job, job.gpu_types[0]), f64::from(job.gpus));
            let memory = if task.memory.is_finite() { task.memory } else { 0.0 };
            rows.push(vec![gang, task.util_avg, 1.0, gang, task.util_max, memory, memory]);
        }
        let of = parted(&rows, self.queues.len(), &mut self.draws);
        self.queues.iter_mut().for_each(BTreeSet::clear);
        for (id, queue) in ids.into_iter().zip(of) {
            let rank = self.rank(cluster, id);
            self.queues[queue].insert(rank);
        }
    }

    /// Takes the first of the queue with the largest credit, up to `lookahead` times, and starts the first that finds a
    /// place; the others go back.
    fn start_one(&mut self, cluster: &mut Cluster) -> bool {
        let now = cluster.now();
        let wait = |id: JobId| now.saturating_sub(cluster.job(id).submitted) as f64 / 1e6 / self.tick;
        let mut waits: Vec<Vec<f64>> =
            self.queues.iter().map(|queue| queue.iter().map(|rank| wait(rank.2)).collect()).collect();
        let mut popped: Vec<(usize, (u64, u64, JobId))> = Vec::new();
        while popped.len() < self.lookahead {
            let credits: Vec<f64> = waits.iter().map(|waits| credit(waits)).collect();
            let Some(queue) = richest(&credits) else { break };
            let Some(rank) = self.queues[queue].pop_first() else { break };
            waits[queue].remove(0);
            popped.push((queue, rank));
        }
        let mut started = None;
        for (_, rank) in &popped {
            let job = cluster.job(rank.2);
            if let Some(gpus) = self.stage.plan(cluster, job) {
                self.stage.start(cluster, rank.2, gpus);
                started = Some(rank.2);
                break;
            }
        }
        for (queue, rank) in popped.into_iter().filter(|(_, rank)| Some(rank.2) != started) {
            self.queues[queue].insert(rank);
        }
        started.is_some()
    }
}

sandtable_policy::export!(HorusPlus);
