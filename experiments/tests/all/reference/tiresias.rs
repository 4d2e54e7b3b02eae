//! Tiresias' simulator, `simulator/run_sim.py` and `jobs.py` of SymbioticLab/Tiresias (commit 959f9b0), placement `count`:
//! `one_queue_fifo_sim_jobs`, `fit_first_sim_jobs`, `shortest_first_sim_jobs` and `dlas_sim_jobs`. It goes from event to
//! event in whole seconds; at one instant jobs end, then arrive, then one pass gives out the GPUs, which are counted.
//!
//! Python 2: a division of integers rounds down. Two of its defects are reproduced and told as [`Told::defect`].

use std::collections::BTreeMap;

use super::{LARGE, Task, Told, arrivals};

/// Starts that never end: an end is filed under an event that is being handled and then thrown away.
const LOST: &str = "a job of no duration never ends";
/// An arrival keeps the list of jobs that once were to end at the same instant, though a queue change came between.
const STALE: &str = "a job ends whose work is not done";

/// Jobs that arrive and end at an instant, as `fifo` and `fjf` keep them.
#[derive(Default)]
struct Event {
    ends: Vec<usize>,
    starts: Vec<usize>,
}

/// `fifo`, and with `skip` `fjf`: never preempts, by arrival; the head blocks or is skipped.
pub(crate) fn queue(tasks: &[Task], gpus: u32, skip: bool) -> Told {
    let mut told = Told::new(tasks);
    let mut events: BTreeMap<u64, Event> = BTreeMap::new();
    for (at, starts) in arrivals(tasks) {
        events.insert(at, Event { ends: Vec::new(), starts });
    }
    if !skip && tasks.iter().any(|task| task.gpus > gpus) {
        told.defect = Some(LARGE);
    }
    let (mut free, mut pending) = (gpus, Vec::new());
    while let Some((&now, event)) = events.first_key_value() {
        for &job in &event.ends {
            free += tasks[job].gpus;
            told.fates[job].end = Some(now);
        }
        pending.extend_from_slice(&event.starts);
        let mut started = Vec::new();
        for &job in &pending {
            if tasks[job].gpus <= free {
                free -= tasks[job].gpus;
                started.push(job);
            } else if !skip {
                break;
            }
        }
        pending.retain(|job| !started.contains(job));
        for job in started {
            told.fates[job].start = Some(now);
            events.entry(now + tasks[job].duration).or_default().ends.push(job);
            if tasks[job].duration == 0 {
                told.defect = Some(LOST);
            }
        }
        events.remove(&now);
    }
    told
}

/// A job that may be preempted.
#[derive(Clone, Default)]
struct Live {
    running: bool,
    executed: u64,
    checked: u64,
    queue: usize,
}

/// What the preemptive policies share.
struct State<'a> {
    tasks: &'a [Task],
    told: Told,
    live: Vec<Live>,
    /// Jobs in the system. Its order is kept from pass to pass.
    runnable: Vec<usize>,
}

