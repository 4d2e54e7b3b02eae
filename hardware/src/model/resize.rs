//! Elastic jobs on the model: their work is counted in steps at the initial batch, epoch by epoch; and what GPUs keep
//! of the services that they served.

use super::{Due, Phase, SimulatedBackend, Work};
use crate::elastic::{Rescale, placement};
use crate::{
    BackendEvent, Duration, Elastic, GpuId, Instant, JobId, Move, NodeId, SECOND, Sample, Split, TimedEvent, TypeId,
};

/// How an elastic job works.
pub(super) struct Training {
    /// Epochs that are done.
    epoch: u32,
    /// GPUs on each node, in the order of its ring.
    placement: Vec<u32>,
    split: Split,
    /// Steps of each epoch, where the job itself says how many.
    asked: Option<f64>,
    /// Since when it makes progress on these GPUs.
    from: Instant,
    /// When an epoch last ended, and what the job reported of it; where epochs end on whole ticks.
    ended: Option<(Instant, Sample)>,
}

impl SimulatedBackend {
    /// Jobs whose workload says so are elastic.
    pub(super) fn begin_training(&mut self) {
        for (id, job) in self.jobs.iter().enumerate().map(|(id, job)| (JobId::at(id), job)) {
            if let (Some(elastic), Some(batch)) = (self.laws.elastic(job), job.batch) {
                // Its last report is asked for after its end.
                self.states.keep(id);
                let state = &mut self.states[id];
                let split = elastic.split(batch, job.gpus);
                let asked = elastic.steps_asked(job.gpus, batch, job.work.as_secs_f64());
                let from = Instant::START;
                state.work =
                    Work::Elastic(Training { epoch: 0, placement: Vec::new(), split, asked, from, ended: None });
                state.left = asked.unwrap_or_else(|| elastic.epoch(0));
                state.saved = state.left;
            }
        }
    }

    fn elastic(&self, job: JobId) -> &Elastic {
        match self.laws.elastic(&self.jobs[job]) {
            Some(elastic) => elastic,
            None => unreachable!("job {job} is not elastic"),
        }
    }

    /// Returns what a start costs on these GPUs, and unloads the models that they held.
    pub(super) fn overhead(&mut self, id: JobId, gpus: &[GpuId]) -> Duration {
        let (costs, job) = (self.fleet.costs, &self.jobs[id]);
        let cost = match (job.service, self.laws.elastic(job)) {
            (Some(service), _) => {
                let warm = gpus.iter().all(|gpu| self.loaded.get(gpu.index()) == Some(&Some(service)));
                if warm { Duration::ZERO } else { self.fleet.services[service].cold_start }
            }
            (None, Some(_)) if costs.rescale.is_some() => {
                costs.rescale.map_or(Duration::ZERO, |rescale| self.rescale_cost(rescale, id, 0, gpus))
            }
            _ => self.start_cost(id),
        };
        self.unload(gpus);
        cost
    }

    /// What the next start of a job costs, where it has no cost of its own kind.
    pub(super) fn start_cost(&self, id: JobId) -> Duration {
        let costs = self.fleet.costs;
        let of_all = if self.states[id].started_before { costs.restore } else { costs.start };
        of_all.saturating_add(if costs.redeploy { Duration::ZERO } else { self.start_of(id) })
    }

    /// These GPUs hold no service's model any more.
    pub(super) fn unload(&mut self, gpus: &[GpuId]) {
        for gpu in gpus {
            if let Some(loaded) = self.loaded.get_mut(gpu.index()) {
                *loaded = None;
            }
        }
    }

    /// A task is done: its GPUs keep the service's model.
    pub(super) fn load(&mut self, id: JobId, gpus: &[GpuId]) {
        let service = self.jobs[id].service.filter(|_| self.fleet.keeps_models);
        for gpu in gpus {
            if let Some(loaded) = self.loaded.get_mut(gpu.index()) {
                *loaded = service;
            }
        }
    }

    /// An elastic job takes in its new placement.
    pub(super) fn settle_in(&mut self, id: JobId, split: Option<Split>) {
        let nodes: Vec<NodeId> = self.states[id].gpus.iter().map(|gpu| self.fleet.node_of(*gpu)).collect();
        let job = &self.jobs[id];
        let (Some(elastic), Some(batch)) = (self.laws.elastic(job), job.batch) else { return };
        let split = split.unwrap_or_else(|| elastic.split(batch, nodes.len() as u32));
        if let Some(training) = self.states[id].work.training_mut() {
            training.placement = placement(nodes.into_iter());
            training.split = split;
        }
        self.refresh_speed(id);
    }

