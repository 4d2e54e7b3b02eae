//! Horus+: Horus with its queue parted into clusters of like jobs, and a credit that bounds how long any of them waits
//! (Yeung et al., TPDS 2022; by the first author's public simulator).

use std::collections::{BTreeMap, BTreeSet};

use sandtable_horus::queue::{Order, cluster as parted, credit, richest};
use sandtable_horus::{PredictedCluster, params, rules};
use sandtable_policy::{
    Abilities, About, Batch, Cluster, Config, Draws, Event, JobId, Kind, Knowledge, Param, Policy, PolicyError, Setup,
};

/// Waiting jobs that are alike.
#[derive(Clone, Default)]
struct Queue {
    /// By rank.
    jobs: BTreeSet<Rank>,
    /// Since when they wait, ascending.
    since: Vec<u64>,
}

/// Rank of a job in its queue: utilisation, since when it waits, id.
type Rank = (u64, u64, JobId);

impl Queue {
    fn insert(&mut self, rank: Rank) {
        if self.jobs.insert(rank) {
            let at = self.since.partition_point(|since| *since < rank.1);
            self.since.insert(at, rank.1);
        }
    }

    fn pop(&mut self) -> Option<Rank> {
        let rank = self.jobs.pop_first()?;
        let at = self.since.partition_point(|since| *since < rank.1);
        self.since.remove(at);
        Some(rank)
    }

    /// What it may claim, in ticks.
    fn credit(&self, now: u64, tick: f64) -> f64 {
        credit(self.since.len(), |at| now.saturating_sub(self.since[at]) as f64 / 1e6 / tick)
    }
}

/// The policy.
pub struct HorusPlus {
    view: PredictedCluster,
    order: Order,
    lookahead: usize,
    tick: f64,
    queues: Vec<Queue>,
    /// The queue that each job was started from: it comes back to it.
    from: BTreeMap<JobId, usize>,
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
                params::TWICE,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let view = PredictedCluster::new("horus-plus", rules(config), config.number("peak"), setup)?;
        let queues = vec![Queue::default(); config.number("queues") as usize];
        let (order, lookahead) = (Order::named(config.choice("order")), config.number("lookahead") as usize);
        let (tick, from, draws) = (config.number("tick"), BTreeMap::new(), Draws::new(setup.seed));
        Ok(HorusPlus { view, order, lookahead, tick, queues, from, draws })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.view.take_in(&batch.events, cluster);
        let mut back: Vec<JobId> = Vec::new();
        for event in &batch.events {
            if let Event::JobEnded(end) = event {
                self.from.remove(&end.job);
            }
            for job in cluster.queued_by(event) {
                back.push(job.id);
            }
        }
        self.view.refresh(cluster);
        if !back.is_empty() {
            let arrived = batch.events.iter().any(|event| matches!(event, Event::JobArrived(_)));
            self.recluster(cluster, &back, arrived);
        }
        while self.start_one(cluster) {}
        Ok(())
    }
}

impl HorusPlus {
    fn rank(&mut self, cluster: &Cluster, id: JobId) -> Rank {
        let job = cluster.job(id);
        let since = cluster.now() - job.waited(cluster.now());
        self.order.rank(self.view.task(job, job.gpu_types[0]).util_avg, since, id)
    }

    /// All waiting jobs find their queues anew where one has arrived; else those that are back join the queue that they
    /// came from.
    fn recluster(&mut self, cluster: &Cluster, back: &[JobId], arrived: bool) {
        if !arrived {
            for id in back {
                let rank = self.rank(cluster, *id);
                let queue = self.from.get(id).copied().unwrap_or(0);
                self.queues[queue].insert(rank);
            }
            return;
        }
        let mut ids: Vec<JobId> = self.queues.iter().flat_map(|queue| &queue.jobs).map(|rank| rank.2).collect();
        ids.extend(back);
        ids.sort_unstable();
        ids.dedup();
        // Jobs with equal features are one row with their weight.
        let mut known: BTreeMap<[u64; 4], usize> = BTreeMap::new();
        let (mut rows, mut weights, mut row_of) = (Vec::new(), Vec::new(), Vec::with_capacity(ids.len()));
        for id in &ids {
            let job = cluster.job(*id);
            let (task, gang) = (self.view.task(job, job.gpu_types[0]), f64::from(job.gpus));
            let memory = if task.memory.is_finite() { task.memory } else { 0.0 };
            let key = [gang, task.util_avg, task.util_max, memory].map(f64::to_bits);
            let row = *known.entry(key).or_insert_with(|| {
                rows.push(vec![gang, task.util_avg, 1.0, gang, task.util_max, memory, memory]);
                weights.push(0);
                rows.len() - 1
            });
            weights[row] += 1;
            row_of.push(row);
        }
        let of = parted(&rows, &weights, self.queues.len(), &mut self.draws);
        self.queues.iter_mut().for_each(|queue| *queue = Queue::default());
        for (id, row) in ids.into_iter().zip(row_of) {
            let rank = self.rank(cluster, id);
            self.queues[of[row]].insert(rank);
        }
    }

    /// Takes the first of the queue with the largest credit, up to `lookahead` times, and starts the first that finds a
    /// place; the others go back.
    fn start_one(&mut self, cluster: &mut Cluster) -> bool {
        let now = cluster.now();
        let mut popped: Vec<(usize, Rank)> = Vec::new();
        while popped.len() < self.lookahead {
            let credits: Vec<f64> = self.queues.iter().map(|queue| queue.credit(now, self.tick)).collect();
            let Some(queue) = richest(&credits) else { break };
            let Some(rank) = self.queues[queue].pop() else { break };
            popped.push((queue, rank));
        }
        let mut started = None;
        for (queue, rank) in &popped {
            let job = cluster.job(rank.2);
            if let Some(gpus) = self.view.plan(cluster, job) {
                self.view.start(cluster, rank.2, gpus);
                self.from.insert(rank.2, *queue);
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
