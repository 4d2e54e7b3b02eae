//! Jobs in an order that never changes: by a key that a job has for life, and by id among equals.

use crate::{
    Backfill, Backlog, Batch, Cluster, Config, Event, Job, JobId, Kind, Lines, NodeHealth, NodeId, Param, Placement,
    PolicyError, QuotaQueue, Reason, Setup,
};

/// The jobs of a policy that serves the one with the least key first, with or without preemption.
pub struct FixedOrder {
    /// The same for a job as long as it lives.
    key: fn(&Job) -> u64,
    way: Way,
    place: Placement,
    /// Whether jobs are moved off nodes that drain.
    moves: bool,
    /// Nodes that have begun to drain since the last pass.
    draining: Vec<NodeId>,
}

enum Way {
    /// The first jobs share the cluster, the others stop.
    Preempt(QuotaQueue<u64>),
    /// Jobs keep what they hold.
    Wait(Backlog, Backfill),
}

impl FixedOrder {
    /// Its parameters.
    pub const PARAMS: [Param; 6] = [
        Param {
            name: "preempt",
            kind: Kind::Flag,
            default: "true",
            about: "Whether a job that comes first takes the GPUs of jobs that come later.",
        },
        Param {
            about: "Without `preempt`: what happens behind a job that finds no place: it blocks, is skipped, or is jumped where estimates allow: where that does not delay it (EASY), or any job before (conservative).",
            ..Backfill::PARAM
        },
        Backfill::DEPTH,
        Param {
            about: "Without `preempt`: which jobs one that finds no place holds up: all behind it, or those that may run on its types of GPU, as where each partition has its own.",
            ..Lines::PARAM
        },
        Placement::PARAM,
        Param {
            name: "draining",
            kind: Kind::Choice(&["leave", "move"]),
            default: "\"leave\"",
            about: "What happens to jobs on a node that is about to go down: they run on, or those that may be preempted save their state as soon as that is announced, to go on elsewhere.",
        },
    ];

    /// The order of a configuration with [`FixedOrder::PARAMS`]. `key` must be the same for a job as long as it lives.
    ///
    /// # Errors
    /// `Unsupported` as [`Backfill::new`].
    pub fn new(config: &Config, setup: &Setup, key: fn(&Job) -> u64) -> Result<FixedOrder, PolicyError> {
        let lines = Lines::named(config.choice("lines"));
        let way = match config.flag("preempt") {
            true => Way::Preempt(QuotaQueue::default()),
            false => Way::Wait(Backlog::new(lines), Backfill::new(config, setup)?),
        };
        let (place, moves) = (Placement::named(config.choice("placement")), config.choice("draining") == "move");
        Ok(FixedOrder { key, way, place, moves, draining: Vec::new() })
    }

    /// Takes in what a batch tells of jobs.
    pub fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        let key = self.key;
        for event in &batch.events {
            if let Event::NodeChanged(change) = event
                && self.moves
                && change.health == NodeHealth::Draining
            {
                self.draining.push(change.node);
            }
            match (&mut self.way, event) {
                (Way::Wait(backlog, _), _) => {
                    cluster.queued_by(event).for_each(|job| backlog.push(job, key(job)));
                }
                (Way::Preempt(queue), Event::JobArrived(arrival)) => put(queue, cluster, arrival.job, key),
                (Way::Preempt(queue), Event::JobChanged(change)) => put(queue, cluster, change.job, key),
                (Way::Preempt(queue), Event::JobEnded(end)) => queue.take(end.job),
                (Way::Preempt(queue), Event::Rejected(_)) => {
                    cluster.rejected_jobs().for_each(|id| put(queue, cluster, id, key));
                }
                (Way::Preempt(_), _) => {}
            }
        }
    }

    /// Takes out a job that waits.
    pub fn remove(&mut self, job: &Job) {
        match &mut self.way {
            Way::Preempt(queue) => queue.take(job.id),
            Way::Wait(backlog, _) => backlog.remove(job, (self.key)(job)),
        }
    }

    /// Why a job waits, after [`FixedOrder::pass`].
    pub fn why(&self, job: &Job, cluster: &Cluster) -> Reason {
        match &self.way {
            Way::Wait(backlog, backfill) => backlog.why(job, cluster, *backfill),
            Way::Preempt(_) => cluster.why(job),
        }
    }

    /// Starts and preempts jobs as the order says.
    pub fn pass(&mut self, cluster: &mut Cluster) {
        for node in std::mem::take(&mut self.draining) {
            for id in cluster.holders_on(node) {
                if cluster.job(id).preemptible {
                    cluster.preempt(id);
                    cluster.call_again();
                    if let Way::Preempt(queue) = &mut self.way {
                        queue.take(id);
                    }
                }
            }
        }
        match &mut self.way {
            Way::Wait(backlog, backfill) => backlog.start(cluster, self.place, *backfill),
            Way::Preempt(queue) => {
                let changes = queue.walk(cluster, self.place);
                let chosen = changes.chosen.into_iter().map(|(id, _)| id);
                for id in changes.preempted.into_iter().chain(chosen) {
                    put(queue, cluster, id, self.key);
                }
            }
        }
    }
}

fn put(queue: &mut QuotaQueue<u64>, cluster: &Cluster, id: JobId, key: fn(&Job) -> u64) {
    match cluster.get(id) {
        Some(job) => queue.put(cluster, id, key(job)),
        None => queue.take(id),
    }
}