    /// Steps a microsecond at its placement and batch in this epoch.
    fn refresh_speed(&mut self, id: JobId) {
        let Some(training) = self.states[id].work.training() else { return };
        let kind = self.fleet.type_of(self.states[id].gpus[0]);
        let elastic = self.elastic(id);
        let (steps, speed) = elastic.on_type(&self.fleet.types[kind]);
        let rate = elastic.rate(steps, &training.placement, training.split, training.epoch);
        self.states[id].speed = rate * speed / SECOND.as_micros_f64();
    }

    /// An elastic job makes progress on its GPUs from now on.
    pub(super) fn begin_stay(&mut self, id: JobId) {
        let now = self.now;
        if let Some(training) = self.states[id].work.training_mut() {
            training.from = now;
        }
    }

    /// When a job that is done then lets its GPUs go: those of an elastic one are held for whole slots.
    pub(super) fn end_of_slot(&self, id: JobId, done: Instant) -> Instant {
        let slot = self.fleet.costs.slot;
        match self.states[id].work.training() {
            Some(training) if !slot.is_zero() && training.epoch + 1 >= self.elastic(id).epochs => {
                let slots = done.saturating_since(training.from).as_micros().div_ceil(slot.as_micros());
                training.from.saturating_add(slot.saturating_mul(slots))
            }
            _ => done,
        }
    }

    /// When the epoch, or the job, is said to end: now, or at a whole tick.
    pub(super) fn nominal_end(&self, id: JobId) -> Instant {
        let (state, tick) = (&self.states[id], self.fleet.costs.epochs_end_on);
        // Slots say themselves when a job ends.
        if state.work.training().is_none() || tick.is_zero() || !self.fleet.costs.slot.is_zero() {
            return self.now;
        }
        let end = state.progress_from.since_start().as_micros_f64() + state.left / state.rate;
        let ticks = libm::rint(end / tick.as_micros_f64()) as u64;
        Instant::at(tick.saturating_mul(ticks)).max(state.progress_from)
    }

    /// Returns how long a job holds its GPUs after its last step; no time between two epochs.
    pub(super) fn linger(&self, id: JobId) -> Duration {
        let more = |training: &Training| training.epoch + 1 < self.elastic(id).epochs;
        if self.states[id].work.training().is_some_and(more) { Duration::ZERO } else { self.fleet.costs.linger }
    }

    /// An elastic job whose epoch has ended goes on to the next, if there is one.
    pub(super) fn next_epoch(&mut self, id: JobId, at: Instant) -> bool {
        let ended = if self.fleet.costs.epochs_end_on > Duration::ZERO {
            self.present(id).map(|sample| (self.now, sample))
        } else {
            None
        };
        let Some(training) = self.states[id].work.training_mut() else { return false };
        training.epoch += 1;
        training.ended = ended;
        let epoch = training.epoch;
        let elastic = self.elastic(id);
        if epoch >= elastic.epochs {
            return false;
        }
        let left = elastic.epoch(epoch);
        self.refresh_speed(id);
        let rate = self.rate(id);
        let state = &mut self.states[id];
        (state.left, state.saved, state.unsaved) = (left, left, Duration::ZERO);
        state.rate = rate;
        state.progress_from = at;
        state.generation += 1;
        true
    }

    /// A job that was settled goes on, or makes no progress `until` then.
    fn interrupt(&mut self, id: JobId, until: Instant, happened: &mut Vec<TimedEvent>) {
        let state = &mut self.states[id];
        state.generation += 1;
        state.progress_from = until;
        let generation = state.generation;
        if until > self.now {
            state.phase = Phase::Starting;
            self.schedule(until, Due::Run(id), generation);
        } else {
            self.begin(id, happened);
        }
    }

    /// Enters what a job has done so far; a second time changes nothing.
    pub(super) fn settle(&mut self, id: JobId) {
        let state = &self.states[id];
        let (left, unsaved) = (state.left - self.done(state), self.since_saved(state));
        let now = self.now;
        let state = &mut self.states[id];
        (state.left, state.unsaved) = (left, unsaved);
        // What is entered is not done again.
        state.redeploys = state.redeploys.saturating_sub(now.saturating_since(state.progress_from));
        state.progress_from = now.max(state.progress_from);
    }

