//! GPUs that are leased for rounds: what a job does in one, and when the round is over.
//!
//! Between rounds nothing runs: policies decide, then all jobs that hold GPUs begin a lease at once. In it a job does whole steps; the round is over
//! when the last of its jobs is done with its steps. Steps of a lease are settled when the round is over.

use std::collections::BTreeMap;

use super::{Due, Phase, SimulatedBackend, Work};
use crate::regime::Steps;
use crate::{BackendEvent, Cause, Duration, Instant, JobId, Leases, SECOND, TimedEvent, TypeId};

/// The fifth lease in a row with nothing to do ends a job.
const FAILED_LEASES: u32 = 5;

/// The rounds of a fleet.
#[derive(Default)]
pub(super) struct Rounds {
    /// How many have begun.
    begun: u64,
    /// When the latest began.
    began: Instant,
    /// Whether one goes on.
    goes_on: bool,
    /// Jobs that have had a lease.
    jobs: BTreeMap<JobId, Leased>,
}

/// What is kept of a job between its leases.
#[derive(Default)]
struct Leased {
    /// Time that it was at work, in seconds.
    busy_s: f64,
    /// Leases in a row with nothing to do.
    failed: u32,
    /// The round of its last lease, from 1.
    round: u64,
    /// Seconds that it takes alone, as it is planned.
    planned_s: f64,
    /// The batch to which it goes over at the end of its next lease.
    wants: Option<u32>,
    /// What it does in its lease.
    lease: Option<Lease>,
}

#[derive(Clone, Copy)]
struct Lease {
    /// Steps, or microseconds of work.
    steps: f64,
    /// Seconds until it is done with them.
    seconds: f64,
    /// Seconds of these that it loses to a restart.
    restart: f64,
}

impl SimulatedBackend {
    /// Jobs whose workload has a regime count steps: as many as their work is at the batch that they begin with.
    pub(super) fn begin_regimes(&mut self) {
        for (id, job) in self.jobs.iter().enumerate().map(|(id, job)| (JobId::at(id), job)) {
            let Some((regime, first)) = self.laws.regime(job) else { continue };
            let all = regime.steps(first, job.work.as_secs_f64()).unwrap_or(0.0).max(1.0);
            let state = &mut self.states[id];
            state.work = Work::Stepped(Steps { batch: first.batch, all: all as u64, done: 0 });
            (state.left, state.saved) = (all, all);
        }
    }

    /// Steps a microsecond of a job with a regime, with its present batch on GPUs of speed 1.
    pub(super) fn stepping(&self, id: JobId) -> Option<f64> {
        self.steps_a_second(id).map(|rate| rate / SECOND.as_micros_f64())
    }

    fn steps_a_second(&self, id: JobId) -> Option<f64> {
        let Work::Stepped(steps) = self.states[id].work else { return None };
        let (regime, first) = self.laws.regime(&self.jobs[id])?;
        regime.rate(first.gpus, steps.batch)
    }

    /// Whether jobs that hold GPUs began a lease.
    pub(super) fn begin_leases(&mut self) -> bool {
        let Some(rule) = self.fleet.costs.leases.filter(|_| !self.rounds.goes_on) else { return false };
        let holders: Vec<JobId> =
            self.states.live().filter(|(_, state)| state.phase == Phase::Running).map(|(id, _)| id).collect();
        if holders.is_empty() {
            return false;
        }
        let before = self.rounds.began;
        (self.rounds.begun, self.rounds.began, self.rounds.goes_on) = (self.rounds.begun + 1, self.now, true);
        let mut over = self.now;
        for id in holders {
            over = over.max(self.begin_lease(id, rule, before));
        }
        self.schedule(over, Due::RoundOver, 0);
        true
    }

    /// Returns when a job is done with the steps of its lease; `before`: when the round before began.
    fn begin_lease(&mut self, id: JobId, rule: Leases, before: Instant) -> Instant {
        let round = self.rounds.begun;
        if !self.rounds.jobs.contains_key(&id) {
            // A job that was there when the last round began has looked at its batch since.
            let there = round > 1 && self.jobs[id].submit <= before;
            let wants = if there { self.wants(id) } else { None };
            let planned_s = self.laws.planned_s(&self.jobs[id]);
            self.rounds.jobs.insert(id, Leased { planned_s, wants, ..Leased::default() });
        }
        let state = &self.states[id];
        let (left, slowed) = (state.left, state.rate / state.speed);
        let kind = self.fleet.type_of(state.gpus[0]);
        let speed = self.fleet.types[kind].speed;
        let a_second =
            self.steps_a_second(id).map_or(state.rate * SECOND.as_micros_f64(), |rate| rate * speed * slowed);
        // Work of a rigid job is time at speed 1.
        let faster = if matches!(state.work, Work::Stepped(_)) { speed } else { state.speed };
        let Some(leased) = self.rounds.jobs.get_mut(&id) else { unreachable!("it was entered above") };
        let limit_s = rule.limit.map_or(f64::INFINITY, |times| (leased.planned_s / faster).floor() * times).floor();
        let was_there = round == 1 || leased.round + 1 == round;
        leased.round = round;
        let mut steps = (a_second * rule.length.as_secs_f64()).floor().min(left);
        let (seconds, mut restart) = (steps / a_second, 0.0);
        let end = self.now.saturating_add(Duration::from_micros_f64(libm::rint(seconds * 1e6)));
        let mut ends = false;
        let mut from = self.now;
        if steps > 0.0 {
            leased.failed = 0;
            if !was_there && seconds > rule.brief.as_secs_f64() {
                restart = rule.restart.as_secs_f64();
                steps = (steps * ((seconds - restart) / seconds)).floor();
                from = self.now + rule.restart;
            }
            ends = left - steps <= 0.0 || leased.busy_s + (seconds - restart) > limit_s;
        } else {
            leased.failed += 1;
            ends |= leased.failed >= FAILED_LEASES;
        }
        leased.lease = Some(Lease { steps, seconds, restart });
        let state = &mut self.states[id];
        (state.progress_from, state.most) = (from, steps);
        let generation = state.generation;
        if ends {
            self.schedule(end, Due::End(id), generation);
        }
        end
    }

