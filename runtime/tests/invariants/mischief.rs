//! Actions drawn at random: from all that can be said, and near what the state allows, so that each rule is both kept
//! and broken often.

use std::collections::BTreeMap;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{JobId, SECOND};
use sandtable_runtime::cluster::{Cluster, Phase};
use sandtable_runtime::contract::{
    Action, BatchSplit, Demand, Node, Preempt, PreemptMode, Protect, SetBatch, Setup, Sharing, Start, StartOn,
    StartPart, Throttle, Timer,
};

use crate::cpu;

/// What actions are drawn from.
pub struct Scene<'a> {
    pub stream: &'a mut Stream,
    pub setup: &'a Setup,
    pub announced: &'a BTreeMap<u32, Demand>,
    pub state: &'a Cluster,
}

impl Scene<'_> {
    fn any(&mut self, most: usize) -> usize {
        (self.stream.integer() % most as u64) as usize
    }

    fn one_in(&mut self, most: usize) -> bool {
        self.any(most) == 0
    }

    /// An action, legal or not; with `near` every other is close to what the state allows.
    pub fn action(&mut self, near: bool) -> Action {
        if near
            && self.one_in(3)
            && let Some(action) = self.near_part()
        {
            return action;
        }
        let idle = cpu::waiting(self.announced.iter(), self.state);
        if near && !idle.is_empty() && self.one_in(3) {
            let (job, node) = (idle[self.any(idle.len())], self.any(self.setup.topology.nodes.len() + 1) as u32);
            return Action::StartOn(StartOn { job, node });
        }
        if !near || self.one_in(2) { self.anything() } else { self.near_legal() }
    }

    fn anything(&mut self) -> Action {
        let job = self.any(self.announced.len() + 2) as u32;
        let now = self.state.now;
        match self.any(14) {
            13 => Action::StartOn(StartOn { job, node: self.any(6) as u32 }),
            12 => Action::StartPart(StartPart { job, gpu: self.any(12) as u32, slice: self.any(10) as u32 }),
            11 => Action::Refuse(job),
            8 => {
                // Swaps, growths, moves and nonsense, one to three at a time; rarely nobody at all.
                let moves = if self.one_in(20) { 0 } else { 1 + self.any(3) };
                Action::Reassign((0..moves).map(|_| self.any_start()).collect())
            }
            9 => Action::SetBatch(SetBatch { job, batch: self.any_batch() }),
            10 => Action::Protect(Protect {
                gpu: self.any(20) as u32,
                until: (now + self.any(200) as u64 * SECOND).as_micros(),
            }),
            5 => Action::Throttle(Throttle { job, milli: self.any(1200) as u32 }),
            // Beside whoever is there: legal where GPUs are shared.
            6 | 7 => Action::Start(Start { job, gpus: vec![self.any(12) as u32], batch: None }),
            0 | 1 => Action::Preempt(Preempt { job, mode: self.any_mode() }),
            2 => {
                let count = self.any(4);
                Action::Start(Start { job, gpus: (0..count).map(|_| self.any(40) as u32).collect(), batch: None })
            }
            3 => Action::SetTimer(Timer {
                token: self.any(5) as u64,
                at: (now + self.any(100) as u64 * SECOND).as_micros(),
            }),
            _ => Action::CancelTimer(self.any(5) as u64),
        }
    }

    fn any_mode(&mut self) -> PreemptMode {
        if self.one_in(2) { PreemptMode::Checkpoint } else { PreemptMode::Kill }
    }

    fn any_batch(&mut self) -> BatchSplit {
        BatchSplit { local: self.any(12) as u32, accumulation: self.any(5) as u32 }
    }

    fn any_start(&mut self) -> Start {
        let count = 1 + self.any(4);
        let gpus = (0..count).map(|_| self.any(20) as u32).collect();
        Start { job: self.any(30) as u32, gpus, batch: self.one_in(3).then(|| self.any_batch()) }
    }

    fn near_legal(&mut self) -> Action {
        match self.any(13) {
            0..=3 => self.near_start(),
            4 => {
                let job = self.job_in(&[Phase::Starting, Phase::Running]);
                Action::Preempt(Preempt { job, mode: self.any_mode() })
            }
            5..=7 => self.near_reassign(),
            8 => {
                let job = self.elastic_ones().pop().unwrap_or_else(|| self.job_in(&[Phase::Running]));
                Action::SetBatch(SetBatch { job, batch: self.any_batch() })
            }
            9 => {
                let milli = [0, 1, 500, 1000, 1001, u32::MAX][self.any(6)];
                Action::Throttle(Throttle { job: self.job_in(&[Phase::Running]), milli })
            }
            10 | 11 => self.near_protect(),
            _ => {
                let now = self.state.now.as_micros();
                let far = [0, 1, (1 << 53) - 1 - now, 1 << 53][self.any(4)];
                let at = if self.one_in(8) { now.saturating_sub(1) } else { now + far };
                Action::SetTimer(Timer { token: self.any(8) as u64, at })
            }
        }
    }

    /// A job in one of these phases, if there is one.
    fn job_in(&mut self, phases: &[Phase]) -> u32 {
        let there = |job: &u32| phases.contains(&self.state.phase[*job as usize]);
        let all: Vec<u32> = (0..self.state.phase.len() as u32).filter(there).collect();
        if all.is_empty() { self.any(self.state.phase.len() + 1) as u32 } else { all[self.any(all.len())] }
    }

    /// Elastic jobs that hold GPUs, in any order.
    fn elastic_ones(&mut self) -> Vec<u32> {
        let holds = |job: &u32| matches!(self.state.phase[*job as usize], Phase::Starting | Phase::Running);
        let elastic = self.announced.iter().filter(|(_, info)| info.elastic.is_some());
        let mut all: Vec<u32> = elastic.map(|(job, _)| *job).filter(holds).collect();
        self.shuffle(&mut all);
        all
    }

    /// GPUs that hold a service's model.
    fn loaded(&self) -> Vec<u32> {
        let loaded = |gpu: &u32| self.state.pods.get(*gpu as usize).is_some_and(|pod| pod.service.is_some());
        (0..self.state.residents.len() as u32).filter(loaded).collect()
    }

    fn shuffle(&mut self, all: &mut [u32]) {
        for at in 1..all.len() {
            let other = self.any(at + 1);
            all.swap(at, other);
        }
    }

    /// A batch whose step is near the bounds of what a job may have.
    fn near_batch(&mut self, job: u32) -> Option<BatchSplit> {
        let elastic = self.announced.get(&job).and_then(|info| info.elastic);
        match elastic {
            Some(elastic) if self.one_in(3) => {
                let local =
                    elastic.least_local - 1 + self.any((elastic.most_local - elastic.least_local) as usize + 3) as u32;
                Some(BatchSplit { local, accumulation: self.any(4) as u32 })
            }
            _ => self.one_in(20).then(|| self.any_batch()),
        }
    }

    /// A waiting job on as many GPUs as it may have, of one node or of all.
    fn near_start(&mut self) -> Action {
        let mut job = self.job_in(&[Phase::Queued]);
        let nodes = &self.setup.topology.nodes;
        let all: u32 = nodes.iter().map(|node| node.gpus).sum();
        let mut gpus: Vec<u32> = (0..all).collect();
        let kind = nodes[self.any(self.setup.topology.nodes.len())].gpu_type;
        if !self.one_in(4) {
            let of = self.setup.topology.nodes.iter().filter(|node| node.gpu_type == kind);
            gpus = of.flat_map(|node| node.first_gpu..node.first_gpu + node.gpus).collect();
        }
        if !self.one_in(4) {
            let free = gpus.iter().copied().filter(|gpu| self.state.residents[*gpu as usize].is_empty());
            gpus = Some(free.collect()).filter(|free: &Vec<u32>| !free.is_empty()).unwrap_or(gpus);
        }
        // Those that hold a model may be kept for their service.
        let loaded = self.loaded();
        if !loaded.is_empty() && self.one_in(2) {
            gpus = loaded;
        }
        // Those that two have already are full for some.
        let two = |gpu: &u32| self.state.residents[*gpu as usize].len() > 1;
        let crowded: Vec<u32> = (0..all).filter(two).collect();
        if !crowded.is_empty() && self.one_in(2) {
            gpus = crowded;
        }
        self.shuffle(&mut gpus);
        if let Some(service) = self.state.pods.get(gpus[0] as usize).and_then(|pod| pod.service) {
            let waits = |job: &u32| self.state.phase[*job as usize] == Phase::Queued;
            let tasks = self.announced.iter().filter(|(_, info)| info.service == Some(service.number()));
            job = tasks.map(|(job, _)| *job).find(waits).unwrap_or(job);
        }
        let info = self.announced.get(&job);
        let elastic = info.is_some_and(|info| info.elastic.is_some());
        let asked = info.map_or(1, |info| info.gpus as usize);
        let more = usize::from(self.one_in(12));
        gpus.truncate(if elastic && self.one_in(2) { 1 + self.any(gpus.len() + 1) } else { asked + more });
        if let Some(each) = info.map(|info| info.gpus_per_node).filter(|each| *each > 0 && !self.one_in(4)) {
            gpus = self.in_shape(each as usize, asked + more);
        }
        if self.one_in(12) && !gpus.is_empty() {
            gpus.push(gpus[0]);
        }
        Action::Start(Start { job, gpus, batch: self.near_batch(job) })
    }

    /// A waiting job that asks for a part, mostly where a part of its size may begin, if there is one.
    fn near_part(&mut self) -> Option<Action> {
        let waits =
            |(job, info): &(&u32, &Demand)| info.part.is_some() && self.state.phase[**job as usize] == Phase::Queued;
        let all: Vec<(u32, u32)> =
            self.announced.iter().filter(waits).filter_map(|(job, info)| Some((*job, info.part?))).collect();
        if all.is_empty() {
            return None;
        }
        let (job, part) = all[self.any(all.len())];
        let topology = &self.setup.topology;
        let node = &topology.nodes[self.any(topology.nodes.len())];
        let starts = match &topology.gpu_types[node.gpu_type as usize].sharing {
            Sharing::Parts(parts) => parts.iter().find(|known| known.id == part).map(|known| &known.starts),
            _ => None,
        };
        let gpu = node.first_gpu + self.any(node.gpus as usize) as u32;
        let slice = match starts.filter(|_| !self.one_in(4)) {
            Some(starts) => starts[self.any(starts.len())],
            None => self.any(10) as u32,
        };
        Some(Action::StartPart(StartPart { job, gpu, slice }))
    }

    /// So many free GPUs of each node, up to so many in all.
    fn in_shape(&self, each: usize, all: usize) -> Vec<u32> {
        let free = |gpu: &u32| self.state.residents[*gpu as usize].is_empty();
        let on = |node: &Node| {
            let free: Vec<u32> = (node.first_gpu..node.first_gpu + node.gpus).filter(free).take(each).collect();
            if free.len() == each { free } else { vec![] }
        };
        self.setup.topology.nodes.iter().flat_map(on).take(all).collect()
    }

    /// Elastic jobs that share anew what they hold and what is free, or exchange it.
    fn near_reassign(&mut self) -> Action {
        let mut jobs = self.elastic_ones();
        jobs.truncate(1 + self.any(3));
        // Somebody who may not, or twice.
        if jobs.is_empty() || self.one_in(20) {
            jobs.push(self.job_in(&[Phase::Starting, Phase::Running]));
        }
        let holds = |job: &u32| {
            let known = (*job as usize) < self.state.phase.len();
            let held = if known { &self.state.held[JobId::new(*job)] } else { &[] };
            held.iter().map(|gpu| gpu.number()).collect()
        };
        let held: Vec<Vec<u32>> = jobs.iter().map(holds).collect();
        let mut moves = Vec::new();
        if self.one_in(3) {
            for (at, job) in jobs.iter().enumerate() {
                let gpus = held[(at + 1) % held.len()].clone();
                moves.push(Start { job: *job, gpus, batch: self.near_batch(*job) });
            }
            return Action::Reassign(moves);
        }
        let free = (0..self.state.residents.len()).filter(|gpu| self.state.residents[*gpu].is_empty());
        let mut pool: Vec<u32> = held.concat().into_iter().chain(free.map(|gpu| gpu as u32)).collect();
        pool.sort_unstable();
        pool.dedup();
        self.shuffle(&mut pool);
        for job in jobs {
            let count = (1 + self.any(3)).min(pool.len());
            let gpus = pool.split_off(pool.len() - count);
            moves.push(Start { job, gpus, batch: self.near_batch(job) });
        }
        Action::Reassign(moves)
    }

    /// A GPU that holds a model, if there is one, until before, at or after now.
    fn near_protect(&mut self) -> Action {
        let all = self.loaded();
        let gpu =
            if all.is_empty() { self.any(self.state.residents.len() + 1) as u32 } else { all[self.any(all.len())] };
        let now = self.state.now.as_micros();
        let mut until = [0, now, now + 1, now + 50_000_000, now + 500_000_000, 1 << 53][self.any(6)];
        // Until the policy is called, to the microsecond.
        if self.one_in(2) {
            until = self.state.timers.values().next().map_or(until, |at| at.as_micros());
        }
        Action::Protect(Protect { gpu, until })
    }
}
