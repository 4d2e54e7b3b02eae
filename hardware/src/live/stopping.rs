//! The preemption ladder: what is tried, in which order, when a job is to leave its slots. Levels are probed, never
//! assumed; the last, to kill, works everywhere.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{Live, Phase};
use crate::{BackendEvent, Cause, Duration, GpuId, Instant, JobId, SECOND, Split, StopMode, TimedEvent, TypeId};

/// A way of putting a job aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// It is asked to save its state and end (SIGUSR1, exit code 75): frees memory, goes on anywhere.
    Save,
    /// Its device memory is moved to the host (CUDA's checkpoint functions): frees memory, goes on where it was.
    Suspend,
    /// It is stopped where it is (SIGSTOP): keeps its memory, goes on where it was.
    Pause,
    /// It is ended: what it did since it last saved is lost.
    Kill,
}

/// Moving memory may take so many times as long as saving.
const MOVES_LONGER: u64 = 10;

impl Live {
    /// Has a job leave its slots in the best way that works.
    pub(super) fn put_aside(&mut self, id: JobId, mode: StopMode, happened: &mut Vec<TimedEvent>) {
        let state = &mut self.states[id];
        if let Phase::Stopping { again, by, .. } = &mut state.phase {
            // It was about to move: now it only leaves.
            *again = false;
            if *by == Level::Suspend && mode == StopMode::Kill {
                self.dismiss(id);
            }
            return;
        }
        if state.process.is_none() || state.aside.is_some() {
            // Not launched yet, or not brought back: nothing to save.
            let gpus = std::mem::take(&mut state.gpus);
            state.phase = Phase::Waiting;
            gpus.iter().for_each(|gpu| self.there[*gpu].retain(|other| *other != id));
            let what = BackendEvent::Released { job: id, cause: Cause::Asked, lost: Duration::ZERO };
            happened.push(TimedEvent { at: self.now, what });
            return;
        }
        if state.moving.is_some() && mode == StopMode::Checkpoint {
            // Its memory is on the way back: what comes of that decides.
            state.phase = Phase::Stopping { since: self.clock.now(), by: Level::Suspend, again: false };
            return;
        }
        let levels = match mode {
            StopMode::Checkpoint => self.setting.tasks[id].levels.clone(),
            StopMode::Kill => Vec::new(),
        };
        if let Some(what) = self.step_down(id, &levels) {
            happened.push(TimedEvent { at: self.now, what });
        }
    }

    /// Puts a job aside by the first of these levels that works, else kills it; what has happened at once.
    fn step_down(&mut self, id: JobId, levels: &[Level]) -> Option<BackendEvent> {
        for level in levels.iter().copied().chain([Level::Kill]) {
            let tried = match level {
                Level::Suspend => self.begin_to_suspend(id).map(|()| None),
                Level::Pause => self.pause(id).map(Some),
                Level::Save | Level::Kill => {
                    self.ask_to_leave(id, level, false);
                    Ok(None)
                }
            };
            match tried {
                Ok(happened) => return happened,
                Err(why) => self.note(id, &format!("can't be put aside by {level:?}: {why}")),
            }
        }
        None
    }

    /// Has a job go on with other slots: it saves, ends and begins anew there.
    pub(super) fn change(&mut self, id: JobId, gpus: &[GpuId], split: Option<Split>, happened: &mut Vec<TimedEvent>) {
        let state = &mut self.states[id];
        let was_running = state.phase == Phase::Running;
        (state.gpus, state.split) = (gpus.to_vec(), split);
        match state.phase {
            Phase::Stopping { since, by, .. } => state.phase = Phase::Stopping { since, by, again: true },
            _ if state.process.is_some() => {
                let saves = self.setting.tasks[id].levels.contains(&Level::Save);
                self.ask_to_leave(id, if saves { Level::Save } else { Level::Kill }, true);
            }
            // Its process has yet to come: it will come there.
            _ => {}
        }
        if was_running {
            happened.push(TimedEvent { at: self.now, what: BackendEvent::Stalled(id) });
        }
    }

    fn ask_to_leave(&mut self, id: JobId, by: Level, again: bool) {
        let state = &mut self.states[id];
        state.phase = Phase::Stopping { since: self.clock.now(), by, again };
        state.aside = None;
        let Some(process) = &state.process else { return };
        if by == Level::Kill {
            process.signal(Signal::TERM);
        } else {
            process.signal(Signal::USR1);
        }
        // A throttled one can't hear.
        process.signal(Signal::CONT);
    }