    /// Settles what jobs did in the round that is over.
    pub(super) fn end_leases(&mut self, happened: &mut Vec<TimedEvent>) {
        self.rounds.goes_on = false;
        let mut rounds = std::mem::take(&mut self.rounds.jobs);
        for (id, leased) in &mut rounds {
            let is_over = self.states[*id].phase == Phase::Ended;
            if let Some(Lease { steps, seconds, restart }) = leased.lease.take() {
                happened
                    .push(TimedEvent { at: self.now, what: BackendEvent::LeaseEnded { job: *id, seconds, restart } });
                leased.busy_s += seconds - restart;
                if !is_over {
                    self.settle_lease(*id, steps, leased.wants);
                }
            }
            leased.wants = if is_over { None } else { self.wants(*id) };
        }
        rounds.retain(|id, _| self.states[*id].phase != Phase::Ended);
        self.rounds.jobs = rounds;
        happened.push(TimedEvent { at: self.now, what: BackendEvent::RoundOver });
    }

    /// A job that has done so many steps, and goes over to another batch if it wants to.
    fn settle_lease(&mut self, id: JobId, steps: f64, wants: Option<u32>) {
        let regime = self.laws.regime(&self.jobs[id]).map(|(regime, _)| regime);
        let state = &mut self.states[id];
        let mut left = state.left - steps;
        if let (Work::Stepped(now), Some(regime)) = (&mut state.work, regime) {
            now.done += steps as u64;
            if let Some(batch) = wants {
                *now = regime.rescaled(*now, batch);
            }
            left = now.all.saturating_sub(now.done) as f64;
        }
        (state.left, state.saved, state.unsaved) = (left, left, Duration::ZERO);
        (state.progress_from, state.most) = (self.now, 0.0);
        let speed = self.own_speed(id, self.fleet.type_of(self.states[id].gpus[0]));
        let state = &mut self.states[id];
        (state.rate, state.speed) = (speed * (state.rate / state.speed), speed);
    }

    /// Seconds of a step at a job's present batch on so many GPUs of a type, and how many are left.
    pub(super) fn step_of_regime(&self, id: JobId, steps: Steps, gpu_type: TypeId, gpus: u32) -> (f64, f64) {
        let rate = self.laws.regime(&self.jobs[id]).and_then(|(regime, _)| regime.rate(gpus, steps.batch));
        let state = &self.states[id];
        (rate.map_or(f64::NAN, |rate| 1.0 / (rate * self.fleet.types[gpu_type].speed)), state.left - self.done(state))
    }

    /// Seconds that the steps left of a job take, at its present batch.
    pub(super) fn steps_left_s(&self, id: JobId, gpu_type: TypeId) -> f64 {
        let state = &self.states[id];
        let kind = state.gpus.first().map_or(gpu_type, |gpu| self.fleet.type_of(*gpu));
        let rate = self.steps_a_second(id).map_or(f64::NAN, |rate| rate * self.fleet.types[kind].speed);
        if state.phase == Phase::Ended { 0.0 } else { (state.left - self.done(state)) / rate }
    }

    fn wants(&self, id: JobId) -> Option<u32> {
        let Work::Stepped(steps) = self.states[id].work else { return None };
        let (regime, first) = self.laws.regime(&self.jobs[id])?;
        regime.wants(first, steps)
    }

    /// A job lets its GPUs go: what it would have done in its lease is not done.
    pub(super) fn break_lease(&mut self, id: JobId, cause: Cause) {
        if let Some(leased) = self.rounds.jobs.get_mut(&id) {
            leased.lease = None;
            // Who lost its node restarts, however soon; who moves between two rounds was in the one before.
            leased.round = if cause == Cause::Asked { leased.round } else { 0 };
        }
    }
}