impl<'a> State<'a> {
    fn new(tasks: &'a [Task]) -> State<'a> {
        State { tasks, told: Told::new(tasks), live: vec![Live::default(); tasks.len()], runnable: Vec::new() }
    }

    fn left(&self, job: usize) -> u64 {
        self.tasks[job].duration - self.live[job].executed
    }

    fn end(&mut self, job: usize, now: u64) {
        self.told.fates[job].end = Some(now);
        self.runnable.retain(|other| *other != job);
    }

    fn arrive(&mut self, job: usize, now: u64) {
        self.live[job].checked = now;
        self.runnable.push(job);
    }

    /// Service since the last event.
    fn execute(&mut self, job: usize, now: u64) {
        let live = &mut self.live[job];
        if live.running {
            live.executed += now - live.checked;
        }
        live.checked = now;
    }

    /// Gives GPUs to each in this order that still fits, and takes them from whoever does not.
    fn pass(&mut self, order: &[usize], gpus: u32, now: u64) {
        let mut free = gpus;
        for &job in order {
            let fits = self.tasks[job].gpus <= free;
            if fits {
                free -= self.tasks[job].gpus;
                self.told.fates[job].start.get_or_insert(now);
            } else if self.live[job].running {
                self.told.fates[job].preemptions += 1;
            }
            self.live[job].running = fits;
        }
    }

    /// The next instant at which running jobs end, and which.
    fn next_end(&self, now: u64) -> Option<(u64, Vec<usize>)> {
        let running = || self.runnable.iter().copied().filter(|&job| self.live[job].running);
        let first = running().map(|job| now + self.left(job)).min()?;
        Some((first, running().filter(|&job| now + self.left(job) == first).collect()))
    }
}

/// `shortest`, and with `by_gpus` `shortest-gpu`: all jobs by what is left of them, those that fit run.
pub(crate) fn shortest(tasks: &[Task], gpus: u32, by_gpus: bool) -> Told {
    let mut state = State::new(tasks);
    let mut arrivals = arrivals(tasks);
    let mut next_end: Option<(u64, Vec<usize>)> = None;
    loop {
        let start = arrivals.first_key_value().map_or(u64::MAX, |(at, _)| *at);
        let end = next_end.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let now = start.min(end);
        if now == u64::MAX {
            return state.told;
        }
        if let Some((_, ends)) = next_end.take_if(|(at, _)| *at == now) {
            ends.into_iter().for_each(|job| state.end(job, now));
        }
        arrivals.remove(&now).unwrap_or_default().into_iter().for_each(|job| state.arrive(job, now));
        for job in state.runnable.clone() {
            state.execute(job, now);
        }
        let mut order = state.runnable.clone();
        order.sort_by_key(|&job| state.left(job) * if by_gpus { u64::from(tasks[job].gpus) } else { 1 });
        state.runnable.clone_from(&order);
        state.pass(&order, gpus, now);
        next_end = state.next_end(now);
    }
}

/// Service, in GPU-seconds, at which a job leaves the first and the second queue.
const LIMITS: [u64; 2] = [3250, 7200];

/// `dlas-gpu`: three queues by attained service, jobs that fit run, and no way back.
pub(crate) fn las(tasks: &[Task], gpus: u32) -> Told {
    let mut state = State::new(tasks);
    let mut queues: [Vec<usize>; 3] = Default::default();
    let mut events: BTreeMap<u64, Event> = BTreeMap::new();
    for (at, starts) in arrivals(tasks) {
        events.insert(at, Event { ends: Vec::new(), starts });
    }
    let mut next_end: Option<(u64, Vec<usize>)> = None;
    let mut jump = u64::MAX;
    loop {
        let start = events.first_key_value().map_or(u64::MAX, |(at, _)| *at);
        let end = next_end.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let mut now = start.min(end);
        if now == u64::MAX {
            return state.told;
        }
        let ends = next_end.take().map(|(_, ends)| ends).unwrap_or_default();
        // The list is written into the arrival, and stays there if a queue change comes first.
        if let Some(event) = events.get_mut(&end).filter(|_| end == start) {
            event.ends.clone_from(&ends);
        }
        let mut event = Event::default();
        if now > jump {
            now = jump;
        } else if end < start {
            event.ends = ends;
        } else {
            event = events.remove(&now).unwrap_or_default();
        }
        for job in event.ends {
            let live = &state.live[job];
            let executed = live.executed + if live.running { now - live.checked } else { 0 };
            if executed < tasks[job].duration {
                state.told.defect = Some(STALE);
            }
            state.end(job, now);
            queues[state.live[job].queue].retain(|other| *other != job);
        }
        for job in event.starts {
            state.arrive(job, now);
            queues[0].push(job);
        }
        for job in state.runnable.clone() {
            state.execute(job, now);
            let live = &mut state.live[job];
            let service = live.executed * u64::from(tasks[job].gpus);
            if live.running && live.queue < LIMITS.len() && service >= LIMITS[live.queue] {
                queues[live.queue].retain(|other| *other != job);
                live.queue += 1;
                queues[live.queue].push(job);
            }
        }
        state.pass(&queues.concat(), gpus, now);
        for queue in &mut queues {
            queue.sort_by_key(|&job| !state.live[job].running);
        }
        next_end = state.next_end(now);
        jump = u64::MAX;
        for &job in &state.runnable {
            let live = &state.live[job];
            if live.running && live.queue < LIMITS.len() {
                // GPU-seconds less seconds, as published.
                jump = jump.min(now + (LIMITS[live.queue] - live.executed) / u64::from(tasks[job].gpus));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(gpus: u32, jobs: &[(u64, u32, u64)]) -> Vec<(u64, u32)> {
        let tasks: Vec<Task> = jobs.iter().map(|&(submit, gpus, duration)| Task { submit, gpus, duration }).collect();
        let told = las(&tasks, gpus);
        assert_eq!(told.defect, None);
        told.fates.iter().map(|fate| (fate.end.expect("an end"), fate.preemptions)).collect()
    }

    /// By hand: both cross their limit in the pass at 3250, the one that came first goes first.
    #[test]
    fn demotions_of_one_pass_go_by_arrival() {
        let ends: Vec<u64> =
            told(4, &[(0, 1, 2000), (50, 2, 4000), (100, 2, 2000), (100, 1, 4000)]).iter().map(|job| job.0).collect();
        assert_eq!(ends, [2000, 5700, 3700, 4450]);
    }

    /// By hand: who is preempted in a pass stands behind the runners after it.
    #[test]
    fn whoever_a_pass_preempts_goes_behind_its_runners() {
        let jobs = [(0, 3, 9000), (50, 5, 9000), (100, 5, 500), (3100, 4, 500), (3600, 7, 4000), (3700, 1, 2000)];
        let ends: Vec<u64> = told(8, &jobs).iter().map(|job| job.0).collect();
        assert_eq!(ends, [10500, 12150, 1240, 3600, 14650, 5700]);
    }
}