    /// Elastic jobs go on with other GPUs: all have left theirs before the first takes its new ones, and all have
    /// their places before the pace of any job is looked at.
    pub(super) fn carry_over(&mut self, moves: Vec<Move>, happened: &mut Vec<TimedEvent>) {
        let mut left: Vec<GpuId> = Vec::new();
        let mut due: Vec<(JobId, Instant)> = Vec::new();
        for Move { job, gpus, split } in moves {
            self.settle(job);
            let before = std::mem::take(&mut self.states[job].gpus);
            self.depart(job, &before);
            let until = self.goes_on_at(job, &before, &gpus);
            let new: Vec<GpuId> = gpus.iter().copied().filter(|gpu| !before.contains(gpu)).collect();
            self.unload(&new);
            left.extend(before);
            let state = &mut self.states[job];
            state.phase = Phase::Starting;
            state.gpus = gpus;
            if !matches!(self.fleet.costs.rescale, Some(Rescale::Afe)) {
                // A restart is from a checkpoint.
                (state.saved, state.unsaved) = (state.left, Duration::ZERO);
            }
            self.settle_in(job, split);
            due.push((job, until));
        }
        due.iter().for_each(|(job, _)| self.come(*job));
        for (job, until) in due {
            self.interrupt(job, until, happened);
        }
        self.repace_on(&left, None, happened);
    }

    /// What an elastic job pays that goes from so many GPUs to these.
    fn rescale_cost(&mut self, rescale: Rescale, id: JobId, from: u32, gpus: &[GpuId]) -> Duration {
        let size = gpus.len() as u32;
        match rescale {
            Rescale::Gangs { again, .. } if !self.gangs.insert((gpus[0], size)) => again,
            _ => rescale.cost(self.elastic(id), from, size),
        }
    }

    /// When a job that leaves `before` has paid for going on with `gpus`.
    fn goes_on_at(&mut self, id: JobId, before: &[GpuId], gpus: &[GpuId]) -> Instant {
        let cost = match self.fleet.costs.rescale {
            Some(rescale) => self.rescale_cost(rescale, id, before.len() as u32, gpus),
            None => self.start_cost(id),
        };
        let drained = gpus.iter().map(|gpu| self.drained[*gpu]).max().unwrap_or(self.now).max(self.now);
        let state = &self.states[id];
        match state.phase {
            // What is left to pay is still to be paid; published simulators forget it.
            Phase::Starting if self.fleet.costs.epochs_end_on.is_zero() => (drained + cost).max(state.progress_from),
            _ => drained + cost,
        }
    }

    pub(super) fn change_batch(&mut self, id: JobId, split: Split, happened: &mut Vec<TimedEvent>) {
        if self.states[id].work.training().is_none_or(|training| training.split == split) {
            return;
        }
        // Where epochs end on whole ticks, what is set at an epoch's end holds from the tick at which it is said to end.
        let from_its_beginning = self.at_epochs_end(id).is_some();
        if !from_its_beginning {
            self.settle(id);
        }
        if let Some(training) = self.states[id].work.training_mut() {
            training.split = split;
        }
        self.refresh_speed(id);
        let cost = self.fleet.costs.batch;
        if from_its_beginning && cost.is_zero() {
            let rate = self.rate(id);
            let state = &mut self.states[id];
            state.rate = rate;
            state.generation += 1;
            return self.schedule_end(id);
        }
        match self.states[id].phase {
            Phase::Running if cost.is_zero() => self.repace(id, happened),
            Phase::Running => {
                happened.push(TimedEvent { at: self.now, what: BackendEvent::Stalled(id) });
                self.interrupt(id, self.now + cost, happened);
            }
            _ => {}
        }
    }

    pub(super) fn report(&self, id: JobId) -> Option<Sample> {
        let state = &self.states[id];
        if let Some(sample) = self.at_epochs_end(id) {
            return Some(sample);
        }
        (self.now > state.progress_from).then(|| self.present(id))?
    }

    /// Of a job that has ended an epoch at this very instant: what it reports of that.
    pub(super) fn at_epochs_end(&self, id: JobId) -> Option<Sample> {
        let state = &self.states[id];
        let (at, sample) = state.work.training()?.ended?;
        (at == self.now && state.phase == Phase::Running).then_some(sample)
    }

