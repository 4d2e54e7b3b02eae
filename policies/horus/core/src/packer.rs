//! One queue of jobs for GPUs that are shared: the first few are tried, the first that finds a place starts.

use std::collections::BTreeSet;

use sandtable_policy::{Batch, Cluster, Config, JobId, Kind, Param};

use crate::predicted::PredictedCluster;
use crate::queue::Order;
use crate::score::{Form, Rules};

/// Parameters of the score, by which every policy of the family calls them.
pub mod params {
    use super::{Kind, Param};

    /// Weight of memory in the score.
    pub const MEM_WEIGHT: Param = Param {
        name: "mem_weight",
        kind: Kind::Number { min: 0.0, max: 1000.0 },
        default: "1.3",
        about: "Weight of the part of a GPU's memory that would be in use.",
    };
    /// Weight of utilisation above 100 %.
    pub const OVER_PENALTY: Param = Param {
        name: "over_penalty",
        kind: Kind::Number { min: 0.0, max: 1000.0 },
        default: "1.6",
        about: "Cost of each point of utilisation above 100 over that of each point below.",
    };
    /// Most tasks of a GPU.
    pub const MAX_TASKS: Param = Param {
        name: "max_tasks",
        kind: Kind::Number { min: 1.0, max: 64.0 },
        default: "3",
        about: "Most tasks of a GPU; the host may allow fewer.",
    };
    /// Memory that must stay free.
    pub const MEM_MARGIN: Param = Param {
        name: "mem_margin",
        kind: Kind::Number { min: 0.0, max: 1e6 },
        default: "500",
        about: "MiB of a GPU that must stay free.",
    };
    /// How many jobs are tried.
    pub const LOOKAHEAD: Param = Param {
        name: "lookahead",
        kind: Kind::Number { min: 1.0, max: 10_000.0 },
        default: "5",
        about: "Jobs from the head of the queue that are tried.",
    };
    /// How many jobs are tried where the head blocks the line.
    pub const LOOKAHEAD_ONE: Param = Param { default: "1", ..LOOKAHEAD };
    /// The cap of summed utilisation.
    pub const THETA: Param = Param {
        name: "theta",
        kind: Kind::Number { min: 0.0, max: 6400.0 },
        default: "0",
        about: "Most summed predicted utilisation of a shared GPU, percent; 0: no cap.",
    };
    /// The order of the queue.
    pub const ORDER: Param = Param {
        name: "order",
        kind: Kind::Choice(super::Order::WORDS),
        default: "\"util-asc\"",
        about: "Order in which waiting jobs are tried.",
    };
    /// The public code's score.
    pub const COMPAT: Param = Param {
        name: "compat",
        kind: Kind::Flag,
        default: "false",
        about: "Score as the public code does, where memory in use counts in MiB and swamps all else.",
    };
    /// Whether tasks count.
    pub const COUNT: Param =
        Param { name: "count", kind: Kind::Flag, default: "true", about: "Whether each task on a GPU costs 1." };
    /// Two tasks of a gang on one GPU.
    pub const TWICE: Param = Param {
        name: "twice",
        kind: Kind::Flag,
        default: "false",
        about: "Whether two tasks of a gang may share a GPU, as in the authors' simulator; the host refuses such a start.",
    };
    /// Peaks.
    pub const PEAK: Param = Param {
        name: "peak",
        kind: Kind::Number { min: 1.0, max: 10.0 },
        default: "1",
        about: "Peak utilisation of a task over its predicted average; at most 100 % together.",
    };
}

/// The rules that a configuration with all of [`params`] asks for.
pub fn rules(config: &Config) -> Rules {
    let theta = config.number("theta");
    Rules {
        form: if config.flag("compat") { Form::Compat } else { Form::Normalised },
        mem_weight: config.number("mem_weight"),
        over_penalty: config.number("over_penalty"),
        max_tasks: config.number("max_tasks") as u32,
        margin: config.number("mem_margin"),
        theta: (theta > 0.0).then_some(theta),
        count: config.flag("count"),
        twice: config.flag("twice"),
    }
}

/// One queue.
pub struct Packer {
    view: PredictedCluster,
    order: Order,
    lookahead: usize,
    /// By rank.
    waiting: BTreeSet<(u64, u64, JobId)>,
}

impl Packer {
    /// An empty queue.
    pub fn new(view: PredictedCluster, order: Order, lookahead: usize) -> Packer {
        Packer { view, order, lookahead, waiting: BTreeSet::new() }
    }

    /// Updates the queue and the predicted cluster with a batch.
    pub fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        self.view.take_in(&batch.events, cluster);
        for event in &batch.events {
            for job in cluster.queued_by(event) {
                let kind = job.gpu_types[0];
                let used = if self.order == Order::Fifo { 0.0 } else { self.view.task(job, kind).util_avg };
                // A job that held GPUs before goes behind the jobs that have waited longer.
                let since = cluster.now() - job.waited(cluster.now());
                self.waiting.insert(self.order.rank(used, since, job.id));
            }
        }
        self.view.refresh(cluster);
    }

    /// Starts the jobs that find a place, one after another.
    pub fn start_what_fits(&mut self, cluster: &mut Cluster) {
        'again: loop {
            let first: Vec<(u64, u64, JobId)> = self.waiting.iter().take(self.lookahead).copied().collect();
            for rank in first {
                let job = cluster.job(rank.2);
                if let Some(gpus) = self.view.plan(cluster, job) {
                    self.view.start(cluster, rank.2, gpus);
                    self.waiting.remove(&rank);
                    continue 'again;
                }
            }
            return;
        }
    }

    /// Preempts the job that has run the longest, if any job waits (the public code's Gandiva-like slice).
    pub fn slice(&mut self, cluster: &mut Cluster) {
        if self.waiting.is_empty() {
            return;
        }
        let now = cluster.now();
        let movable = cluster.holders().filter(|job| job.may_be_moved());
        let oldest = movable.max_by_key(|job| (job.run_time(now), u32::MAX - job.id)).map(|job| job.id);
        if let Some(id) = oldest {
            self.view.preempt(cluster, id);
            cluster.call_again();
        }
    }
}
