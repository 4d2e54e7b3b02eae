//! Who is where, as the contract defines it: a preempted job's GPUs are free at once for whoever starts next, who
//! then waits for them to drain. The judge's scratch copy is this very state with a journal: undoing costs what was
//! done, copying would cost the whole fleet for every plan.

use std::collections::BTreeMap;

use sandtable_hardware::{Fleet, GpuId, JobId, Micros};

/// Where a job is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not submitted yet: no policy has heard of it.
    Future,
    /// Waits.
    Queued,
    /// Holds GPUs and makes no progress yet.
    Starting,
    /// Makes progress.
    Running,
    /// Saves its state.
    Stopping,
    /// Done, or never begun.
    Ended,
}

/// The state.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The instant.
    pub now: Micros,
    /// The number of the latest batch.
    pub seq: u64,
    /// Whom each GPU is given to, ascending.
    pub residents: Vec<Vec<JobId>>,
    /// Phase of each job.
    pub phase: Vec<Phase>,
    /// GPUs given to each job.
    pub held: Vec<Vec<GpuId>>,
    /// Whether each node is up.
    pub up: Vec<bool>,
    /// GPUs of each node given to nobody.
    pub free: Vec<u32>,
    /// Timers by token.
    pub timers: BTreeMap<u64, Micros>,
}

/// One step back.
#[derive(Debug)]
pub(crate) enum Undo {
    Start(JobId),
    Preempt(JobId, Phase),
    Set(u64),
    Cancel(u64, Micros),
    Nothing,
}

impl Cluster {
    /// An empty cluster and jobs that are still to come.
    pub fn new(fleet: &Fleet, jobs: usize) -> Cluster {
        Cluster {
            now: 0,
            seq: 0,
            residents: vec![Vec::new(); fleet.gpus() as usize],
            phase: vec![Phase::Future; jobs],
            held: vec![Vec::new(); jobs],
            up: vec![true; fleet.nodes.len()],
            free: fleet.nodes.iter().map(|node| node.gpus).collect(),
            timers: BTreeMap::new(),
        }
    }

    pub(crate) fn give(&mut self, fleet: &Fleet, job: JobId, gpus: &[GpuId]) -> Undo {
        for gpu in gpus {
            let there = &mut self.residents[*gpu as usize];
            if there.is_empty() {
                self.free[fleet.node_of(*gpu) as usize] -= 1;
            }
            let at = there.partition_point(|other| *other < job);
            assert_ne!(there.get(at), Some(&job), "GPU {gpu} is given to job {job} twice");
            there.insert(at, job);
        }
        self.held[job as usize] = gpus.to_vec();
        self.phase[job as usize] = Phase::Starting;
        Undo::Start(job)
    }

    /// Frees a job's GPUs; `held` keeps them for an undo.
    pub(crate) fn take(&mut self, fleet: &Fleet, job: JobId) -> Undo {
        let before = self.phase[job as usize];
        for gpu in &self.held[job as usize] {
            let there = &mut self.residents[*gpu as usize];
            there.retain(|other| *other != job);
            if there.is_empty() {
                self.free[fleet.node_of(*gpu) as usize] += 1;
            }
        }
        self.phase[job as usize] = Phase::Stopping;
        Undo::Preempt(job, before)
    }

    /// A job no longer holds what `take` left it, or lost what it held.
    pub(crate) fn release(&mut self, fleet: &Fleet, job: JobId, phase: Phase) {
        if matches!(self.phase[job as usize], Phase::Starting | Phase::Running) {
            self.take(fleet, job);
        }
        self.held[job as usize] = Vec::new();
        self.phase[job as usize] = phase;
    }

    pub(crate) fn undo(&mut self, fleet: &Fleet, undo: Undo) {
        match undo {
            Undo::Start(job) => {
                self.take(fleet, job);
                self.held[job as usize] = Vec::new();
                self.phase[job as usize] = Phase::Queued;
            }
            Undo::Preempt(job, before) => {
                let gpus = std::mem::take(&mut self.held[job as usize]);
                self.give(fleet, job, &gpus);
                self.phase[job as usize] = before;
            }
            Undo::Set(token) => {
                self.timers.remove(&token);
            }
            Undo::Cancel(token, at) => {
                self.timers.insert(token, at);
            }
            Undo::Nothing => {}
        }
    }
}
