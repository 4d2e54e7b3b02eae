//! Nodes that fail and are repaired, or are taken back by their owners, each with a stream of its own, so that what happens to one
//! never moves another; and nodes that are taken down.

use super::{Due, JobState, Phase, SimulatedBackend};
use crate::random::Stream;
use crate::{BackendEvent, Cause, Duration, GpuId, Instant, JobId, Maintenance, NodeId, Revocable, SECOND, TimedEvent};

/// Why a node is down, and what is to happen to it.
#[derive(Default)]
pub(super) struct NodeState {
    /// Of one that may fail.
    clock: Option<NodeClock>,
    /// It has failed and is not repaired.
    failed: bool,
    /// Times of maintenance that have begun and are not over.
    away: u32,
    /// Times in which it takes no jobs, and what runs there goes on.
    closed: u32,
    /// Of one that its owner may take back.
    owner: Option<NodeClock>,
    /// Its owner has taken it back.
    taken: bool,
    /// When it goes down, as far as that is announced.
    announced: Vec<Instant>,
}

struct NodeClock {
    stream: Stream,
}

impl NodeState {
    fn is_up(&self) -> bool {
        !self.failed && self.away == 0 && !self.taken
    }

    fn takes_jobs(&self) -> bool {
        self.is_up() && self.closed == 0
    }
}

impl SimulatedBackend {
    pub(super) fn begin_failures(&mut self, seed: u64) {
        self.nodes.resize_with(self.fleet.nodes.len(), NodeState::default);
        if let Some(failures) = self.fleet.failures {
            for node in 0..self.fleet.nodes.len() {
                let mut clock = NodeClock { stream: Stream::new(seed, &format!("failures/{node}")) };
                let at = self.now + clock.draw(failures.mtbf);
                self.nodes[node].clock = Some(clock);
                self.schedule(at, Due::NodeDown(NodeId::at(node)), 0);
            }
        }
        for node in NodeId::first(self.fleet.nodes.len()) {
            if let Some(terms) = self.fleet.nodes[node].revocable {
                let mut clock = NodeClock { stream: Stream::new(seed, &format!("revocations/{node}")) };
                let at = self.now + clock.draw(terms.held);
                self.nodes[node].owner = Some(clock);
                self.schedule(at, Due::AskBack(node), 0);
            }
        }
        for at in 0..self.fleet.maintenance.len() {
            let maintenance = self.fleet.maintenance[at];
            if maintenance.to <= self.now && self.now > Instant::START {
                continue;
            }
            // What had begun before the run did begins with it.
            if !maintenance.jobs_go_on {
                self.schedule(maintenance.announced.max(self.now), Due::Announce(at), 0);
            }
            self.schedule(maintenance.from.max(self.now), Due::TakeDown(at), 0);
            self.schedule(maintenance.to, Due::BringBack(at), 0);
        }
    }

    pub(super) fn fail(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        let (was_up, took_jobs) = (self.nodes[node].is_up(), self.nodes[node].takes_jobs());
        self.nodes[node].failed = true;
        if was_up {
            self.down(node, Cause::NodeLost, took_jobs, happened);
        }
        if let Some(back) = self.drawn(node, |failures| failures.repair) {
            self.schedule(back, Due::NodeUp(node), 0);
        }
    }

    pub(super) fn repair(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        self.nodes[node].failed = false;
        self.up(node, happened);
        if let Some(at) = self.drawn(node, |failures| failures.mtbf) {
            self.schedule(at, Due::NodeDown(node), 0);
        }
    }

    /// Maintenance is announced.
    pub(super) fn announce(&mut self, at: usize, happened: &mut Vec<TimedEvent>) {
        let (node, until) = (self.fleet.maintenance[at].node, self.fleet.maintenance[at].from);
        self.drain(node, until, happened);
    }