    /// Escalates: a save that times out gets SIGTERM, then SIGKILL.
    pub(super) fn escalate_stop(&mut self, id: JobId, now: Instant) {
        let patience = self.setting.patience;
        let state = &mut self.states[id];
        let Phase::Stopping { since, by, again } = state.phase else { return };
        let Some(process) = &state.process else { return };
        if by == Level::Suspend {
            self.moved_away(id, again);
            // The driver has not answered for so long that it will not.
            let state = &self.states[id];
            if state.moving.is_some() && now >= since + patience * MOVES_LONGER {
                self.note(id, "ended: its memory was not moved in time");
                self.dismiss(id);
            }
            return;
        }
        match by {
            Level::Save if now >= since + patience => {
                process.signal(Signal::TERM);
                state.phase = Phase::Stopping { since: now, by: Level::Kill, again };
            }
            Level::Kill if now >= since + patience.min(5 * SECOND) => process.signal(Signal::KILL),
            _ => {}
        }
    }

    /// A process that was to leave its slots has.
    pub(super) fn stopped(&mut self, id: JobId, again: bool, saved: bool) {
        self.settle(id, saved);
        if again {
            let state = &mut self.states[id];
            state.phase = Phase::Starting;
            state.unreported_loss += std::mem::take(&mut state.unsaved);
            self.there.iter_mut().for_each(|there| there.retain(|other| *other != id));
        } else {
            let lost = self.lose(id);
            self.release(id, BackendEvent::Released { job: id, cause: Cause::Asked, lost });
        }
    }

    /// Stops a process where it is, or says why not.
    fn pause(&mut self, id: JobId) -> Result<BackendEvent, String> {
        let device = self.device_of_job(id)?;
        if !self.room_for_paused(id, device) {
            return Err("the device has no room for it beside full slots".into());
        }
        let Some(process) = &self.states[id].process else { return Err("it has ended".into()) };
        process.signal(Signal::STOP);
        self.settle(id, false);
        Ok(self.release_frozen(id, Level::Pause, device))
    }

    /// Begins to move a job's device memory to the host, or says why not. Its slots are free when that is done.
    fn begin_to_suspend(&mut self, id: JobId) -> Result<(), String> {
        let device = self.device_of_job(id)?;
        let Some(process) = &self.states[id].process else { return Err("it has ended".into()) };
        // A throttled one can't come to a halt.
        process.signal(Signal::CONT);
        let moving = self.watch.suspend(process.id(), device)?;
        self.settle(id, false);
        let since = self.clock.now();
        let state = &mut self.states[id];
        state.moving = Some(moving);
        state.phase = Phase::Stopping { since, by: Level::Suspend, again: false };
        Ok(())
    }

    /// Looks whether the memory of a job that is to leave has been moved.
    fn moved_away(&mut self, id: JobId, again: bool) {
        let state = &mut self.states[id];
        let Some(moving) = &mut state.moving else { return };
        let (away, device) = (moving.away, moving.device);
        let Some(outcome) = moving.outcome() else { return };
        state.moving = None;
        let levels = self.setting.tasks[id].levels.clone();
        let from = levels.iter().position(|level| *level == Level::Suspend).unwrap_or(0);
        let levels = match (away, outcome) {
            (true, Ok(())) => {
                if let Some(process) = &state.process {
                    process.signal(Signal::STOP);
                }
                if again {
                    // It goes on with other slots, which only a new process can.
                    self.there.iter_mut().for_each(|there| there.retain(|other| *other != id));
                    self.begin_anew(id);
                    self.states[id].phase = Phase::Starting;
                } else {
                    let what = self.release_frozen(id, Level::Suspend, device);
                    self.happens(what);
                }
                return;
            }
            (true, Err(why)) => {
                self.note(id, &format!("can't be put aside by {:?}: {why}", Level::Suspend));
                &levels[from + 1..]
            }
            // It was told to leave while it came back.
            (false, Ok(())) => &levels[from..],
            (false, Err(why)) => {
                self.note(id, &format!("its memory can't be moved back: {why}"));
                &[]
            }
        };
        if again {
            let saves = levels.contains(&Level::Save);
            self.ask_to_leave(id, if saves { Level::Save } else { Level::Kill }, true);
        } else if let Some(what) = self.step_down(id, levels) {
            self.happens(what);
        }
    }

    /// The device that a job is on.
    fn device_of_job(&self, id: JobId) -> Result<usize, String> {
        let gpu = self.states[id].gpus.first().ok_or("it holds nothing")?;
        Ok(self.device(*gpu))
    }

    fn release_frozen(&mut self, id: JobId, level: Level, device: usize) -> BackendEvent {
        self.there.iter_mut().for_each(|there| there.retain(|other| *other != id));
        let state = &mut self.states[id];
        state.gpus.clear();
        state.aside = Some((level, device));
        state.phase = Phase::Waiting;
        (state.milli, state.held) = (1000, false);
        BackendEvent::Released { job: id, cause: Cause::Asked, lost: Duration::ZERO }
    }

