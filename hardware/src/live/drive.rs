//! The trait by which the loop drives real devices: waiting for what happens, carrying out what is asked, and what jobs show.

use super::{LOOK, Live, Phase, wait};
use crate::{
    Backend, BackendEvent, Duration, Fleet, GpuId, Instant, JobId, Move, NodeId, Sample, Split, StopMode, TimedEvent,
    TypeId,
};

impl Backend for Live {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn advance(&mut self, until: Option<Instant>, happened: &mut Vec<TimedEvent>) {
        loop {
            self.look_around();
            let next = self.events.front().copied().filter(|event| until.is_none_or(|until| event.at <= until));
            if let Some(event) = next {
                self.now = self.now.max(event.at);
                self.events.pop_front();
                happened.push(TimedEvent { at: self.now, what: event.what });
                return;
            }
            let wall = self.clock.now();
            if let Some(until) = until.filter(|until| *until <= wall) {
                self.now = self.now.max(until);
                return;
            }
            let idle = !self.busy();
            if self.over && idle {
                // Nothing runs any more: whatever is still to come comes at once, and fails.
                self.now = self.now.max(until.unwrap_or(self.now));
                return;
            }
            if (self.setting.poll_wakeup)() {
                self.now = self.now.max(wall).min(until.unwrap_or(wall));
                return;
            }
            if until.is_none() && idle {
                return;
            }
            let left = until.map_or(LOOK, |until| until - wall);
            wait(left.min(LOOK));
        }
    }

    fn start(&mut self, job: JobId, gpus: &[GpuId], split: Option<Split>, _: &mut Vec<TimedEvent>) {
        let state = &mut self.states[job];
        assert_eq!(state.phase, Phase::Waiting, "job {job} is started twice");
        (state.gpus, state.split) = (gpus.to_vec(), split);
        state.phase = Phase::Starting;
        self.launch_ready();
    }

    /// Jobs of devices have some: an experiment with others does not begin.
    fn start_on(&mut self, job: JobId, _: NodeId, _: &mut Vec<TimedEvent>) {
        self.note(job, "it asks for no GPU");
        self.end(job, BackendEvent::Failed { job, status: 127 });
    }

    fn forget(&mut self, job: JobId) {
        let state = &mut self.states[job];
        (state.phase, state.aside) = (Phase::Over, None);
        // One that was put aside still has its process.
        if let Some(process) = state.process.take() {
            process.dismiss();
        }
    }

    fn reassign(&mut self, moves: Vec<Move>, happened: &mut Vec<TimedEvent>) {
        for Move { job, gpus, split } in moves {
            if !self.attend(job, happened) {
                self.change(job, &gpus, split, happened);
            }
        }
    }

    fn set_batch(&mut self, job: JobId, split: Split, happened: &mut Vec<TimedEvent>) {
        if !self.attend(job, happened) && self.states[job].split != Some(split) {
            let gpus = self.states[job].gpus.clone();
            self.change(job, &gpus, Some(split), happened);
        }
    }

    fn sample(&self, job: JobId) -> Option<Sample> {
        let state = &self.states[job];
        let (rate, of) = (self.rate(job)?, &self.jobs[job]);
        let elastic = self.laws.elastic(of)?;
        let gpus = state.gpus.len() as u32;
        let split = state.split.unwrap_or_else(|| elastic.split(of.batch.unwrap_or(1), gpus));
        // A pass of each slot is a step of the requested gang's, divided among so many.
        let step_s = f64::from(gpus) / f64::from(of.gpus.max(1)) / rate.max(1e-9);
        let steps = self.setting.tasks[job].steps.max(1) as f64;
        let epoch = (self.progress(job) / steps * f64::from(elastic.epochs)) as u32;
        let placement = crate::elastic::placement(state.gpus.iter().map(|gpu| self.fleet.node_of(*gpu)));
        // Built-in work trains nothing: its gradients are the profile's.
        let told = elastic.sample(&elastic.steps, &placement, split, epoch.min(elastic.epochs.saturating_sub(1)), 1.0);
        Some(Sample { step_s, sync_s: 0.0, ..told })
    }

    fn steps(&self, job: JobId, _: TypeId, gpus: u32) -> (f64, f64) {
        let steps = self.setting.tasks[job].steps;
        let left = steps as f64 - self.progress(job);
        let time = crate::replay::step_s(&self.jobs[job], steps, gpus);
        (time, if self.setting.tasks[job].steps > 0 { left.max(0.0) } else { f64::NAN })
    }

    fn stop(&mut self, job: JobId, mode: StopMode, happened: &mut Vec<TimedEvent>) {
        if !self.attend(job, happened) {
            self.put_aside(job, mode, happened);
        }
    }

    fn throttle(&mut self, job: JobId, milli: u32, happened: &mut Vec<TimedEvent>) {
        if self.attend(job, happened) {
            return;
        }
        let state = &mut self.states[job];
        state.milli = milli.clamp(1, 1000);
        if state.milli == 1000
            && std::mem::take(&mut state.held)
            && let Some(process) = &state.process
        {
            process.signal(rustix::process::Signal::CONT);
        }
    }

    fn speed(&self, job: JobId) -> f64 {
        let state = &self.states[job];
        let alone = self.rate_alone(job, state.gpus.len());
        match (state.phase, self.rate(job), alone) {
            (Phase::Running, Some(rate), Some(alone)) => rate / alone,
            _ => f64::NAN,
        }
    }

    fn alone(&self, job: JobId, gpu_type: TypeId) -> f64 {
        self.laws.speed(&self.fleet, gpu_type, &self.jobs[job])
    }

    fn pair_speed(&self, gpu_type: TypeId, job: JobId, residents: &[JobId]) -> f64 {
        // The truth is what was measured beforehand.
        self.laws.pair_speed(gpu_type, job, residents, &self.jobs)
    }

    fn remaining(&self, job: JobId, _: TypeId) -> f64 {
        let (state, of) = (&self.states[job], &self.jobs[job]);
        let steps = self.setting.tasks[job].steps as f64;
        if state.phase == Phase::Over {
            return 0.0;
        }
        if steps == 0.0 {
            // Its steps are not known: it takes its duration, and has done what it ran of it.
            let running = state.running_since.map_or(Duration::ZERO, |since| self.clock.now().saturating_since(since));
            return of.work.saturating_sub(state.kept + state.unsaved + running).as_secs_f64();
        }
        let left = (steps - self.progress(job)).max(0.0);
        let rate = self.rate(job).filter(|rate| *rate > 0.0);
        let alone = self.rate_alone(job, if state.gpus.is_empty() { of.gpus as usize } else { state.gpus.len() });
        rate.or(alone).map_or(f64::NAN, |rate| left / rate)
    }
}