    fn present(&self, id: JobId) -> Option<Sample> {
        let state = &self.states[id];
        let training = state.work.training()?;
        if state.phase != Phase::Running {
            return None;
        }
        let kind = self.fleet.type_of(state.gpus[0]).index();
        // Its own steps are as slow as its neighbours make them.
        let elastic = self.elastic(id);
        let (steps, speed) = elastic.on_type(&self.fleet.types[kind]);
        let slowness = state.speed / state.rate / speed;
        Some(elastic.sample(steps, &training.placement, training.split, training.epoch, slowness))
    }

    /// So many GPUs on as few nodes of a type as hold them.
    fn packed(&self, gpu_type: TypeId, gpus: u32) -> Vec<u32> {
        let node = self.fleet.nodes.iter().filter(|node| node.gpu_type == gpu_type).map(|node| node.gpus).max();
        Elastic::packed(gpus, node.unwrap_or(1))
    }

    pub(super) fn step_and_left(&self, id: JobId, gpu_type: TypeId, gpus: u32) -> (f64, f64) {
        let (job, state) = (&self.jobs[id], &self.states[id]);
        let (Some(elastic), Some(batch), Some(training)) = (self.laws.elastic(job), job.batch, state.work.training())
        else {
            return (f64::NAN, f64::NAN);
        };
        let split = elastic.split(batch, gpus);
        let placement = self.packed(gpu_type, gpus);
        let (steps, speed) = elastic.on_type(&self.fleet.types[gpu_type]);
        let there = gpus <= self.fleet.gpus_of(gpu_type) && steps.knows(&placement);
        if !there || elastic.refuses(gpus, split).is_some() {
            return (f64::NAN, f64::NAN);
        }
        let step = steps.of_step(&placement, split) / speed;
        let left = match training.asked {
            Some(_) => state.left - self.done(state),
            None => elastic.steps_left(f64::from(batch), training.epoch),
        };
        (step, left)
    }

    /// The part of its work that an elastic job has done, with so much left of its epoch.
    pub(super) fn training_done(&self, id: JobId, left: f64) -> f64 {
        let Some(training) = self.states[id].work.training() else { return f64::NAN };
        if let Some(all) = training.asked {
            return (1.0 - left / all).max(0.0);
        }
        let elastic = self.elastic(id);
        let steps = |epochs: std::ops::Range<u32>| epochs.map(|epoch| elastic.epoch(epoch)).sum::<f64>();
        ((steps(0..training.epoch + 1) - left) / steps(0..elastic.epochs)).max(0.0)
    }

    /// Seconds left at the placement that a job holds, at its present pace; else at what its user asked for, packed on this
    /// type, with what a start costs.
    pub(super) fn training_left(&self, id: JobId, gpu_type: TypeId) -> f64 {
        let (job, state) = (&self.jobs[id], &self.states[id]);
        let (Some(training), false) = (state.work.training(), state.phase == Phase::Ended) else { return 0.0 };
        let elastic = self.elastic(id);
        let left = state.left - self.done(state);
        let on = |kind: usize, pace: f64, placement: &[u32], split: Split| {
            let (steps, speed) = elastic.on_type(&self.fleet.types[kind]);
            let seconds = left / elastic.rate(steps, placement, split, training.epoch)
                + elastic.seconds_from(steps, training.epoch + 1, placement, split);
            seconds / (speed * pace)
        };
        if !state.gpus.is_empty() {
            let waits = state.progress_from.saturating_since(self.now).as_secs_f64();
            let kind = self.fleet.type_of(state.gpus[0]).index();
            let pace = if state.phase == Phase::Running { state.rate / state.speed } else { 1.0 };
            return on(kind, pace, &training.placement, training.split) + waits;
        }
        let split = elastic.split(job.batch.unwrap_or(elastic.initial_batch), job.gpus);
        let placement = self.packed(gpu_type, job.gpus);
        if !elastic.on_type(&self.fleet.types[gpu_type]).0.knows(&placement) {
            return f64::NAN;
        }
        let start = match self.fleet.costs.rescale {
            Some(rescale) => rescale.cost(elastic, 0, job.gpus),
            None => self.start_cost(id),
        };
        on(gpu_type.index(), 1.0, &placement, split) + start.as_secs_f64()
    }
}