    /// Whether a device holds what a paused job keeps beside full slots.
    fn room_for_paused(&self, id: JobId, device: usize) -> bool {
        let whole = self.watch.devices()[device].memory_mib;
        let kept = |state: &super::State| matches!(state.aside, Some((Level::Pause, on)) if on == device);
        let others = JobId::first(self.states.len()).filter(|other| kept(&self.states[*other]));
        let aside: u64 = others.map(|other| u64::from(self.asked_mib(other))).sum();
        let slots = u64::from(self.setting.slot_mib) * u64::from(self.fleet.slots);
        // On a device whose memory is not counted there is always room.
        whole == 0 || aside + u64::from(self.asked_mib(id)) + slots <= u64::from(whole)
    }

    fn asked_mib(&self, id: JobId) -> u32 {
        let job = &self.jobs[id];
        match self.laws.memory(TypeId::new(0), job) {
            0 => self.setting.slot_mib,
            asked => asked,
        }
        .saturating_mul(job.gpus)
    }

    /// Has a process go on that was put aside; whether that is possible. One whose memory is on the host goes on when that is
    /// back.
    pub(super) fn bring_back(&mut self, id: JobId, level: Level) -> bool {
        let Some(process) = &self.states[id].process else { return false };
        process.listener.now().forget_rate();
        process.signal(Signal::CONT);
        if level == Level::Suspend {
            let device = self.states[id].gpus.first().map_or(0, |gpu| self.fleet.device_of(*gpu));
            let Ok(moving) = self.watch.restore(process.id(), device) else { return false };
            self.states[id].moving = Some(moving);
        }
        true
    }

    /// Whether a job that starts waits for its memory to come back from the host; where it can't, the job begins anew.
    pub(super) fn comes_back(&mut self, id: JobId, now: Instant) -> bool {
        let state = &mut self.states[id];
        let Some(moving) = &mut state.moving else { return false };
        match moving.outcome() {
            None => return true,
            Some(Ok(())) => state.launched = now,
            Some(Err(why)) => {
                self.note(id, &format!("its memory can't be moved back, it begins anew: {why}"));
                self.begin_anew(id);
            }
        }
        self.states[id].moving = None;
        self.states[id].process.is_none()
    }

    /// Ends the process of a job that starts: it begins anew from what it saved.
    pub(super) fn begin_anew(&mut self, id: JobId) {
        let state = &mut self.states[id];
        state.unreported_loss += std::mem::take(&mut state.unsaved);
        if let Some(process) = state.process.take() {
            process.dismiss();
        }
    }

    /// Ends the process of a job at once, in any phase.
    pub(super) fn dismiss(&mut self, id: JobId) {
        if let Some(process) = &self.states[id].process {
            process.signal(Signal::KILL);
        }
    }

    /// The watchdog: ends a job that takes more than 110 % of its memory, and the newest job of a device that has less than
    /// 3 % of its memory left.
    pub(super) fn enforce_memory(&mut self) {
        self.watch.goes_on();
        for device in 0..self.watch.devices().len() {
            let Some(held) = self.watch.held(device) else { continue };
            let on: Vec<JobId> = JobId::first(self.states.len())
                .filter(|id| {
                    let state = &self.states[*id];
                    state.process.is_some()
                        && state.aside.is_none()
                        && state.gpus.first().is_some_and(|gpu| self.device(*gpu) == device)
                        && matches!(state.phase, Phase::Running | Phase::Starting)
                })
                .collect();
            for id in &on {
                let Some(process) = &self.states[*id].process else { continue };
                let took: u64 = held.iter().filter(|(group, _)| *group == process.id()).map(|(_, bytes)| bytes).sum();
                let budget = u64::from(self.budget(*id)) << 20;
                if budget > 0 && took * 10 > budget * 11 {
                    let (took, budget) = (took >> 20, budget >> 20);
                    self.note(*id, &format!("ended: it took {took} MiB of the {budget} that it may take"));
                    self.dismiss(*id);
                }
            }
            // What the driver keeps is not among what it calls used.
            let of = &self.watch.devices()[device];
            let whole = u64::from(of.memory_mib.saturating_sub(of.reserved_mib)) << 20;
            let used = self.watch.used(device).unwrap_or(0);
            if whole > 0 && (whole.saturating_sub(used)) * 100 < whole * 3 {
                let newest = on.iter().max_by_key(|id| (self.states[**id].launched, **id)).copied();
                if let Some(id) = newest.filter(|id| self.states[*id].kill_reason.is_none()) {
                    self.note(id, "ended: the device has less than 3 % of its memory left, and it came last");
                    self.states[id].kill_reason = Some(Cause::OutOfMemory);
                    self.dismiss(id);
                }
            }
        }
    }
}
