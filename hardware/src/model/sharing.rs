//! What several jobs on a GPU do to each other: rates re-evaluated for the jobs that are touched and no others, memory that adds
//! up, and the job that finds none left.

use super::{Due, Phase, SimulatedBackend};
use crate::performance::{beside, out_of_memory};
use crate::{BackendEvent, GpuId, Job, JobId, SECOND, TimedEvent, TypeId};

impl SimulatedBackend {
    /// A job takes its place on its GPUs; memory and time it takes from when it begins to make progress.
    pub(super) fn come(&mut self, id: JobId) {
        if !self.there.is_empty() {
            for gpu in &self.states[id].gpus {
                self.there[self.fleet.device_of(*gpu)].push(id);
            }
        }
    }

    /// A job has left these GPUs: the jobs that stay go on at another speed.
    pub(super) fn leave(&mut self, id: JobId, gpus: &[GpuId], happened: &mut Vec<TimedEvent>) {
        self.depart(id, gpus);
        self.repace_on(gpus, None, happened);
    }

    /// A job has left these GPUs; no speed is updated yet.
    pub(super) fn depart(&mut self, id: JobId, gpus: &[GpuId]) {
        if !self.there.is_empty() {
            for gpu in gpus {
                self.there[self.fleet.device_of(*gpu)].retain(|other| *other != id);
            }
        }
    }

    /// The others on a job's GPUs go on at the pace that it leaves them.
    pub(super) fn neighbours_repace(&mut self, id: JobId, happened: &mut Vec<TimedEvent>) {
        if !self.there.is_empty() {
            let gpus = self.states[id].gpus.clone();
            self.repace_on(&gpus, Some(id), happened);
        }
    }

    /// Jobs on these GPUs, `but` for one, go on at the speed that holds now.
    pub(super) fn repace_on(&mut self, gpus: &[GpuId], but: Option<JobId>, happened: &mut Vec<TimedEvent>) {
        if self.there.is_empty() {
            return;
        }
        let mut touched: Vec<JobId> =
            gpus.iter().flat_map(|gpu| &self.there[self.fleet.device_of(*gpu)]).copied().collect();
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            if Some(id) != but {
                self.repace(id, happened);
            }
        }
    }

    /// Settles what a running job has done and goes on at the rate that holds now.
    pub(super) fn repace(&mut self, id: JobId, happened: &mut Vec<TimedEvent>) {
        let state = &self.states[id];
        if state.phase != Phase::Running {
            return;
        }
        let rate = self.rate(id);
        if rate == state.rate {
            return;
        }
        self.settle(id);
        let state = &mut self.states[id];
        state.rate = rate;
        state.generation += 1;
        self.pace(id, happened);
        self.schedule_end(id);
    }

    pub(super) fn pace(&self, id: JobId, happened: &mut Vec<TimedEvent>) {
        let state = &self.states[id];
        happened
            .push(TimedEvent { at: self.now, what: BackendEvent::Pace { job: id, pace: state.rate / state.speed } });
    }

    /// Work a microsecond: the slowest task's, and the communication that it leaves uncovered.
    pub(super) fn rate(&self, id: JobId) -> f64 {
        let (state, job) = (&self.states[id], &self.jobs[id]);
        let mut p = 1.0f64;
        // Parts of a GPU were measured as parts: they do not disturb each other.
        if self.fleet.contended() && !state.gpus.is_empty() {
            let gpu_type = self.fleet.type_of(state.gpus[0]);
            for gpu in &state.gpus {
                let there = &self.there[self.fleet.device_of(*gpu)];
                // One task of the job is itself; on a device of several slots its other tasks take their turns too.
                let own = there.iter().position(|other| *other == id);
                let others = there.iter().enumerate().filter(|(at, _)| Some(*at) != own).map(|(_, other)| other);
                let running = others.filter(|other| **other == id || self.states[**other].phase == Phase::Running);
                let pairs = running.map(|other| (&self.jobs[*other], self.states[*other].throttle));
                p = p.min(beside(&self.laws, gpu_type, job, pairs));
            }
        }
        if state.work.training().is_some() {
            return state.speed * state.throttle * p.max(1e-6);
        }
        // Two jobs that run out of memory together never both run.
        state.speed * state.throttle * self.laws.scaling(&self.fleet, job, &state.gpus, p.max(1e-6))
    }

    /// Whether a job that is about to begin finds too little memory: then it holds its GPUs for the relaunch cost.
    pub(super) fn dies(&mut self, id: JobId, happened: &mut Vec<TimedEvent>) -> bool {
        // On virtual slots each job has its own memory.
        if self.there.is_empty() || self.fleet.slots > 1 {
            return false;
        }
        let gpus = &self.states[id].gpus;
        let Some(gpu_type) = gpus.first().map(|gpu| self.fleet.type_of(*gpu)) else { return false };
        let holds = |other: &JobId| {
            let state = &self.states[*other];
            *other == id || (state.phase != Phase::Starting && !state.died)
        };
        let full = |gpu: &GpuId| {
            let crowd: Vec<JobId> = self.there[self.fleet.device_of(*gpu)].iter().copied().filter(holds).collect();
            // A job that is alone fits: the judge has checked that.
            crowd.len() > 1 && out_of_memory(&self.laws, &self.fleet, gpu_type, &self.jobs, &crowd)
        };
        if !gpus.iter().any(full) {
            return false;
        }
        let until = self.now + self.fleet.costs.relaunch.max(SECOND);
        let state = &mut self.states[id];
        state.phase = Phase::Stopping;
        state.died = true;
        state.generation += 1;
        let generation = state.generation;
        // The next job on these GPUs waits until it has been cleared away.
        for gpu in state.gpus.iter() {
            let drained = &mut self.drained[*gpu];
            *drained = (*drained).max(until);
        }
        happened.push(TimedEvent { at: self.now, what: BackendEvent::Died(id) });
        self.schedule(until, Due::Release(id), generation);
        true
    }

    /// Progress of a job on a GPU beside these, by the laws alone; 0 where they run out of memory.
    pub(super) fn speed_beside(&self, gpu_type: TypeId, id: JobId, residents: &[JobId]) -> f64 {
        let mut crowd: Vec<JobId> = residents.iter().copied().filter(|other| *other != id).collect();
        let others: Vec<&Job> = crowd.iter().map(|other| &self.jobs[*other]).collect();
        let speed = match self.fleet.contended() {
            true => beside(&self.laws, gpu_type, &self.jobs[id], others.into_iter().map(|job| (job, 1.0))),
            false => 1.0,
        };
        crowd.push(id);
        if crowd.len() > 1 && out_of_memory(&self.laws, &self.fleet, gpu_type, &self.jobs, &crowd) {
            0.0
        } else {
            speed
        }
    }
}
