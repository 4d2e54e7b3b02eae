//! From a place to progress: a job that is given GPUs begins, now or once what it costs is over, and one that held them when the
//! run began goes on.

use super::{Due, Phase, SimulatedBackend};
use crate::{BackendEvent, Beginning, Duration, Instant, JobId, Standing, TimedEvent};

impl SimulatedBackend {
    /// Jobs are as far as they were when the run began, and go on where they are.
    pub(super) fn go_on_from(&mut self, beginning: &Beginning) {
        for (id, standing) in &beginning.jobs {
            let work = self.jobs[*id].work;
            let left = |done: Duration| work.saturating_sub(done).as_micros_f64();
            let saved = standing.saved.min(standing.done);
            let state = &mut self.states[*id];
            (state.left, state.saved, state.started_before) = (left(standing.done), left(saved), true);
            state.unsaved = standing.done.saturating_sub(saved);
        }
        let mut happened = Vec::new();
        for (id, Standing { gpus, node, .. }) in beginning.holders() {
            let speed = gpus.first().map_or(1.0, |gpu| self.own_speed(id, self.fleet.type_of(*gpu)));
            self.states[id].gpus.clone_from(gpus);
            self.states[id].node = *node;
            self.prepare(id, speed, self.now);
            if node.is_none() {
                self.come(id);
            }
            self.begin_or_wait(id, &mut happened);
        }
        self.opening = happened;
    }

    /// A job that waits is given its place, where it makes progress from an instant on.
    pub(super) fn prepare(&mut self, job: JobId, speed: f64, from: Instant) {
        let state = &mut self.states[job];
        assert_eq!(state.phase, Phase::Waiting, "job {job} is started twice");
        state.started_before = true;
        state.speed = speed;
        state.throttle = 1.0;
        state.progress_from = from;
        if self.fleet.costs.leases.is_some() {
            // Until its lease begins.
            state.most = 0.0;
        }
    }

    /// A job that has its place makes progress, now or later.
    pub(super) fn begin_or_wait(&mut self, job: JobId, happened: &mut Vec<TimedEvent>) {
        let state = &self.states[job];
        let (from, generation) = (state.progress_from, state.generation);
        if from > self.now {
            self.states[job].phase = Phase::Starting;
            self.schedule(from, Due::Run(job), generation);
        } else {
            self.begin(job, happened);
        }
    }

    /// A job begins to make progress, if its GPUs' memory takes it.
    pub(super) fn begin(&mut self, id: JobId, happened: &mut Vec<TimedEvent>) {
        if self.dies(id, happened) {
            return;
        }
        let rate = self.rate(id);
        let state = &mut self.states[id];
        state.phase = Phase::Running;
        state.progress_from = self.now;
        state.rate = rate;
        self.begin_stay(id);
        happened.push(TimedEvent { at: self.now, what: BackendEvent::Running(id) });
        if rate != self.states[id].speed {
            self.pace(id, happened);
        }
        self.schedule_end(id);
        self.neighbours_repace(id, happened);
    }

    pub(super) fn schedule_end(&mut self, id: JobId) {
        if self.fleet.costs.leases.is_some() {
            // Its lease says when it ends.
            return;
        }
        let state = &self.states[id];
        let end = state.progress_from.saturating_add(Duration::from_micros_f64((state.left / state.rate).ceil()));
        // Beyond the end of time a job never ends.
        // What is set at an epoch's end holds from before: the next one may be over already.
        let end = end.max(self.nominal_end(id)).max(self.now).saturating_add(self.linger(id));
        let end = self.end_of_slot(id, end).min(Instant::END);
        self.schedule(end, Due::End(id), state.generation);
    }
}