    /// It is announced that a node goes down.
    fn drain(&mut self, node: NodeId, until: Instant, happened: &mut Vec<TimedEvent>) {
        let state = &mut self.nodes[node];
        state.announced.push(until);
        if state.takes_jobs() && until > self.now {
            happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeDrains { node, until } });
        }
    }

    /// What was announced for this instant comes true.
    fn no_longer_announced(&mut self, node: NodeId, until: Instant) {
        let announced = &mut self.nodes[node].announced;
        if let Some(at) = announced.iter().position(|known| *known == until) {
            announced.remove(at);
        }
    }

    /// The owner of a node says that it wants it back.
    pub(super) fn ask_back(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        let notice = self.fleet.nodes[node].revocable.map_or(Duration::ZERO, |terms| terms.notice);
        let until = self.now + notice;
        self.drain(node, until, happened);
        self.schedule(until, Due::TakeBack(node), 0);
    }

    /// The owner of a node has it back.
    pub(super) fn take_back(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        self.no_longer_announced(node, self.now);
        let (was_up, took_jobs) = (self.nodes[node].is_up(), self.nodes[node].takes_jobs());
        self.nodes[node].taken = true;
        if was_up {
            self.down(node, Cause::NodeTakenBack, took_jobs, happened);
        }
        self.after_owner(node, |terms| terms.away, Due::HandBack(node));
    }

    /// The owner of a node hands it over once more.
    pub(super) fn hand_back(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        self.nodes[node].taken = false;
        self.up(node, happened);
        self.after_owner(node, |terms| terms.held, Due::AskBack(node));
    }

    /// What the owner of a node does next, after a time that is drawn.
    fn after_owner(&mut self, node: NodeId, mean: impl Fn(Revocable) -> Duration, due: Due) {
        if let (Some(terms), Some(clock)) = (self.fleet.nodes[node].revocable, self.nodes[node].owner.as_mut()) {
            let at = self.now + clock.draw(mean(terms));
            self.schedule(at, due, 0);
        }
    }

    /// Maintenance begins.
    pub(super) fn take_down(&mut self, at: usize, happened: &mut Vec<TimedEvent>) {
        let Maintenance { node, from, jobs_go_on, .. } = self.fleet.maintenance[at];
        let (was_up, took_jobs) = (self.nodes[node].is_up(), self.nodes[node].takes_jobs());
        if jobs_go_on {
            self.nodes[node].closed += 1;
            if took_jobs {
                happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeDown(node) });
            }
            return;
        }
        self.no_longer_announced(node, from);
        self.nodes[node].away += 1;
        if was_up {
            self.down(node, Cause::NodeLost, took_jobs, happened);
        }
    }

    /// Maintenance is over.
    pub(super) fn bring_back(&mut self, at: usize, happened: &mut Vec<TimedEvent>) {
        let Maintenance { node, jobs_go_on, .. } = self.fleet.maintenance[at];
        let state = &mut self.nodes[node];
        *if jobs_go_on { &mut state.closed } else { &mut state.away } -= 1;
        self.up(node, happened);
    }

    /// What runs on a node is lost. That a node which took no jobs is down is no news.
    fn down(&mut self, node: NodeId, cause: Cause, took_jobs: bool, happened: &mut Vec<TimedEvent>) {
        if took_jobs {
            happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeDown(node) });
        }
        let place = &self.fleet.nodes[node];
        // What was being saved there is gone: no start waits for it.
        self.drained[place.gpu_indices()].fill(self.now);
        // Nor does it hold a model any more.
        let gpus: Vec<GpuId> = place.gpu_ids().collect();
        self.unload(&gpus);
        for job in self.jobs_on(node) {
            let lost = self.roll_back(job);
            self.let_go(job, cause, lost, happened);
        }
    }

    /// The node is back, where nothing else keeps it down.
    fn up(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        let state = &self.nodes[node];
        if !state.takes_jobs() {
            return;
        }
        happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeUp(node) });
        if let Some(until) = state.announced.iter().copied().filter(|until| *until > self.now).min() {
            happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeDrains { node, until } });
        }
    }

    /// When a node that may fail fails or is repaired next.
    fn drawn(&mut self, node: NodeId, mean: impl Fn(crate::Failures) -> Duration) -> Option<Instant> {
        let (failures, clock) = (self.fleet.failures?, self.nodes[node].clock.as_mut()?);
        Some(self.now + clock.draw(mean(failures)))
    }

    /// Jobs that hold a GPU of the node, or are on it without any, by id. Failures are rare: a scan will do.
    fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        let place = &self.fleet.nodes[node];
        let gpus = place.gpu_indices();
        let holds = |phase| matches!(phase, Phase::Starting | Phase::Running | Phase::Stopping);
        let is_there =
            |state: &JobState| state.node == Some(node) || state.gpus.iter().any(|gpu| gpus.contains(&gpu.index()));
        let there = self.states.live().filter(|(_, state)| holds(state.phase) && is_there(state));
        there.map(|(id, _)| id).collect()
    }
}

impl NodeClock {
    /// At least a second, so that time always goes on.
    fn draw(&mut self, mean: Duration) -> Duration {
        Duration::from_micros_f64(self.stream.exponential(mean.as_micros_f64())).max(SECOND)
    }
}
